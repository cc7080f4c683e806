//! Files mapped to memory.
//!
//! The map covers what the file has when it is made, and no more: reading behind a file's end would end the process with SIGBUS. What can
//! still bring that signal is somebody else who shortens the file (the folder lock keeps other stores out), and a disk that cannot
//! read a block, for which there is no other way to tell a reader of mapped memory. [`bus_error`](super::bus_error) explains it.
#![allow(unsafe_code)]

use super::bus_error::Listed;
use memmap2::UncheckedAdvice;
use std::fs::File;
use std::io;
use std::ops::Range;

/// A file mapped to memory, for reading. Writes to the file show in it.
pub struct Map {
    /// Dropped before the map.
    _listed: Listed,
    map: memmap2::Mmap,
}

impl Map {
    /// Maps the first `bytes` of `file`.
    ///
    /// # Errors
    /// `UnexpectedEof` if the file is shorter, or what the system says (`OutOfMemory`: too many maps, or no address space).
    pub(super) fn new(file: &File, bytes: u64) -> io::Result<Map> {
        if file.metadata()?.len() < bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let length = usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let mut options = memmap2::MmapOptions::new();
        // SAFETY: the map is only handed out as a pointer (below), never as a slice that the compiler could take for constant.
        let map = unsafe { options.len(length).map(file)? };
        Ok(Map { _listed: Listed::new(file, map.as_ptr(), map.len(), "read"), map })
    }

    /// Where it begins. Readable for [`Map::len`] bytes as long as this value lives; bytes that are written to the file meanwhile must
    /// not be read.
    pub(crate) fn start(&self) -> *const u8 {
        self.map.as_ptr()
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }
}

/// A file mapped to memory, for writing: what is stored here is in the page cache, as after a write, without a call of the system.
pub(super) struct WriteMap {
    /// Dropped before the map.
    _listed: Listed,
    map: memmap2::MmapRaw,
}

impl WriteMap {
    /// Maps the first `bytes` of `file`, all of which must have blocks of the disk.
    pub(super) fn new(file: &File, bytes: u64) -> io::Result<WriteMap> {
        if file.metadata()?.len() < bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let length = usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let map = memmap2::MmapOptions::new().len(length).map_raw(file)?;
        Ok(WriteMap { _listed: Listed::new(file, map.as_ptr(), map.len(), "write"), map })
    }

    /// Stores `bytes` at `offset`, if they lie within the map. Two threads must not write the same place at once, as to a file.
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> bool {
        let Ok(offset) = usize::try_from(offset) else { return false };
        if offset.checked_add(bytes.len()).is_none_or(|end| end > self.map.len()) {
            return false;
        }
        // SAFETY: within the map, which no reference points into; `bytes` cannot overlap it for the same reason.
        unsafe {
            std::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                self.map.as_mut_ptr().add(offset),
                bytes.len(),
            )
        };
        true
    }

    /// Lets go of the pages of `bytes`, which stay in the page cache with what was stored, and come back when they are stored to.
    pub(super) fn let_go(&self, bytes: Range<u64>) {
        let (Ok(from), Ok(to)) = (usize::try_from(bytes.start), usize::try_from(bytes.end)) else {
            return;
        };
        if from < to && to <= self.map.len() {
            // Where advice is not taken, nothing is lost.
            // SAFETY: the map is of a file and shared, so that its pages come back with what they have; nothing refers to them meanwhile.
            let _ = unsafe {
                self.map.unchecked_advise_range(UncheckedAdvice::DontNeed, from, to - from)
            };
        }
    }
}
