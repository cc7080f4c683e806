//! Spares: files that wait to become segments.

use super::error::Error;
use super::options::{Options, Preparation};
use crate::disk::{Disk, DiskFile};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// The most retired segments that are kept; others are removed.
const SPARES_KEPT: usize = 2;

/// A file of the right size whose content has no meaning.
pub(super) struct Spare {
    pub(super) name: String,
    pub(super) file: Arc<dyn DiskFile>,
}

/// Files that wait to become segments.
pub(super) struct Spares {
    disk: Arc<dyn Disk>,
    segment_bytes: u64,
    preparation: Preparation,
    filled: bool,
    ready: Vec<Spare>,
    coming: Option<JoinHandle<Result<Spare, Error>>>,
    next_number: u64,
}

/// The name of spare `number`.
fn spare_name(number: u64) -> String {
    format!("{number:020}.spare")
}

/// The number of the spare, if `name` is a spare's.
fn spare_number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".spare")?;
    (digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit()))
        .then(|| digits.parse().ok())?
}

impl Spares {
    /// Takes over the spares among `names` that an earlier run left. Those of another size are
    /// removed.
    pub(super) fn open(
        disk: Arc<dyn Disk>,
        options: &Options,
        names: &[String],
    ) -> Result<Spares, Error> {
        let mut spares = Spares {
            disk,
            segment_bytes: options.segment_bytes,
            preparation: options.preparation,
            filled: options.filled,
            ready: Vec::new(),
            coming: None,
            next_number: 0,
        };
        for name in names.iter().filter(|name| name.ends_with(".spare")) {
            let number = spare_number(name).ok_or_else(|| Error::Foreign { file: name.clone() })?;
            spares.next_number = spares.next_number.max(number.saturating_add(1));
            let file = spares.disk.open(name).map_err(Error::io(name, "open"))?;
            let size = file.size().map_err(Error::io(name, "measure"))?;
            if size == options.segment_bytes && spares.ready.len() < SPARES_KEPT {
                spares.ready.push(Spare { name: name.clone(), file });
            } else {
                spares.disk.remove(name).map_err(Error::io(name, "remove"))?;
            }
        }
        Ok(spares)
    }

    /// Starts to make a file for the next segment, if there is none.
    pub(super) fn prepare(&mut self) -> Result<(), Error> {
        if self.preparation == Preparation::Inline
            || self.coming.is_some()
            || !self.ready.is_empty()
        {
            return Ok(());
        }
        let name = self.next_name();
        let (disk, size, filled) = (self.disk.clone(), self.segment_bytes, self.filled);
        let work = thread::Builder::new().name("wal-prepare".to_string());
        let handle = work
            .spawn(move || make(&*disk, name, size, filled))
            .map_err(Error::io("a spare", "start a thread for"))?;
        self.coming = Some(handle);
        Ok(())
    }

    /// A file for the next segment: a ready one, the one being made, or one made now.
    pub(super) fn take(&mut self) -> Result<Spare, Error> {
        if let Some(spare) = self.ready.pop() {
            return Ok(spare);
        }
        if let Some(handle) = self.coming.take() {
            return handle.join().unwrap_or_else(|_| {
                Err(Error::Poisoned {
                    reason: "the thread that prepares segments panicked".to_string(),
                })
            });
        }
        let name = self.next_name();
        make(&*self.disk, name, self.segment_bytes, self.filled)
    }

    /// Keeps the file of a retired segment, or removes it. The change of names is not durable yet.
    pub(super) fn give(
        &mut self,
        name: &str,
        file: Arc<dyn DiskFile>,
        size: u64,
    ) -> Result<(), Error> {
        if size == self.segment_bytes && self.ready.len() < SPARES_KEPT {
            let spare = self.next_name();
            self.disk.rename(name, &spare).map_err(Error::io(name, "rename"))?;
            self.ready.push(Spare { name: spare, file });
            return Ok(());
        }
        self.disk.remove(name).map_err(Error::io(name, "remove"))
    }

    /// The size of the spares that are ready.
    pub(super) fn bytes(&self) -> u64 {
        self.ready.len() as u64 * self.segment_bytes
    }

    fn next_name(&mut self) -> String {
        let name = spare_name(self.next_number);
        self.next_number = self.next_number.saturating_add(1);
        name
    }
}

impl Drop for Spares {
    /// Waits for the thread: nothing may write to the folder after its lock is released.
    fn drop(&mut self) {
        if let Some(handle) = self.coming.take() {
            // Its result is not needed: the next run examines the file itself.
            let _ = handle.join();
        }
    }
}

/// Makes a file of zeros, or one with reserved blocks. The sync is only for speed: the first commit
/// should not pay for the allocation.
fn make(disk: &dyn Disk, name: String, size: u64, filled: bool) -> Result<Spare, Error> {
    if !filled {
        let file = disk.reserve(&name, size).map_err(Error::io(&name, "create"))?;
        return Ok(Spare { name, file });
    }
    let file = disk.create(&name, size).map_err(Error::io(&name, "create"))?;
    file.sync_data().map_err(Error::io(&name, "sync"))?;
    Ok(Spare { name, file })
}
