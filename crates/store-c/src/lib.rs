//! The C interface of `quorate-store`'s lazy-trie store: `quorate_store.h`, a static and a shared
//! library.
//!
//! The head of the header and the comment of each function state the rules of ownership and of
//! threads. The functions here check their arguments, call the store, and turn its errors into a
//! status and a message.
//!
//! This crate consists of unsafe code. Each function must trust its caller in points that C cannot
//! express; its section *Safety* lists them.
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
