//! The lazy-trie store: against a model, through crashes, with damaged files, under threads.

mod model;
mod random;
