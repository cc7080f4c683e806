//! State guarded by the log lock: the log, the versions that are in it and synced, and the last
//! checkpoint.

use super::batch::{FIRST, LAST, MIDDLE, WHOLE};
use super::error::Error;
use super::head::{Head, HeadFile};
use super::queue::Queue;
use crate::wal::{Durability, Log};

/// The log, and the last checkpoint.
pub(super) struct LogSide {
    pub(super) log: Log,
    pub(super) head_file: HeadFile,
    pub(super) head: Head,
    /// The last version in the log.
    pub(super) settled: u64,
    /// The last version confirmed by a sync of the log.
    pub(super) synced: u64,
    /// Batches committed since the store was opened, logged or not.
    pub(super) commits: u64,
    /// The batches that are being written to the log.
    pub(super) taken: Queue,
    /// Whether a commit of a [lane](super::lanes) is being written. Otherwise its thread panicked.
    pub(super) writing: bool,
}

impl LogSide {
    /// Whether the log has the settled commits and no part of another.
    ///
    /// # Errors
    /// [`Error::Stopped`] if the thread of a lane panicked while it wrote the log. Its record may
    /// be there, and another of the same version must not follow.
    pub(super) fn check_whole(&self) -> Result<(), Error> {
        if self.writing {
            let reason = "a writer panicked while it wrote the log".to_owned();
            return Err(Error::Stopped { reason });
        }
        Ok(())
    }

    /// Syncs the log.
    ///
    /// # Errors
    /// As [`LogSide::check_whole`]; [`Error::Log`].
    pub(super) fn sync(&mut self) -> Result<(), Error> {
        self.check_whole()?;
        self.log.commit(None, Durability::Sync)?;
        self.synced = self.settled;
        Ok(())
    }

    pub(super) fn new(log: Log, head_file: HeadFile, head: Head, settled: u64) -> LogSide {
        LogSide {
            log,
            head_file,
            head,
            settled,
            synced: settled,
            commits: 0,
            taken: Queue::default(),
            writing: false,
        }
    }
}

/// Appends a batch, in as many records as it needs.
pub(super) fn append(log: &mut Log, version: u64, changes: &[u8]) -> Result<(), Error> {
    let version = version.to_le_bytes();
    let limit = usize::try_from(log.record_limit()).unwrap_or(usize::MAX).max(16);
    if version.len() + changes.len() <= limit {
        log.append(WHOLE, &[&version, changes])?;
        return Ok(());
    }
    let (first, mut rest) = changes.split_at(changes.len().min(limit - version.len()));
    log.append(FIRST, &[&version, first])?;
    while rest.len() > limit {
        let (middle, behind) = rest.split_at(rest.len().min(limit));
        log.append(MIDDLE, &[middle])?;
        rest = behind;
    }
    log.append(LAST, &[rest])?;
    Ok(())
}
