//! A folder of files, as far as a log or a snapshot needs one.
//!
//! What the trait promises, and no more: a write is durable once [`DiskFile::sync_data`] of its file has returned `Ok`; a
//! created, renamed or removed *name* is durable once [`Disk::sync_dir`] has returned `Ok`. Until then a crash may keep, lose
//! or tear each of them (by 512-byte sector), in any combination. [`CrashDisk`] and [`PowerDisk`] produce exactly those
//! states: the first remembers every operation, so that a test can cut a life anywhere afterwards; the second forgets what is durable,
//! so that a life may be long.

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

/// A flat folder of files. Names hold no separator.
pub trait Disk: Send + Sync {
    /// Creates a file of `size` zero bytes, written out so that its blocks are allocated (an fdatasync of a file that grows
    /// costs two to five times that of one that does not). Neither content nor name is durable yet.
    ///
    /// # Errors
    /// `AlreadyExists`; `StorageFull`, in which case a shorter file may remain; or what the system says.
    fn create(&self, name: &str, size: u64) -> io::Result<Arc<dyn DiskFile>>;
    /// Creates a file of `size` zero bytes whose blocks are the file's, so that writing it cannot fill the disk, but need not be
    /// written. Neither content nor name is durable yet.
    ///
    /// # Errors
    /// As [`Disk::create`].
    fn reserve(&self, name: &str, size: u64) -> io::Result<Arc<dyn DiskFile>> {
        self.create(name, size)
    }
    /// Opens an existing file for reading and writing.
    ///
    /// # Errors
    /// `NotFound`, or what the system says.
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// Renames a file, replacing a file of the new name. Open handles follow it.
    ///
    /// # Errors
    /// `NotFound`, or what the system says.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a name. Open handles keep the content readable.
    ///
    /// # Errors
    /// `NotFound`, or what the system says.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// The names of all files, sorted.
    ///
    /// # Errors
    /// What the system says.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Makes all names durable.
    ///
    /// # Errors
    /// What the system says. Not to be retried.
    fn sync_dir(&self) -> io::Result<()>;
}

/// An open file, read and written by position.
pub trait DiskFile: Send + Sync {
    /// Fills `into` from `offset`.
    ///
    /// # Errors
    /// `UnexpectedEof` if the file ends before, or what the system says.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;
    /// Writes all of `bytes` at `offset`, growing the file if needed.
    ///
    /// # Errors
    /// `StorageFull`, or what the system says; any part may have been written.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Makes all earlier writes to this file durable.
    ///
    /// # Errors
    /// What the system says. Not to be retried.
    fn sync_data(&self) -> io::Result<()>;
    /// Begins to write out what was written to these bytes, without waiting for it (for room in the disk's queue it may), or prepares to: they will not be
    /// written to again soon, and a later sync is the quicker. Advice: promises nothing.
    fn begin_to_write_out(&self, bytes: Range<u64>) {
        let _ = bytes;
    }
    /// Says that these bytes will hardly be read, so that the memory that holds them may serve others. Advice: what is not durable
    /// stays in memory.
    fn forget(&self, bytes: Range<u64>) {
        let _ = bytes;
    }
    /// The length in bytes.
    ///
    /// # Errors
    /// What the system says.
    fn size(&self) -> io::Result<u64>;
    /// How many bytes the disk that it is on has left, where that is known.
    ///
    /// # Errors
    /// What the system says.
    fn free_bytes(&self) -> io::Result<Option<u64>> {
        Ok(None)
    }
    /// Its first `bytes` as memory, or `None` where files cannot be mapped.
    ///
    /// # Errors
    /// `UnexpectedEof` if the file is shorter, or what the system says.
    fn map(&self, bytes: u64) -> io::Result<Option<Map>> {
        let _ = bytes;
        Ok(None)
    }
    /// The same file, whose first `bytes` are written through memory: for many small writes to a file that has its blocks. Full disks and
    /// broken ones show at [`DiskFile::sync_data`]. `None` where that is not possible, or not safe.
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
