//! A folder that records every operation. A test can ask for the disk's content as if the machine
//! had lost its power after any of them.
//!
//! The model: a file's content is durable up to its last `sync_data`, the folder's names up to the
//! last `sync_dir`. Each 512-byte sector of each later write, and each later extension, create,
//! rename and remove, may have reached the disk or not, independently. A sector itself is never
//! torn. (A file system with a journal loses less, but nothing here relies on that.)

use super::memory::{MemoryFile, write_into};
use super::{Disk, DiskFile, MemoryDisk};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The unit that a disk writes whole.
pub const SECTOR_BYTES: u64 = 512;

/// The fate of operations that were not durable when the power failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// All reached the disk (also the result of `kill -9`).
    Kept,
    /// None reached the disk.
    Lost,
    /// The names reached the disk, the contents did not.
    ContentLost,
    /// The contents reached the disk, the names did not.
    NamesLost,
    /// All reached the disk, but the last operation, a write, only with its first sectors.
    Torn {
        /// The number of its sectors, from the first.
        sectors: u64,
    },
    /// All reached the disk, except one sector of the last operation, a write.
    Hole {
        /// The missing sector.
        sector: u64,
    },
    /// A coin is tossed for each sector and each name.
    Mixed {
        /// Seed of the coin.
        seed: u64,
    },
}

/// A recording folder in memory, with faults on request. Clones share it.
#[derive(Clone, Default)]
pub struct CrashDisk {
    state: Arc<Mutex<State>>,
    live: MemoryDisk,
}

#[derive(Default)]
struct State {
    /// The content before the first operation, which is durable.
    base: BTreeMap<String, (usize, Vec<u8>)>,
    /// The file that each name refers to now.
    names: BTreeMap<String, usize>,
    files: usize,
    operations: Vec<Operation>,
    fail_sync_in: Option<u64>,
    fail_write_in: Option<u64>,
}

enum Operation {
    Create { file: usize, name: String, size: u64 },
    Write { file: usize, offset: u64, bytes: Vec<u8> },
    Extend { file: usize, size: u64 },
    Sync { file: usize },
    Rename { file: usize, from: String, to: String },
    Remove { name: String },
    SyncDir,
}

impl CrashDisk {
    /// An empty folder.
    pub fn new() -> CrashDisk {
        CrashDisk::default()
    }

    /// A folder that starts with the content of `disk`, all of it durable. It serves to test a
    /// crash during recovery from a crash.
    pub fn over(disk: &MemoryDisk) -> io::Result<CrashDisk> {
        let crash = CrashDisk { state: Arc::default(), live: disk.fork() };
        for name in disk.list()? {
            let mut state = crash.lock();
            let file = state.files;
            state.files += 1;
            state.names.insert(name.clone(), file);
            let content = disk.content(&name)?;
            state.base.insert(name, (file, content));
        }
        Ok(crash)
    }

    /// The number of recorded operations.
    pub fn operations(&self) -> usize {
        self.lock().operations.len()
    }

    /// The number of recorded syncs, of files and of the folder.
    pub fn syncs(&self) -> usize {
        let state = self.lock();
        state
            .operations
            .iter()
            .filter(|o| matches!(o, Operation::Sync { .. } | Operation::SyncDir))
            .count()
    }

    /// If operation `index` is a write, the number of sectors it touches.
    pub fn sectors(&self, index: usize) -> Option<u64> {
        match self.lock().operations.get(index)? {
            Operation::Write { offset, bytes, .. } => Some(sectors(*offset, bytes).count() as u64),
            _ => None,
        }
    }

    /// The `n`-th sync from now (1: the next one) fails with `EIO`. Later ones succeed, as on
    /// Linux.
    pub fn fail_sync(&self, n: u64) {
        self.lock().fail_sync_in = Some(n);
    }

    /// The `n`-th write or create from now (1: the next one), and all later ones, fail with
    /// `StorageFull`.
    pub fn fill_up(&self, n: u64) {
        self.lock().fail_write_in = Some(n);
    }

    /// Cancels all requested faults.
    pub fn heal(&self) {
        let mut state = self.lock();
        state.fail_sync_in = None;
        state.fail_write_in = None;
    }

    /// The folder after a crash right after the first `cut` operations.
    pub fn materialise(&self, cut: usize, fate: Fate) -> MemoryDisk {
        let state = self.lock();
        let operations = state.operations.get(..cut).unwrap_or(&state.operations);
        let mut image = Image::from_base(&state);
        let mut coin = Coin::new(fate);
        let last_dir_sync = operations.iter().rposition(|o| matches!(o, Operation::SyncDir));
        let mut last_sync = vec![None; state.files];
        for (index, operation) in operations.iter().enumerate() {
            if let Operation::Sync { file } = operation {
                last_sync[*file] = Some(index);
            }
        }
        for (index, operation) in operations.iter().enumerate() {
            let last = index + 1 == operations.len();
            match operation {
                Operation::Write { file, offset, bytes } => {
                    let durable = last_sync[*file].is_some_and(|sync| index < sync);
                    for (number, (at, part)) in sectors(*offset, bytes).enumerate() {
                        if durable || coin.keeps_sector(last, number as u64) {
                            image.write(*file, at, part);
                        }
                    }
                }
                Operation::Extend { file, size } => {
                    let durable = last_sync[*file].is_some_and(|sync| index < sync);
                    if durable || coin.keeps_sector(false, 0) {
                        image.extend(*file, *size);
                    }
                }
                Operation::Create { file, size, .. } => {
                    let durable = last_sync[*file].is_some_and(|sync| index < sync);
                    if durable || coin.keeps_sector(false, 0) {
                        image.extend(*file, *size);
                    }
                    if last_dir_sync.is_some_and(|sync| index < sync) || coin.keeps_name() {
                        image.rename(operation);
                    }
                }
                Operation::Rename { .. } | Operation::Remove { .. } => {
                    if last_dir_sync.is_some_and(|sync| index < sync) || coin.keeps_name() {
                        image.rename(operation);
                    }
                }
                Operation::Sync { .. } | Operation::SyncDir => {}
            }
        }
        image.into_disk()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn sync(&mut self, operation: Operation) -> io::Result<()> {
        if let Some(left) = self.fail_sync_in {
            self.fail_sync_in = (left > 1).then(|| left - 1);
            if left <= 1 {
                return Err(io::Error::other("injected sync error"));
            }
        }
        self.operations.push(operation);
        Ok(())
    }

    fn space(&mut self) -> io::Result<()> {
        if let Some(left) = self.fail_write_in {
            self.fail_write_in = Some(left.saturating_sub(1));
            if left <= 1 {
                return Err(io::Error::new(io::ErrorKind::StorageFull, "injected full disk"));
            }
        }
        Ok(())
    }
}

impl Disk for CrashDisk {
    fn create(&self, name: &str, size: u64) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.lock();
        state.space()?;
        let live = self.live.create_file(name, size)?;
        let file = state.files;
        state.files += 1;
        state.names.insert(name.to_string(), file);
        state.operations.push(Operation::Create { file, name: name.to_string(), size });
        Ok(Arc::new(RecordedFile { disk: self.clone(), file, live }))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let live = self.live.file(name)?;
        let file = *self.lock().names.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::new(RecordedFile { disk: self.clone(), file, live }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.lock();
        self.live.rename(from, to)?;
        let file = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.names.insert(to.to_string(), file);
        state.operations.push(Operation::Rename {
            file,
            from: from.to_string(),
            to: to.to_string(),
        });
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.lock();
        self.live.remove(name)?;
        state.names.remove(name);
        state.operations.push(Operation::Remove { name: name.to_string() });
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.live.list()
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.lock().sync(Operation::SyncDir)
    }
}

struct RecordedFile {
    disk: CrashDisk,
    file: usize,
    live: Arc<MemoryFile>,
}

impl DiskFile for RecordedFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.live.read_at(offset, into)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.disk.lock();
        state.space()?;
        self.live.write_at(offset, bytes)?;
        state.operations.push(Operation::Write { file: self.file, offset, bytes: bytes.to_vec() });
        Ok(())
    }

    fn extend(&self, size: u64) -> io::Result<()> {
        let mut state = self.disk.lock();
        state.space()?;
        self.live.extend(size)?;
        state.operations.push(Operation::Extend { file: self.file, size });
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.lock().sync(Operation::Sync { file: self.file })
    }

    fn size(&self) -> io::Result<u64> {
        self.live.size()
    }
}

/// The pieces of a write, each within one sector of the file.
pub(super) fn sectors(offset: u64, bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let mut at = offset;
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let room = usize::try_from(SECTOR_BYTES - at % SECTOR_BYTES).unwrap_or(rest.len());
        let (part, tail) = rest.split_at(room.min(rest.len()));
        let piece = (at, part);
        rest = tail;
        at += part.len() as u64;
        Some(piece)
    })
}

/// The content of the disk.
struct Image {
    names: BTreeMap<String, usize>,
    contents: Vec<Vec<u8>>,
}

impl Image {
    fn from_base(state: &State) -> Image {
        let mut image = Image { names: BTreeMap::new(), contents: vec![Vec::new(); state.files] };
        for (name, (file, content)) in &state.base {
            image.names.insert(name.clone(), *file);
            image.contents[*file].clone_from(content);
        }
        image
    }

    fn write(&mut self, file: usize, offset: u64, bytes: &[u8]) {
        // This cannot fail: the live folder has executed the same write.
        let _ = write_into(&mut self.contents[file], offset, bytes);
    }

    fn extend(&mut self, file: usize, size: u64) {
        let content = &mut self.contents[file];
        let size = usize::try_from(size).unwrap_or(0);
        content.resize(content.len().max(size), 0);
    }

    /// Applies a change of names. A rename may survive without the creation before it.
    fn rename(&mut self, operation: &Operation) {
        match operation {
            Operation::Create { file, name, .. } => {
                self.names.insert(name.clone(), *file);
            }
            Operation::Rename { file, from, to } => {
                if self.names.get(from) == Some(file) {
                    self.names.remove(from);
                }
                self.names.insert(to.clone(), *file);
            }
            Operation::Remove { name } => {
                self.names.remove(name);
            }
            _ => {}
        }
    }

    fn into_disk(mut self) -> MemoryDisk {
        let disk = MemoryDisk::new();
        for (name, file) in self.names {
            disk.put(&name, std::mem::take(&mut self.contents[file]));
        }
        disk
    }
}

/// Decides the fate of each operation; SplitMix64 for [`Fate::Mixed`].
pub(super) struct Coin {
    fate: Fate,
    state: u64,
}

impl Coin {
    pub(super) fn new(fate: Fate) -> Coin {
        let state = if let Fate::Mixed { seed } = fate { seed } else { 0 };
        Coin { fate, state }
    }

    pub(super) fn keeps_sector(&mut self, last_operation: bool, number: u64) -> bool {
        match self.fate {
            Fate::Kept | Fate::NamesLost => true,
            Fate::Lost | Fate::ContentLost => false,
            Fate::Torn { sectors } => !last_operation || number < sectors,
            Fate::Hole { sector } => !last_operation || number != sector,
            Fate::Mixed { .. } => self.toss(),
        }
    }

    pub(super) fn keeps_name(&mut self) -> bool {
        match self.fate {
            Fate::Lost | Fate::NamesLost => false,
            Fate::Mixed { .. } => self.toss(),
            _ => true,
        }
    }

    fn toss(&mut self) -> bool {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) & 1 == 1
    }
}
