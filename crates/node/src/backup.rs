//! Backups of a cluster's state and blocks, in a folder that proves itself.
//!
//! A backup is taken over the network while the cluster runs, as a client: no replica is stopped
//! or believed. It holds *states* and *blocks*.
//!
//! - A **state** is a snapshot of one height, with the offer that replicas make to a peer that is
//!   behind: a certificate of the state's root.
//! - **Blocks** are the decided blocks above it, with what proves them
//!   ([`Proof`](crate::client::pull::Proof)).
//!
//! Together they give the state of every height from the first state on: a snapshot, and the blocks
//! above it executed again. The next backup into the same folder adds the blocks since then, and no
//! more. It adds a state where replicas do not keep those blocks any more. (Chunks of snapshots
//! cannot be shared between states: each carries a proof under its own root.)
//!
//! [`folder`] has the files, [`create`] makes them, [`verify`] checks them without asking anybody,
//! [`restore`] starts replicas from them.

mod application;
pub mod create;
pub mod folder;
mod offered;
pub mod restore;
#[cfg(test)]
mod tests;
pub mod verify;

use std::fmt;
use std::path::{Path, PathBuf};

use quorate_store::lock::LockError;
use quorate_store::snapshot::SnapshotError;

use crate::config::{Finding, Place};

/// Why a backup was not made, believed or restored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BackupError {
    /// What was asked for cannot be had. Nothing was changed.
    #[error("{0}")]
    Refused(Finding),
    /// A file of the backup is damaged, or proves nothing.
    #[error("{0}")]
    Damaged(Finding),
    /// The system or the cluster failed. It may be tried again.
    #[error("{0}")]
    Failed(Finding),
}

/// What to do about a file that is not what was written.
const OTHER_COPY: &str = "take the file from another copy of this backup; without one, remove it, \
                          and make a new state with `quorate backup create --full`";

impl BackupError {
    fn refused(what: impl fmt::Display, path: &Path, remedy: &str) -> Self {
        Self::Refused(finding(what, path, remedy))
    }

    fn damaged(what: impl fmt::Display, path: &Path) -> Self {
        Self::Damaged(finding(what, path, OTHER_COPY))
    }

    fn failed(what: impl fmt::Display, path: &Path, remedy: &str) -> Self {
        Self::Failed(finding(what, path, remedy))
    }

    /// What the file at `path` is refused for.
    fn of_file(error: &SnapshotError, path: &Path) -> Self {
        match error {
            SnapshotError::Damaged { offset, what, .. } => {
                Self::damaged(format!("it is damaged at offset {offset}: {what}"), path)
            }
            SnapshotError::Foreign { what, .. } => Self::damaged(what, path),
            SnapshotError::Io { source, .. }
                if source.kind() == std::io::ErrorKind::UnexpectedEof =>
            {
                Self::damaged("it ends early", path)
            }
            error => Self::failed(error, path, "see to the disk (space, permissions, health)"),
        }
    }

    fn locked(error: &LockError, path: &Path) -> Self {
        match error {
            LockError::Held { .. } => Self::refused(error, path, "wait for the other process"),
            LockError::Io { .. } => Self::failed(error, path, "see to the folder's permissions"),
        }
    }
}

fn finding(what: impl fmt::Display, path: &Path, remedy: &str) -> Finding {
    let place = Place::File(PathBuf::from(path));
    Finding { what: what.to_string(), place, remedy: remedy.to_owned() }
}
