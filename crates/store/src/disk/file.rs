//! A real folder of the file system.

use super::map::WriteMap;
use super::{Disk, DiskFile, Map, check_name};
use rustix::fs::{Advice, fadvise};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A folder of the file system. By default only their owner can read created files.
#[derive(Debug)]
pub struct FileDisk {
    folder: PathBuf,
    mode: u32,
}

impl FileDisk {
    /// Opens `folder`, and creates it and its parents if missing.
    ///
    /// # Errors
    /// The system's error.
    pub fn open(folder: impl Into<PathBuf>) -> io::Result<FileDisk> {
        let folder = folder.into();
        fs::create_dir_all(&folder)?;
        Ok(FileDisk { folder, mode: 0o600 })
    }

    /// Creates files with `mode` (Unix permission bits, reduced by the umask) instead of 0600.
    #[must_use]
    pub fn with_mode(mut self, mode: u32) -> FileDisk {
        self.mode = mode;
        self
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn path(&self, name: &str) -> io::Result<PathBuf> {
        check_name(name)?;
        Ok(self.folder.join(name))
    }
}

impl FileDisk {
    fn create_empty(&self, name: &str) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(self.mode);
        options.open(self.path(name)?)
    }
}

impl Disk for FileDisk {
    fn create(&self, name: &str, size: u64) -> io::Result<Arc<dyn DiskFile>> {
        let file = OpenFile(self.create_empty(name)?);
        file.extend(size)?;
        Ok(Arc::new(file))
    }

    fn reserve(&self, name: &str, size: u64) -> io::Result<Arc<dyn DiskFile>> {
        let file = self.create_empty(name)?;
        match rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, size) {
            Ok(()) => Ok(Arc::new(OpenFile(file))),
            // The file system cannot reserve blocks. Written zeros take them, if anything does.
            Err(rustix::io::Errno::OPNOTSUPP) => {
                fs::remove_file(self.path(name)?)?;
                self.create(name, size)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let file = OpenOptions::new().read(true).write(true).open(self.path(name)?)?;
        Ok(Arc::new(OpenFile(file)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path(from)?, self.path(to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path(name)?)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            // A name that is not UTF-8 does not belong to this crate.
            if let (true, Ok(name)) =
                (entry.file_type()?.is_file(), entry.file_name().into_string())
            {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn sync_dir(&self) -> io::Result<()> {
        File::open(&self.folder)?.sync_all()
    }
}

/// File systems that overwrite in place: ext2 to ext4, XFS, tmpfs.
const IN_PLACE: [u64; 3] = [0xef53, 0x5846_5342, 0x0102_1994];

struct OpenFile(File);

/// A file written through a memory map. The page cache is shared: reads and syncs of the file see
/// bytes stored in the map. Advice to write out or to forget is not passed on. The kernel protects
/// a page while it writes it out, so the next store beside those bytes would cost a page fault.
struct WrittenThroughMemory {
    file: OpenFile,
    map: WriteMap,
}

impl DiskFile for WrittenThroughMemory {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read_at(offset, into)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if self.map.write(offset, bytes) { Ok(()) } else { self.file.write_at(offset, bytes) }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// To write out a mapped page, the kernel first removes it from the map, which interrupts the
    /// other processors each time. Here all pages are removed at once; the sync writes them out.
    fn begin_to_write_out(&self, bytes: Range<u64>) {
        self.map.let_go(bytes);
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }
}

impl DiskFile for OpenFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(into, offset)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    #[allow(unsafe_code)]
    fn begin_to_write_out(&self, bytes: Range<u64>) {
        if let (Ok(from), Ok(length)) =
            (i64::try_from(bytes.start), i64::try_from(bytes.end.saturating_sub(bytes.start)))
        {
            // An error of the disk stays with the file until it is synced. SAFETY: the descriptor
            // is open as long as `self` lives, and no address is passed.
            unsafe {
                libc::sync_file_range(self.0.as_raw_fd(), from, length, libc::SYNC_FILE_RANGE_WRITE)
            };
        }
    }

    fn forget(&self, bytes: Range<u64>) {
        if let Some(length) = NonZeroU64::new(bytes.end.saturating_sub(bytes.start)) {
            // Nothing is lost if the system ignores the advice.
            let _ = fadvise(&self.0, bytes.start, Some(length), Advice::DontNeed);
        }
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn free_bytes(&self) -> io::Result<Option<u64>> {
        let disk = rustix::fs::fstatvfs(&self.0)?;
        // Some file systems in memory do not report it.
        Ok((disk.f_blocks > 0).then(|| disk.f_bavail.saturating_mul(disk.f_frsize)))
    }

    fn map(&self, bytes: u64) -> io::Result<Option<Map>> {
        Map::new(&self.0, bytes).map(Some)
    }

    fn written_through_memory(&self, bytes: u64) -> io::Result<Option<Arc<dyn DiskFile>>> {
        // A file system that overwrites elsewhere may be full at that time. Then it can only kill
        // this process.
        if !IN_PLACE.contains(&(rustix::fs::fstatfs(&self.0)?.f_type as u64)) {
            return Ok(None);
        }
        let map = WriteMap::new(&self.0, bytes)?;
        Ok(Some(Arc::new(WrittenThroughMemory { file: OpenFile(self.0.try_clone()?), map })))
    }
}
