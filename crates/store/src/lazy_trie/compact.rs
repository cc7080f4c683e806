//! Compaction: writes a store anew, without holes and without a log, and replaces the old one with
//! it.
//!
//! The new store is made in the same folder. So it needs no permission for the parent folder, and a
//! mounted folder stays. Each of its files has `.compact` behind its name. Renames then switch to
//! the new store; a crash keeps or loses each of them as a whole:
//!
//! 1. All of the new store is durable, names included; of the old one nothing has changed.
//! 2. `store.head.compact` becomes `store.head.swap`. When that is durable (a sync of the folder),
//!    the new store counts; before, the old one.
//! 3. Regions of the new store replace old ones. The old log and further old regions are removed; a
//!    sync of the folder.
//! 4. `store.head.swap` becomes `store.head`; a sync of the folder.
//!
//! The next opening of the folder checks this first. If `store.head.swap` exists, it repeats steps
//! 3 and 4; otherwise it removes all `.compact` files. The new store has no log until it is opened,
//! so repeating these steps loses nothing. Its regions have another identity than the old ones, so
//! a mixture is never taken for a store.

use super::batch::Batch;
use super::error::Error;
use super::head::{HEAD_NAME, Head, HeadFile, LOG_TO_BEGIN};
use super::options::{Durability, Options};
use super::regions::region_index;
use super::snapshot::Snapshot;
use super::store::{Store, lock};
use crate::disk::{Disk, DiskFile, FileDisk};
use crate::lock::FolderLock;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The suffix of the new store's files.
const SUFFIX: &str = ".compact";
/// The name of the new store's head, once it counts.
const SWAP_NAME: &str = "store.head.swap";
/// A batch of the copy ends after this many bytes, ...
const BATCH_BYTES: usize = 1 << 20;
/// ... or items.
const BATCH_ITEMS: usize = 4096;

/// The result of a compaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Items in the store.
    pub items: u64,
    /// The size of its files before, in bytes.
    pub bytes_before: u64,
    /// Their size now, in bytes. The next opening adds a log.
    pub bytes_after: u64,
    /// As [`Recovered::lost`](super::Recovered::lost), of opening the old store.
    pub lost: Option<String>,
}

impl Store {
    /// Rewrites the store in a folder compactly. Meanwhile it needs the room of both. It keeps the
    /// sizes of slabs and regions. The store must be closed. After an interruption the folder has
    /// one whole store with all items.
    ///
    /// # Errors
    /// As [`Store::open`]; [`Error::Missing`] if there is no store; [`Error::Damaged`] if an item
    /// cannot be read. The old store is then intact. After an error of a rename or of the folder's
    /// sync, the next opening finds out which of the two stores counts.
    pub fn compact(folder: impl AsRef<Path>, options: Options) -> Result<Compacted, Error> {
        let folder = folder.as_ref();
        if !folder.join(HEAD_NAME).exists() {
            // Locking would create the folder.
            return Err(no_store());
        }
        let _lock = FolderLock::acquire(folder)?;
        let disk = FileDisk::open(folder).map_err(Error::io("the folder", "open"))?;
        Store::compact_on(Arc::new(disk), options)
    }

    /// The same on any disk, which must not be in use otherwise.
    ///
    /// # Errors
    /// As [`Store::compact`], but for the lock.
    pub fn compact_on(disk: Arc<dyn Disk>, options: Options) -> Result<Compacted, Error> {
        settle(&*disk)?;
        if HeadFile::open(&*disk)?.is_none() {
            return Err(no_store());
        }
        let bytes_before = size(&*disk)?;
        let (old, recovered) = Store::open_on(Arc::clone(&disk), options.clone())?;
        let beside: Arc<dyn Disk> = Arc::new(Beside(Arc::clone(&disk)));
        let made = rewrite(&old, &beside, options);
        drop(old);
        let (items, regions) = match made {
            Ok(made) => made,
            Err(error) => {
                // A partial store must not take the room. If this fails, the next opening does it.
                let _ = remove_unfinished(&*disk);
                return Err(error);
            }
        };
        disk.rename(&beside_name(HEAD_NAME), SWAP_NAME).map_err(Error::io(HEAD_NAME, "rename"))?;
        disk.sync_dir().map_err(Error::io("the folder", "sync"))?;
        finish(&*disk, Some(regions))?;
        Ok(Compacted { items, bytes_before, bytes_after: size(&*disk)?, lost: recovered.lost })
    }
}

/// Makes the new store durable. Returns its number of items and of regions.
fn rewrite(old: &Store, beside: &Arc<dyn Disk>, options: Options) -> Result<(u64, usize), Error> {
    let (geometry, counted) = {
        let _log = lock(&old.shared.log);
        let writer = lock(&old.shared.writer);
        (writer.space.geometry, writer.totals.items)
    };
    let options = Options {
        identity: None,
        // Nothing counts before the whole store does.
        durability: Durability::Os,
        // It is written out as it grows.
        log_commits: true,
        slab_bytes: geometry.slab_bytes,
        region_bytes: geometry.region_bytes,
        limit_bytes: options.limit_bytes.max(geometry.region_bytes),
        ..options
    };
    let (new, _) = Store::open_on(Arc::clone(beside), options)?;
    let items = copy(&old.snapshot()?, &new)?;
    if items != counted {
        return Err(Error::Damaged {
            file: HEAD_NAME.to_string(),
            offset: 0,
            what: "the number of items is not that of the items found",
        });
    }
    new.checkpoint()?;
    drop(new);
    Ok((items, leave_log(&**beside)?))
}

/// Copies every item, in the order of hashes, so that neighbours in the trie lie together. Returns
/// the number of items.
fn copy(from: &Snapshot<'_>, to: &Store) -> Result<u64, Error> {
    let mut batch = Batch::new();
    let (mut items, mut bytes) = (0, 0);
    for item in from.iter() {
        let (hash, item) = item?;
        match item.key() {
            Some(key) => batch.put(key, item.value)?,
            None => batch.put(&hash, item.value)?,
        }
        items += 1;
        bytes += item.value.len();
        if batch.len() >= BATCH_ITEMS || bytes >= BATCH_BYTES {
            to.write(&batch)?;
            batch.clear();
            bytes = 0;
        }
    }
    to.write(&batch)?;
    Ok(items)
}

/// Removes the log of a closed store that needs none, durably. Returns its number of regions.
fn leave_log(disk: &dyn Disk) -> Result<usize, Error> {
    let (head_file, head) = HeadFile::open(disk)?.ok_or_else(no_store)?;
    head_file.write(&Head {
        number: head.number + 1,
        log_generation: head.log_generation + 1,
        log_position: LOG_TO_BEGIN,
        ..head
    })?;
    for name in list(disk)?.iter().filter(|name| is_of_log(name)) {
        disk.remove(name).map_err(Error::io(name, "remove"))?;
    }
    disk.sync_dir().map_err(Error::io("the folder", "sync"))?;
    Ok(head.regions as usize)
}

/// Finishes an interrupted compaction, or removes its files. It must be the first step with a
/// folder.
///
/// # Errors
/// [`Error::Io`].
pub(super) fn settle(disk: &dyn Disk) -> Result<(), Error> {
    if !list(disk)?.iter().any(|name| name == SWAP_NAME) {
        return remove_unfinished(disk);
    }
    // The name may be visible without being durable yet.
    disk.sync_dir().map_err(Error::io("the folder", "sync"))?;
    finish(disk, None)
}

/// Replaces the old store with the new one, which counts. Regions beyond `regions` belong to the
/// old one. If the number is unknown, opening removes them.
fn finish(disk: &dyn Disk, regions: Option<usize>) -> Result<(), Error> {
    for name in &list(disk)? {
        if let Some(place) = name.strip_suffix(SUFFIX) {
            if region_index(place).is_some() {
                disk.rename(name, place).map_err(Error::io(name, "rename"))?;
            } else {
                disk.remove(name).map_err(Error::io(name, "remove"))?;
            }
            continue;
        }
        let beyond =
            region_index(name).is_some_and(|index| regions.is_some_and(|regions| index >= regions));
        if beyond || is_of_log(name) {
            disk.remove(name).map_err(Error::io(name, "remove"))?;
        }
    }
    disk.sync_dir().map_err(Error::io("the folder", "sync"))?;
    disk.rename(SWAP_NAME, HEAD_NAME).map_err(Error::io(SWAP_NAME, "rename"))?;
    disk.sync_dir().map_err(Error::io("the folder", "sync"))
}

fn remove_unfinished(disk: &dyn Disk) -> Result<(), Error> {
    for name in list(disk)?.iter().filter(|name| name.ends_with(SUFFIX)) {
        disk.remove(name).map_err(Error::io(name, "remove"))?;
    }
    Ok(())
}

fn no_store() -> Error {
    Error::Missing { file: HEAD_NAME.to_string(), hint: "" }
}

fn list(disk: &dyn Disk) -> Result<Vec<String>, Error> {
    disk.list().map_err(Error::io("the folder", "list"))
}

/// Whether `name` is that of a segment, or of a file that waits to become one. Segments that were
/// set aside are left to the operator.
fn is_of_log(name: &str) -> bool {
    name.ends_with(".wal") || name.ends_with(".spare")
}

/// The size of a store's files, in bytes.
fn size(disk: &dyn Disk) -> Result<u64, Error> {
    let names = list(disk)?;
    let own =
        |name: &&String| *name == HEAD_NAME || region_index(name).is_some() || is_of_log(name);
    names.iter().filter(own).try_fold(0, |sum, name| {
        let size = disk.open(name).and_then(|file| file.size());
        Ok(sum + size.map_err(Error::io(name, "measure"))?)
    })
}

fn beside_name(name: &str) -> String {
    format!("{name}{SUFFIX}")
}

/// A folder within a folder: the files whose names end in [`SUFFIX`].
struct Beside(Arc<dyn Disk>);

impl Disk for Beside {
    fn create(&self, name: &str, size: u64) -> io::Result<Arc<dyn DiskFile>> {
        self.0.create(&beside_name(name), size)
    }

    fn reserve(&self, name: &str, size: u64) -> io::Result<Arc<dyn DiskFile>> {
        self.0.reserve(&beside_name(name), size)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.0.open(&beside_name(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(&beside_name(from), &beside_name(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(&beside_name(name))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let names = self.0.list()?;
        Ok(names
            .into_iter()
            .filter_map(|mut name| {
                let length = name.strip_suffix(SUFFIX)?.len();
                name.truncate(length);
                Some(name)
            })
            .collect())
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.0.sync_dir()
    }
}
