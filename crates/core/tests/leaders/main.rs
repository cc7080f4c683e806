//! Who leads a view: each election against its words, over made-up chains and over chains that
//! grow under it.

mod blacklist;
mod carousel;
mod chain;
mod pure;
mod reputation;
mod sim;
