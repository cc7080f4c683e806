//! A folder of files: the interface that the log, the snapshots and the store need.
//!
//! The trait promises no more than this: a write is durable once [`DiskFile::sync_data`] of its
//! file has returned `Ok`. A created, renamed or removed *name* is durable once [`Disk::sync_dir`]
//! has returned `Ok`. Until then a crash may keep, lose or tear each of them (by 512-byte sector),
//! in any combination. [`CrashDisk`] and [`PowerDisk`] produce exactly those states. The first
//! records every operation, so a test can cut a run anywhere afterwards. The second forgets
//! everything durable, so a run may be long.

mod bus_error;
mod crash;
mod file;
mod machine;
mod map;
mod memory;
mod power;

pub use bus_error::explain_bus_errors;
pub use crash::{CrashDisk, Fate, SECTOR_BYTES};
pub use file::FileDisk;
pub use machine::{Fired, Machine};
pub use map::Map;
pub use memory::MemoryDisk;
pub use power::{Lost, PowerDisk};

use std::io;
use std::ops::Range;
use std::sync::Arc;

/// A file that is written beside a log is synced each time this much was written. The log's syncs
/// on the same disk wait behind what is under way there, so one sync at the end would stall them.
pub(crate) const SYNC_EVERY_BYTES: u64 = 1 << 20;
/// The size of the pieces in which zeros are written.
const ZEROS_BYTES: usize = 1 << 20;

/// A flat folder of files. Names contain no separator.
pub trait Disk: Send + Sync {
    /// Creates a file of `size` zero bytes, written out so that its blocks are allocated (an
    /// fdatasync of a file that grows costs two to five times as much). Neither content nor name is
    /// durable yet.
    ///
    /// # Errors
    /// `AlreadyExists`; `StorageFull`, in which case a shorter file may remain; or the system's
    /// error.
    fn create(&self, name: &str, size: u64) -> io::Result<Arc<dyn DiskFile>>;
    /// Creates a file of `size` zero bytes and reserves its blocks, so that writing it cannot fill
    /// the disk. The blocks need not be written. Neither content nor name is durable yet.
    ///
    /// # Errors
    /// As [`Disk::create`].
    fn reserve(&self, name: &str, size: u64) -> io::Result<Arc<dyn DiskFile>> {
        self.create(name, size)
    }
    /// Opens an existing file for reading and writing.
    ///
    /// # Errors
    /// `NotFound`, or the system's error.
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// Renames a file, and replaces a file of the new name. Open handles follow it.
    ///
    /// # Errors
    /// `NotFound`, or the system's error.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a name. Open handles keep the content readable.
    ///
    /// # Errors
    /// `NotFound`, or the system's error.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// The names of all files, sorted.
    ///
    /// # Errors
    /// The system's error.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Makes all names durable.
    ///
    /// # Errors
    /// The system's error. Do not retry.
    fn sync_dir(&self) -> io::Result<()>;
}

/// An open file, read and written by position.
pub trait DiskFile: Send + Sync {
    /// Fills `into` from `offset`.
    ///
    /// # Errors
    /// `UnexpectedEof` if the file is too short, or the system's error.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;
    /// Writes all of `bytes` at `offset`, and grows the file if needed.
    ///
    /// # Errors
    /// `StorageFull`, or the system's error. Any part may have been written.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Grows the file to `size` bytes with written zeros, so that their blocks are allocated. A
    /// longer file stays as it is.
    ///
    /// # Errors
    /// As [`DiskFile::write_at`].
    fn extend(&self, size: u64) -> io::Result<()> {
        let mut end = self.size()?;
        let piece = usize::try_from(size.saturating_sub(end)).unwrap_or(ZEROS_BYTES);
        let zeros = vec![0; piece.min(ZEROS_BYTES)];
        while end < size {
            let length = zeros.len().min(usize::try_from(size - end).unwrap_or(ZEROS_BYTES));
            self.write_at(end, &zeros[..length])?;
            end += length as u64;
        }
        Ok(())
    }
    /// Makes all earlier writes to this file durable.
    ///
    /// # Errors
    /// The system's error. Do not retry.
    fn sync_data(&self) -> io::Result<()>;
    /// Advice: these bytes will not be written again soon. The system may begin to write them out,
    /// so that a later sync is quicker. The call may wait for room in the disk's queue, but not for
    /// the write.
    fn begin_to_write_out(&self, bytes: Range<u64>) {
        let _ = bytes;
    }
    /// Advice: these bytes will hardly be read, so their memory may be reused. Bytes that are not
    /// durable stay in memory.
    fn forget(&self, bytes: Range<u64>) {
        let _ = bytes;
    }
    /// The length in bytes.
    ///
    /// # Errors
    /// The system's error.
    fn size(&self) -> io::Result<u64>;
    /// The free bytes of the disk, if known.
    ///
    /// # Errors
    /// The system's error.
    fn free_bytes(&self) -> io::Result<Option<u64>> {
        Ok(None)
    }
    /// Its first `bytes` mapped into memory, or `None` if files cannot be mapped.
    ///
    /// # Errors
    /// `UnexpectedEof` if the file is shorter, or the system's error.
    fn map(&self, bytes: u64) -> io::Result<Option<Map>> {
        let _ = bytes;
        Ok(None)
    }
    /// The same file, with its first `bytes` written through a memory map. This is for many small
    /// writes to a file with allocated blocks. [`DiskFile::sync_data`] reports full and broken
    /// disks. `None` if that is impossible or unsafe.
    ///
    /// # Errors
    /// As [`DiskFile::map`].
    fn written_through_memory(&self, bytes: u64) -> io::Result<Option<Arc<dyn DiskFile>>> {
        let _ = bytes;
        Ok(None)
    }
}

/// Refuses a name that would leave the folder.
fn check_name(name: &str) -> io::Result<()> {
    if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{name:?} is not a file name"),
        ));
    }
    Ok(())
}
