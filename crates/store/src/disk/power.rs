//! A folder in memory that loses everything unsynced when its machine's power fails.
//!
//! The model is that of [`CrashDisk`](super::CrashDisk), but durable writes are forgotten. For each
//! file only the writes since its last sync are kept, as the bytes that they replaced. So a machine
//! may run without end. A failed sync drops its unsynced writes, as kernels do: a coin decides
//! which sectors the disk has, and reads show those from then on.

use super::crash::{Coin, SECTOR_BYTES, sectors};
use super::{Disk, DiskFile, Fate, Machine, check_name};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The size of the pieces of a content. A piece that was never written takes no memory.
const PAGE_BYTES: usize = 1024;

/// A folder of a [`Machine`]. Clones share it.
#[derive(Clone)]
pub struct PowerDisk {
    machine: Machine,
    names: Arc<Mutex<Names>>,
}

/// The losses of a power failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Sectors written and not synced that are on the disk, and ...
    pub sectors_kept: u64,
    /// ... that are not.
    pub sectors_lost: u64,
    /// Changes of names that had not been synced and are on the disk, and ...
    pub names_kept: u64,
    /// ... that are not.
    pub names_lost: u64,
}

impl Lost {
    /// The sum with the losses of another folder of the same machine.
    #[must_use]
    pub fn and(self, other: Lost) -> Lost {
        Lost {
            sectors_kept: self.sectors_kept + other.sectors_kept,
            sectors_lost: self.sectors_lost + other.sectors_lost,
            names_kept: self.names_kept + other.names_kept,
            names_lost: self.names_lost + other.names_lost,
        }
    }
}

#[derive(Default)]
struct Names {
    live: BTreeMap<String, Arc<File>>,
    durable: BTreeMap<String, Arc<File>>,
    /// Changes of names since the last sync of the folder.
    changes: Vec<Change>,
}

enum Change {
    Create { name: String, file: Arc<File> },
    Rename { from: String, to: String, file: Arc<File> },
    Remove { name: String },
}

struct File(Mutex<Content>);

#[derive(Default)]
struct Content {
    /// A missing page is zero, and so are bytes behind `size`.
    pages: Vec<Option<Box<[u8; PAGE_BYTES]>>>,
    size: u64,
    /// Writes since the last sync, oldest first ...
    pending: Vec<Pending>,
    /// ... and the bytes that they replaced, one behind the other.
    replaced: Vec<u8>,
    stray: Option<Stray>,
}

/// A write that no sync has confirmed.
#[derive(Clone, Copy)]
struct Pending {
    operation: u64,
    offset: u64,
    length: usize,
    size_before: u64,
    /// The size, if this is the creation or an extension of the file; else 0.
    extended: u64,
}

impl Pending {
    fn extension(operation: u64, size_before: u64, size: u64) -> Pending {
        Pending { operation, offset: 0, length: 0, size_before, extended: size }
    }
}

/// A write that will go astray.
struct Stray {
    /// Counted down to 1.
    write_in: u64,
    /// The offset that it goes to instead; `None`: nowhere.
    to: Option<u64>,
}

impl PowerDisk {
    /// An empty folder of `machine`.
    #[must_use]
    pub fn new(machine: &Machine) -> PowerDisk {
        PowerDisk { machine: machine.clone(), names: Arc::default() }
    }

    /// An independent copy on another machine, all of it durable there.
    #[must_use]
    pub fn copy(&self, machine: &Machine) -> PowerDisk {
        let copy = PowerDisk::new(machine);
        for (name, file) in &self.lock().live {
            let content = file.lock();
            let pages = content.pages.clone();
            let content = Content { pages, size: content.size, ..Content::default() };
            let file = Arc::new(File(Mutex::new(content)));
            let mut names = copy.lock();
            names.live.insert(name.clone(), Arc::clone(&file));
            names.durable.insert(name.clone(), file);
        }
        copy
    }

    /// The folder after the power failure: `fate` decides about unsynced operations. All handles of
    /// its files must be dropped.
    pub fn lose(&self, fate: Fate) -> Lost {
        let mut coin = Coin::new(fate);
        self.settle_names(&mut coin)
    }

    fn settle_names(&self, coin: &mut Coin) -> Lost {
        let mut lost = Lost::default();
        let mut names = self.lock();
        let changes = std::mem::take(&mut names.changes);
        let mut durable = std::mem::take(&mut names.durable);
        for change in changes {
            if coin.keeps_name() {
                lost.names_kept += 1;
                change.apply(&mut durable);
            } else {
                lost.names_lost += 1;
            }
        }
        let last = self.machine.operations();
        for file in durable.values() {
            file.lock().settle(coin, last, &mut lost);
        }
        names.live.clone_from(&durable);
        names.durable = durable;
        lost
    }

    /// Overwrites bytes of a file without a trace: damage at rest.
    ///
    /// # Errors
    /// `NotFound`, or `UnexpectedEof` past the end.
    pub fn damage(&self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let file = self.find(name)?;
        let mut content = file.lock();
        if offset.checked_add(bytes.len() as u64).is_none_or(|end| end > content.size) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        content.put(offset, bytes);
        Ok(())
    }

    /// The `n`-th write to a file from now (1: the next one) is reported as done, but it goes to
    /// the offset `to`, as far as the file reaches, or nowhere.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn misdirect(&self, name: &str, n: u64, to: Option<u64>) -> io::Result<()> {
        self.find(name)?.lock().stray = Some(Stray { write_in: n.max(1), to });
        Ok(())
    }

    /// The content of a file.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn content(&self, name: &str) -> io::Result<Vec<u8>> {
        let file = self.find(name)?;
        let content = file.lock();
        let mut bytes = vec![0; usize::try_from(content.size).unwrap_or(0)];
        content.get(0, &mut bytes);
        Ok(bytes)
    }

    /// The number of bytes that this folder keeps beyond its content, because no sync has confirmed
    /// the bytes that replaced them.
    #[must_use]
    pub fn unconfirmed_bytes(&self) -> usize {
        self.lock().live.values().map(|file| file.lock().replaced.len()).sum()
    }

    fn find(&self, name: &str) -> io::Result<Arc<File>> {
        let missing = || io::Error::new(io::ErrorKind::NotFound, name);
        self.lock().live.get(name).cloned().ok_or_else(missing)
    }

    fn handle(&self, file: Arc<File>) -> Arc<dyn DiskFile> {
        Arc::new(OpenFile { machine: self.machine.clone(), file })
    }

    fn lock(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Names {
    fn change(&mut self, change: Change) {
        change.apply(&mut self.live);
        self.changes.push(change);
    }
}

impl Change {
    /// A rename may survive without the creation before it.
    fn apply(&self, names: &mut BTreeMap<String, Arc<File>>) {
        match self {
            Change::Create { name, file } => {
                names.insert(name.clone(), Arc::clone(file));
            }
            Change::Rename { from, to, file } => {
                if names.get(from).is_some_and(|known| Arc::ptr_eq(known, file)) {
                    names.remove(from);
                }
                names.insert(to.clone(), Arc::clone(file));
            }
            Change::Remove { name } => {
                names.remove(name);
            }
        }
    }
}

impl Disk for PowerDisk {
    fn create(&self, name: &str, size: u64) -> io::Result<Arc<dyn DiskFile>> {
        check_name(name)?;
        let operation = self.machine.begin()?;
        self.machine.room(operation)?;
        let mut content = Content::default();
        content.grow(size)?;
        content.pending.push(Pending::extension(operation, 0, size));
        let file = Arc::new(File(Mutex::new(content)));
        let mut names = self.lock();
        if names.live.contains_key(name) {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, name));
        }
        names.change(Change::Create { name: name.to_string(), file: Arc::clone(&file) });
        self.machine.end(operation)?;
        Ok(self.handle(file))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.handle(self.find(name)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        check_name(to)?;
        let file = self.find(from)?;
        let operation = self.machine.begin()?;
        let change = Change::Rename { from: from.to_string(), to: to.to_string(), file };
        self.lock().change(change);
        self.machine.end(operation)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.find(name)?;
        let operation = self.machine.begin()?;
        self.lock().change(Change::Remove { name: name.to_string() });
        self.machine.end(operation)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.lock().live.keys().cloned().collect())
    }

    fn sync_dir(&self) -> io::Result<()> {
        let operation = self.machine.begin()?;
        if self.machine.sync_fails() {
            let mut coin = Coin::new(Fate::Mixed { seed: operation });
            let mut names = self.lock();
            for change in std::mem::take(&mut names.changes) {
                if coin.keeps_name() {
                    change.apply(&mut names.durable);
                }
            }
            names.live = names.durable.clone();
            return Err(io::Error::other("injected sync error"));
        }
        let mut names = self.lock();
        for change in std::mem::take(&mut names.changes) {
            change.apply(&mut names.durable);
        }
        self.machine.end(operation)
    }
}

struct OpenFile {
    machine: Machine,
    file: Arc<File>,
}

impl File {
    fn lock(&self) -> MutexGuard<'_, Content> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DiskFile for OpenFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let content = self.file.lock();
        if offset.checked_add(into.len() as u64).is_none_or(|end| end > content.size) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        content.get(offset, into);
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let operation = self.machine.begin()?;
        self.machine.room(operation)?;
        let mut content = self.file.lock();
        if content.stray.is_some()
            && let Some(to) = content.strays()
        {
            self.machine.note_stray(to.is_none());
            if let Some(to) = to {
                let room = content.size.saturating_sub(to);
                let length = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
                content.write(operation, to, &bytes[..length])?;
            }
        } else {
            content.write(operation, offset, bytes)?;
        }
        self.machine.end(operation)
    }

    fn extend(&self, size: u64) -> io::Result<()> {
        let operation = self.machine.begin()?;
        self.machine.room(operation)?;
        let mut content = self.file.lock();
        let size_before = content.size;
        content.grow(size)?;
        content.pending.push(Pending::extension(operation, size_before, size));
        self.machine.end(operation)
    }

    fn sync_data(&self) -> io::Result<()> {
        let operation = self.machine.begin()?;
        let mut content = self.file.lock();
        if self.machine.sync_fails() {
            let mut coin = Coin::new(Fate::Mixed { seed: operation });
            content.settle(&mut coin, 0, &mut Lost::default());
            return Err(io::Error::other("injected sync error"));
        }
        content.pending.clear();
        content.replaced.clear();
        self.machine.end(operation)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.file.lock().size)
    }
}

impl Content {
    /// The destination of the current write, if it goes astray.
    fn strays(&mut self) -> Option<Option<u64>> {
        let stray = self.stray.as_mut()?;
        stray.write_in -= 1;
        if stray.write_in > 0 {
            return None;
        }
        self.stray.take().map(|stray| stray.to)
    }

    fn write(&mut self, operation: u64, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let length = bytes.len();
        let end = offset.checked_add(length as u64).ok_or(io::ErrorKind::StorageFull)?;
        let size_before = self.size;
        self.grow(end)?;
        for (page, start, range) in pieces(offset, length) {
            let (bytes, page) = (&bytes[range], &mut self.pages[page]);
            if page.is_none() {
                *page = Some(Box::new([0; PAGE_BYTES]));
            }
            if let Some(page) = page {
                let place = &mut page[start..start + bytes.len()];
                self.replaced.extend_from_slice(place);
                place.copy_from_slice(bytes);
            }
        }
        self.pending.push(Pending { operation, offset, length, size_before, extended: 0 });
        Ok(())
    }

    /// Decides the fate of every pending write. `last` is the operation right before the power
    /// failure.
    fn settle(&mut self, coin: &mut Coin, last: u64, lost: &mut Lost) {
        let pending = std::mem::take(&mut self.pending);
        let mut bytes = std::mem::take(&mut self.replaced);
        // Backwards to the durable content. Written and replaced bytes change places.
        let mut at = bytes.len();
        let mut written = Vec::new();
        for write in pending.iter().rev() {
            at -= write.length;
            let replaced = &mut bytes[at..at + write.length];
            written.resize(write.length, 0);
            self.get(write.offset, &mut written);
            self.put(write.offset, replaced);
            replaced.copy_from_slice(&written);
            self.size = write.size_before;
        }
        for write in &pending {
            if write.length == 0 {
                if coin.keeps_sector(false, 0) {
                    self.size = self.size.max(write.extended);
                }
                continue;
            }
            let is_last = write.operation == last;
            let parts = sectors(write.offset, &bytes[at..at + write.length]);
            for (number, (offset, part)) in parts.enumerate() {
                if coin.keeps_sector(is_last, number as u64) {
                    lost.sectors_kept += 1;
                    self.size = self.size.max(offset + part.len() as u64);
                    self.put(offset, part);
                } else {
                    lost.sectors_lost += 1;
                }
            }
            at += write.length;
        }
    }

    /// Makes the file at least this long.
    fn grow(&mut self, size: u64) -> io::Result<()> {
        self.size = self.size.max(size);
        let pages = usize::try_from(self.size).map_err(|_| io::ErrorKind::StorageFull)?;
        let pages = pages.div_ceil(PAGE_BYTES);
        if self.pages.len() < pages {
            self.pages.resize(pages, None);
        }
        Ok(())
    }

    /// Copies from within the pages.
    fn get(&self, offset: u64, into: &mut [u8]) {
        for (page, start, range) in pieces(offset, into.len()) {
            let into = &mut into[range];
            match &self.pages[page] {
                Some(page) => into.copy_from_slice(&page[start..start + into.len()]),
                None => into.fill(0),
            }
        }
    }

    /// Copies into the pages, which must exist.
    fn put(&mut self, offset: u64, bytes: &[u8]) {
        for (page, start, range) in pieces(offset, bytes.len()) {
            let bytes = &bytes[range];
            let page = self.pages[page].get_or_insert_with(|| Box::new([0; PAGE_BYTES]));
            page[start..start + bytes.len()].copy_from_slice(bytes);
        }
    }
}

/// The pieces of `length` bytes at `offset`, each within one page: the page, the offset in it, and
/// the range of the bytes.
fn pieces(
    offset: u64,
    length: usize,
) -> impl Iterator<Item = (usize, usize, std::ops::Range<usize>)> {
    let offset = usize::try_from(offset).unwrap_or(usize::MAX);
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == length {
            return None;
        }
        let at = offset + done;
        let start = at % PAGE_BYTES;
        let count = (PAGE_BYTES - start).min(length - done);
        let piece = (at / PAGE_BYTES, start, done..done + count);
        done += count;
        Some(piece)
    })
}

const _: () = assert!((PAGE_BYTES as u64).is_multiple_of(SECTOR_BYTES));
