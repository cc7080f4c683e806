//! The folder lock: one process for each data folder.
//!
//! It is an exclusive `flock` on the file `lock`, which also names the holder's process. The lock
//! ends with the process, whatever ends that; the file stays. Two replicas with one key would sign
//! twice, so a held lock is never waited for or broken.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The name of the file that is locked.
pub const FILE: &str = "lock";

/// Holds a data folder for this process until it is dropped.
#[derive(Debug)]
pub struct FolderLock {
    file: File,
    folder: PathBuf,
}

/// The reason why a folder could not be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds it.
    #[error("data folder {} is in use by {}: stop that process, or use another folder", folder.display(), holder(*pid))]
    Held {
        /// The folder.
        folder: PathBuf,
        /// The process that holds it, if the file names one.
        pid: Option<u32>,
    },
    /// The system refused the lock.
    #[error("cannot lock data folder {}: {source}", folder.display())]
    Io {
        /// The folder.
        folder: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_string(), |pid| format!("process {pid}"))
}

impl FolderLock {
    /// Locks `folder`, and creates it if missing.
    ///
    /// # Errors
    /// [`LockError::Held`] at once if another process, or another lock in this one, holds it;
    /// [`LockError::Io`].
    pub fn acquire(folder: impl Into<PathBuf>) -> Result<FolderLock, LockError> {
        let folder = folder.into();
        let failed = |source| LockError::Io { folder: folder.clone(), source };
        std::fs::create_dir_all(&folder).map_err(failed)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(folder.join(FILE)).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(LockError::Held { pid: read_pid(&file), folder });
            }
            Err(TryLockError::Error(source)) => return Err(LockError::Io { folder, source }),
        }
        file.set_len(0).and_then(|()| file.rewind()).map_err(failed)?;
        writeln!(file, "{}", std::process::id()).map_err(failed)?;
        Ok(FolderLock { file, folder })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        // The id of a finished process would mislead. The lock itself ends with the handle in any
        // case.
        let _ = self.file.set_len(0);
        // Closing is not enough: a child process that another thread starts may inherit the handle.
        let _ = self.file.unlock();
    }
}

/// The process named in the file: at most a number of ten digits and a line end.
fn read_pid(file: &File) -> Option<u32> {
    let mut text = String::new();
    file.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests;
