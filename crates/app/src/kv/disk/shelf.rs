//! Where the lazy-tries of a replica are: one folder each, numbered in the order they were begun.
//!
//! There is more than one while a snapshot is taken over: what was there counts until it is proven.
//! The state that counts is in the newest folder whose checkpoint has the note of who executes.

use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quorate_core::ledger::state_machine::KeepError;
use quorate_store::disk::{self, DiskFile, FileDisk};
use quorate_store::lazy_trie::{self, Durability, Proofs, Store};
use quorate_store::lock::FolderLock;

use super::super::entry;

/// The store's log has little to tell.
const LOG_SEGMENT_BYTES: u64 = 1 << 20;
/// More of them make commits cheaper and what a checkpoint makes commits wait for longer.
const DIGEST_MEMORY_BYTES: u64 = 48 << 20;

/// The folders.
pub trait Folders: Send + Sync {
    /// Their numbers, in any order.
    ///
    /// # Errors
    /// What the system says.
    fn list(&self) -> io::Result<Vec<u64>>;
    /// Opens a folder, which is made if it is not there.
    ///
    /// # Errors
    /// What the system says.
    fn open(&self, number: u64) -> io::Result<Arc<dyn disk::Disk>>;
    /// Removes a folder with all that is in it. Who has files of it open goes on reading them.
    ///
    /// # Errors
    /// What the system says.
    fn remove(&self, number: u64) -> io::Result<()>;
    /// Removes what is left of folders that were being removed.
    ///
    /// # Errors
    /// What the system says.
    fn sweep(&self) -> io::Result<()> {
        Ok(())
    }
    /// What to call a folder in a message.
    fn name(&self, number: u64) -> String;
}

/// What the name of a folder ends with while it is removed.
const GONE: &str = ".gone";

/// Folders within a folder: `000001`, `000002`, …
pub struct FileFolders {
    path: PathBuf,
}

impl FileFolders {
    /// Those within `path`, which is made when the first is.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    fn place(&self, number: u64) -> PathBuf {
        self.path.join(format!("{number:06}"))
    }
}

impl Folders for FileFolders {
    fn list(&self) -> io::Result<Vec<u64>> {
        let entries = match std::fs::read_dir(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut numbers = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            let number = name.to_str().filter(|name| name.len() >= 6);
            numbers.extend(number.and_then(|name| name.parse::<u64>().ok()));
        }
        Ok(numbers)
    }

    fn open(&self, number: u64) -> io::Result<Arc<dyn disk::Disk>> {
        let place = self.place(number);
        if !place.exists() {
            // For its owner alone, whatever the umask.
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&place)?;
            // What is synced within it must not go with its name, or with that of the folder
            // around.
            for folder in [Some(self.path.as_path()), self.path.parent()].into_iter().flatten() {
                std::fs::File::open(folder)?.sync_all()?;
            }
        }
        let lock = FolderLock::acquire(&place).map_err(io::Error::other)?;
        Ok(Arc::new(Locked { disk: FileDisk::open(&place)?, _lock: lock }))
    }

    fn remove(&self, number: u64) -> io::Result<()> {
        // Half of a folder is none: first the name goes.
        let gone = self.path.join(format!("{number:06}{GONE}"));
        std::fs::rename(self.place(number), &gone)?;
        std::fs::remove_dir_all(gone)
    }

    fn sweep(&self) -> io::Result<()> {
        let entries = match std::fs::read_dir(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            if entry.file_name().to_str().is_some_and(|name| name.ends_with(GONE)) {
                std::fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(())
    }

    fn name(&self, number: u64) -> String {
        self.place(number).display().to_string()
    }
}

/// A folder that no other process may open meanwhile.
struct Locked {
    disk: FileDisk,
    _lock: FolderLock,
}

impl disk::Disk for Locked {
    fn create(&self, name: &str, size: u64) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.create(name, size)
    }

    fn reserve(&self, name: &str, size: u64) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.reserve(name, size)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        disk::Disk::open(&self.disk, name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.disk.sync_dir()
    }
}

/// The folders of one replica, and which of them an earlier process left.
pub struct Shelf {
    folders: Box<dyn Folders>,
    options: lazy_trie::Options,
    numbers: Mutex<Numbers>,
    /// The one begun last: to be had while folders are removed.
    newest: AtomicU64,
}

struct Numbers {
    /// Left by an earlier process and not turned to, the newest last.
    left: Vec<u64>,
    /// This process begins with this one.
    first: u64,
    next: u64,
}

impl Shelf {
    /// The shelf of these folders. Of `options`, those count that are not the application's to
    /// decide.
    ///
    /// # Errors
    /// [`KeepError`] if they cannot be listed.
    pub fn open(
        folders: impl Folders + 'static,
        options: lazy_trie::Options,
    ) -> Result<Arc<Self>, KeepError> {
        let listed = folders.sweep().and_then(|()| folders.list());
        let mut left = listed.map_err(|error| {
            KeepError(format!("the folders of the state cannot be listed: {error}"))
        })?;
        left.sort_unstable();
        let next = left.last().map_or(1, |last| last + 1);
        let options = lazy_trie::Options {
            authenticated: true,
            value_digest: Some(entry::digests),
            // Blocks follow each other faster than anybody asks for proofs.
            proofs: Proofs::WhenAsked,
            // What changed is written by the deciding thread: a little at a time.
            digest_memory_bytes: DIGEST_MEMORY_BYTES,
            // The other processors verify signatures.
            hashing_threads: 1,
            // The replica's log has the blocks.
            log_commits: false,
            durability: Durability::Os,
            log_through_memory: false,
            segment_bytes: options.segment_bytes.min(LOG_SEGMENT_BYTES),
            ..options
        };
        let numbers = Mutex::new(Numbers { left, first: next, next });
        let newest = AtomicU64::new(0);
        Ok(Arc::new(Self { folders: Box::new(folders), options, numbers, newest }))
    }

    fn numbers(&self) -> MutexGuard<'_, Numbers> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest folder that was left and not taken yet.
    pub(super) fn take_left(&self) -> Option<u64> {
        self.numbers().left.pop()
    }

    /// Begins another.
    pub(super) fn begin(&self) -> Result<(u64, Store), KeepError> {
        let number = {
            let mut numbers = self.numbers();
            numbers.next += 1;
            self.newest.store(numbers.next - 1, Ordering::Relaxed);
            numbers.next - 1
        };
        Ok((number, self.store(number)?))
    }

    pub(super) fn store(&self, number: u64) -> Result<Store, KeepError> {
        let unfit = |reason: &dyn std::fmt::Display| {
            KeepError(format!(
                "{folder}: {reason}. If it cannot be mended, remove {folder}: the state is then taken over from the other \
                 replicas, or made again from a snapshot if there is one",
                folder = self.folders.name(number)
            ))
        };
        let disk = self.folders.open(number).map_err(|error| unfit(&error))?;
        let (store, _) =
            Store::open_on(disk, self.options.clone()).map_err(|error| unfit(&error))?;
        Ok(store)
    }

    /// What an error is about.
    pub(super) fn place(&self, number: u64, error: &dyn std::fmt::Display) -> KeepError {
        KeepError(format!("{}: {error}", self.folders.name(number)))
    }

    /// Where a folder is.
    pub(super) fn name(&self, number: u64) -> String {
        self.folders.name(number)
    }

    /// Whether none was begun later.
    pub(super) fn is_newest(&self, number: u64) -> bool {
        self.newest.load(Ordering::Relaxed) == number
    }

    pub(super) fn remove(&self, number: u64) {
        // What stays is found at the next start, and removed when another state is kept.
        let _ = self.folders.remove(number);
    }

    /// Removes all but one, and those that this process began later.
    pub(super) fn keep_only(&self, kept: u64) {
        let mut numbers = self.numbers();
        numbers.left.clear();
        for number in self.folders.list().unwrap_or_default() {
            let later = number > kept && number >= numbers.first;
            if number != kept && !later {
                self.remove(number);
            }
        }
    }
}
