//! Why a block was not executed, or a snapshot not taken over.

use super::rules::UnknownRules;
use crate::base::types::{Digest, Height};
use crate::base::wire::DecodeError;
use crate::ledger::progress::Poison;
use crate::ledger::sessions::ReplyCountError;
use crate::ledger::state_machine::{
    KeepError, MAX_BLOCK_REPLY_BYTES, MAX_COMMAND_REPLY_BYTES, RestoreError,
};

/// A block that could not be executed. The replica must halt: its state is behind or of no use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExecutionError {
    /// A block was left out, or executed again.
    #[error("the block to execute has height {found}, the next height is {expected}")]
    Height {
        /// The height behind the latest state.
        expected: Height,
        /// The height of the block.
        found: Height,
    },
    /// The application broke its contract. Going on would give clients the replies of others.
    #[error(
        "block at height {height}: {source}; the application has a bug, and every replica that runs it stops here"
    )]
    ReplyCount {
        /// The height of the block.
        height: Height,
        /// What it did.
        source: ReplyCountError,
    },
    /// The application panicked. Its state may be half changed, and is of no use.
    #[error(
        "the application panicked on the block at height {height}{}: {message}",
        at.map(|at| format!(", on {at}")).unwrap_or_default()
    )]
    Panicked {
        /// The height of the block.
        height: Height,
        /// The command at work, as far as the number of replies tells; `None`: behind the last.
        at: Option<Poison>,
        /// What the panic said.
        message: String,
    },
    /// The application gave a reply that is longer than a reply may be.
    #[error(
        "the application gave a reply of {bytes} bytes in the block at height {height}{}, and a reply \
         has at most {MAX_COMMAND_REPLY_BYTES} bytes, those to a block {MAX_BLOCK_REPLY_BYTES}",
        at.map(|at| format!(", to {at}")).unwrap_or_default()
    )]
    ReplyTooLong {
        /// The height of the block.
        height: Height,
        /// The command.
        at: Option<Poison>,
        /// How long the reply was.
        bytes: usize,
    },
    /// The epoch executes in a way that this program does not know.
    #[error(transparent)]
    Rules(#[from] UnknownRules),
    /// The state that outlives the process could not be read or written.
    #[error("block at height {height}: {source}")]
    Kept {
        /// The height of the block.
        height: Height,
        /// What failed.
        source: KeepError,
    },
}

/// A snapshot that was not taken over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// The first chunk is no header.
    #[error("header of the snapshot: {0}")]
    Header(DecodeError),
    /// A chunk is empty.
    #[error("a chunk of the snapshot is empty")]
    Empty,
    /// It is larger than the cluster allows.
    #[error("the snapshot has more than {limit_bytes} bytes (limits.max_snapshot_bytes)")]
    TooLarge {
        /// What is allowed.
        limit_bytes: u64,
    },
    /// Its chunks cannot be checked one by one, and did not come to an end in time.
    #[error("the snapshot did not come whole in {seconds} s; the next peer has twice as long")]
    TooSlow {
        /// How long its sender had.
        seconds: u64,
    },
    /// The snapshot is of an epoch whose rules this program does not know.
    #[error(transparent)]
    Rules(#[from] UnknownRules),
    /// The snapshot is of another block's state.
    #[error("the snapshot is of the state at height {found}, and not of the one that was offered")]
    Other {
        /// Of which height it is.
        found: Height,
    },
    /// The session table could not be read. Chunks count from behind the header.
    #[error("sessions in the snapshot: {0}")]
    Sessions(RestoreError),
    /// The application refused its part. Chunks count from behind the session table.
    #[error("application's part of the snapshot: {0}")]
    Application(RestoreError),
    /// The snapshot is well formed, and of another state.
    #[error("the snapshot has root {found}, {expected} was certified; fetch it from another peer")]
    Root {
        /// The root it should have.
        expected: Digest,
        /// The root it has.
        found: Digest,
    },
}
