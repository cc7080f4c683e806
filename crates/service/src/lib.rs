//! A replica as a whole program, around a state machine of one's own.
//!
//! Implement [`StateMachine`], and [`Program::main`] does the rest: arguments, configuration,
//! sockets, signals, HTTP, exit codes. `quorate testnet init --program PATH` makes a cluster of it,
//! and `quorate testnet up` runs it. `docs/own-service.md` is the way from an empty folder to four
//! replicas.
//!
//! This crate hands on all that a service needs of the others: what a state machine is, and the
//! [`client`].
#![deny(unsafe_code)]

pub mod arguments;
pub mod bridge;
pub mod client;
mod exit;
pub mod logging;
pub mod notify;
pub mod parent;
pub mod pipe;
mod program;
mod scheduling;
mod settings;
pub mod start;
mod stdout;

pub use bytes::Bytes;
pub use exit::{Exit, Failure, tell_findings};
pub use program::Program;
pub use quorate_core::Digest;
pub use quorate_core::ledger::state_machine::{
    Decided, KeepError, MAX_BLOCK_REPLY_BYTES, MAX_CHUNK_BYTES, MAX_COMMAND_REPLY_BYTES, Reader,
    Replies, RestoreError, Snapshot, StateMachine, Usage,
};
pub use settings::{Keys, Settings};

/// A snapshot that is in memory already: for states that are small.
///
/// ```
/// use quorate_service::{Bytes, Chunks, Snapshot as _};
///
/// let mut handed = Vec::new();
/// Chunks(vec![Bytes::from_static(b"a"), Bytes::from_static(b"b")]).chunks(&mut |chunk| {
///     handed.extend_from_slice(chunk);
///     true
/// });
/// assert_eq!(handed, b"ab");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunks(
    /// The chunks, each of at most [`MAX_CHUNK_BYTES`].
    pub Vec<Bytes>,
);

impl Snapshot for Chunks {
    fn chunks(&self, sink: &mut dyn FnMut(&[u8]) -> bool) {
        let _ = self.0.iter().all(|chunk| sink(chunk));
    }
}

/// The code of the pages for people who write services compiles.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../README.md")]
    mod readme {}
    #[doc = include_str!("../../../docs/own-service.md")]
    mod own_service {}
}
