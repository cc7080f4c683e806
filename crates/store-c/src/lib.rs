//! The lazy-trie store of `quorate-store` for C: `quorate_store.h`, a static and a shared library.
//!
//! The rules of ownership and of threads stand at the head of the header, and with each function. Nothing is decided here: functions
//! check their arguments, call the store, and turn its errors into a status and a message.
//!
//! Unsafe code is what this crate is for: each function trusts its caller for what C cannot express, and says for what under *Safety*.
#![allow(unsafe_code)]
#![deny(unsafe_op_in_unsafe_fn)]

mod arguments;
mod batch;
mod outcome;
mod snapshot;
mod statistics;
mod store;
#[cfg(test)]
mod tests;

pub use batch::*;
pub use outcome::{QuorateStoreStatus, quorate_store_error_message};
pub use snapshot::*;
pub use statistics::*;
pub use store::*;
