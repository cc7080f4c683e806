//! A folder in memory, for tests and simulations.

use super::{Disk, DiskFile, check_name};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// A folder in memory. Clones share it. Syncs do nothing.
#[derive(Clone, Default)]
pub struct MemoryDisk {
    files: Arc<Mutex<BTreeMap<String, Arc<MemoryFile>>>>,
}

impl MemoryDisk {
    /// An empty folder.
    pub fn new() -> MemoryDisk {
        MemoryDisk::default()
    }

    /// The content of a file.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn content(&self, name: &str) -> io::Result<Vec<u8>> {
        Ok(self.file(name)?.lock().clone())
    }

    /// Replaces or creates a file.
    pub fn put(&self, name: &str, content: Vec<u8>) {
        self.with(|files| {
            files.insert(name.to_string(), Arc::new(MemoryFile(Mutex::new(content))))
        });
    }

    /// Flips `bit` (0 to 7) of the byte at `offset`: bit rot.
    ///
    /// # Errors
    /// `NotFound`, or `UnexpectedEof` past the end.
    pub fn flip_bit(&self, name: &str, offset: u64, bit: u32) -> io::Result<()> {
        let file = self.file(name)?;
        let mut content = file.lock();
        let at = usize::try_from(offset).unwrap_or(usize::MAX);
        let byte = content.get_mut(at).ok_or(io::ErrorKind::UnexpectedEof)?;
        *byte ^= 1u8.rotate_left(bit);
        Ok(())
    }

    /// An independent copy.
    #[must_use]
    pub fn fork(&self) -> MemoryDisk {
        let copy = MemoryDisk::new();
        for (name, file) in self.with(|files| files.clone()) {
            let content = file.lock().clone();
            copy.put(&name, content);
        }
        copy
    }

    pub(super) fn file(&self, name: &str) -> io::Result<Arc<MemoryFile>> {
        self.with(|files| files.get(name).cloned()).ok_or_else(|| not_found(name))
    }

    pub(super) fn create_file(&self, name: &str, size: u64) -> io::Result<Arc<MemoryFile>> {
        check_name(name)?;
        let size = usize::try_from(size).map_err(|_| io::ErrorKind::StorageFull)?;
        let file = Arc::new(MemoryFile(Mutex::new(vec![0; size])));
        self.with(|files| {
            if files.contains_key(name) {
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, name));
            }
            files.insert(name.to_string(), file.clone());
            Ok(file)
        })
    }

    fn with<T>(&self, act: impl FnOnce(&mut BTreeMap<String, Arc<MemoryFile>>) -> T) -> T {
        act(&mut self.files.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Disk for MemoryDisk {
    fn create(&self, name: &str, size: u64) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.create_file(name, size)?)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file(name)?)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        check_name(to)?;
        self.with(|files| {
            let file = files.remove(from).ok_or_else(|| not_found(from))?;
            files.insert(to.to_string(), file);
            Ok(())
        })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.with(|files| files.remove(name)).map(|_| ()).ok_or_else(|| not_found(name))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.with(|files| files.keys().cloned().collect()))
    }

    fn sync_dir(&self) -> io::Result<()> {
        Ok(())
    }
}

fn not_found(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, name)
}

pub(super) struct MemoryFile(Mutex<Vec<u8>>);

impl MemoryFile {
    pub(super) fn lock(&self) -> std::sync::MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DiskFile for MemoryFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let content = self.lock();
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let part = content.get(from..from.saturating_add(into.len()));
        into.copy_from_slice(part.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        write_into(&mut self.lock(), offset, bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.lock().len() as u64)
    }
}

/// Writes `bytes` at `offset` of `content`, growing it with zeros.
pub(super) fn write_into(content: &mut Vec<u8>, offset: u64, bytes: &[u8]) -> io::Result<()> {
    let from = usize::try_from(offset).map_err(|_| io::ErrorKind::StorageFull)?;
    let to = from.checked_add(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
    if content.len() < to {
        content.resize(to, 0);
    }
    content[from..to].copy_from_slice(bytes);
    Ok(())
}
