//! Memory-mapped files.
//!
//! A map covers its file as it was when the map was made, because a read behind a file's end would
//! end the process with SIGBUS. Two causes of that signal remain: another program shortens the file
//! (the folder lock keeps other stores out), or the disk cannot read a block. The kernel has no
//! other way to tell a reader of mapped memory. [`bus_error`](super::bus_error) explains the
//! signal.
#![allow(unsafe_code)]

use super::bus_error::Listed;
use memmap2::UncheckedAdvice;
use std::fs::File;
use std::io;
use std::ops::Range;

/// A file mapped for reading. Later writes to the file are visible in it.
pub struct Map {
    /// Dropped before the map.
    _listed: Listed,
    map: memmap2::Mmap,
}

impl Map {
    /// Maps the first `bytes` of `file`.
    ///
    /// # Errors
    /// `UnexpectedEof` if the file is shorter, or the system's error (`OutOfMemory`: too many maps,
    /// or no address space).
    pub(super) fn new(file: &File, bytes: u64) -> io::Result<Map> {
        if file.metadata()?.len() < bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let length = usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let mut options = memmap2::MmapOptions::new();
        // SAFETY: the map is handed out only as a pointer (below), never as a slice, which the
        // compiler could assume constant.
        let map = unsafe { options.len(length).map(file)? };
        Ok(Map { _listed: Listed::new(file, map.as_ptr(), map.len(), "read"), map })
    }

    /// The start of the map. [`Map::len`] bytes are readable as long as this value lives. Bytes
    /// that are being written to the file must not be read at the same time.
    pub(crate) fn start(&self) -> *const u8 {
        self.map.as_ptr()
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }
}

/// A file mapped for writing. A store to it goes to the page cache, like a write, but without a
/// system call.
pub(super) struct WriteMap {
    /// Dropped before the map.
    _listed: Listed,
    map: memmap2::MmapRaw,
}

impl WriteMap {
    /// Maps the first `bytes` of `file`, all of which must have allocated blocks.
    pub(super) fn new(file: &File, bytes: u64) -> io::Result<WriteMap> {
        if file.metadata()?.len() < bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let length = usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let map = memmap2::MmapOptions::new().len(length).map_raw(file)?;
        Ok(WriteMap { _listed: Listed::new(file, map.as_ptr(), map.len(), "write"), map })
    }

    /// Stores `bytes` at `offset`, if they lie within the map. As with a file, two threads must not
    /// write the same place at once.
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> bool {
        let Ok(offset) = usize::try_from(offset) else { return false };
        if offset.checked_add(bytes.len()).is_none_or(|end| end > self.map.len()) {
            return false;
        }
        // SAFETY: within the map, which no reference points into. So `bytes` cannot overlap it
        // either.
        unsafe {
            std::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                self.map.as_mut_ptr().add(offset),
                bytes.len(),
            )
        };
        true
    }

    /// Releases the pages of `bytes` from the map. They stay in the page cache with their content,
    /// and return with the next store.
    pub(super) fn let_go(&self, bytes: Range<u64>) {
        let (Ok(from), Ok(to)) = (usize::try_from(bytes.start), usize::try_from(bytes.end)) else {
            return;
        };
        if from < to && to <= self.map.len() {
            // Nothing is lost if the system ignores the advice. SAFETY: the map is of a file and
            // shared, so its pages return with their content; nothing refers to them meanwhile.
            let _ = unsafe {
                self.map.unchecked_advise_range(UncheckedAdvice::DontNeed, from, to - from)
            };
        }
    }
}
