//! Tests of the lazy-trie store: against a model, with crashes, with damaged files, with threads.

mod authenticated;
mod bus_error;
mod compact;
mod crash;
mod crash_life;
mod damage;
mod format;
mod kill;
mod lanes;
mod model;
mod proofs;
mod proofs_when_asked;
mod random;
mod side_by_side;
mod threads;
mod unlogged;
