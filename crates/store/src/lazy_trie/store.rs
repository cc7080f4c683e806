//! The store: readers beside writers. A commit is in the log, if there is one, before readers
//! see it.

use super::apart::Apart;
use super::batch::{Batch, Change, check_lengths, encode};
use super::error::Error;
use super::hash::Hash;
use super::item::Name;
use super::lanes::Lanes;
use super::log_side::{LogSide, append};
use super::memory::Memory;
use super::options::Options;
use super::queue::Queue;
use super::readers::Readers;
use super::snapshot::{Held, Snapshot};
use super::versions::Versions;
use super::wish::Wish;
use super::writer::{Hashed, Writer, hashed};
use crate::lock::FolderLock;
use crate::merkle::Digest;
use crate::wal::Durability;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;

/// Finds the current value.
pub(super) type Find<'a> = &'a dyn Fn() -> Result<Option<&'a [u8]>, Error>;

/// Waiting slots are released when there are this many.
const WAITING_SLOTS: usize = 64;

/// A persistent key-value store. See the [module](super).
pub struct Store {
    pub(super) shared: Arc<Shared>,
    pub(super) thread: Option<JoinHandle<()>>,
    pub(super) _lock: Option<FolderLock>,
}

/// The state shared by the threads of a store. Locks are taken in the order of the fields, except
/// short ones within `readers` and `versions`.
pub(super) struct Shared {
    pub(super) options: Options,
    pub(super) memory: Arc<Memory>,
    pub(super) readers: Readers,
    pub(super) versions: Versions,
    /// For commits of one item [side by side](super::side_by_side), if the options allow them.
    pub(super) lanes: Option<Lanes>,
    /// Whether an error has stopped the writers, for those that do not take the writer's lock.
    pub(super) halted: Apart<AtomicBool>,
    pub(super) log: Apart<Mutex<Apart<LogSide>>>,
    /// Waiting threads poll the lock, so the guarded data lies on other cache lines.
    pub(super) writer: Apart<Mutex<Apart<Writer>>>,
    /// Batches that are not in the log yet. The holder of the writer lock adds them, the holder of
    /// the log lock takes them.
    pub(super) queue: Apart<Mutex<Queue>>,
    pub(super) signal: Mutex<Signal>,
    pub(super) signalled: Condvar,
    pub(super) gathered: Apart<Gathered>,
    /// The request for a checkpoint.
    pub(super) wish: Apart<Wish>,
    pub(super) counters: Counters,
}

/// The work since the last checkpoint, which decides whether another is due.
pub(super) struct Gathered {
    /// The begin of the log's part after the last checkpoint, and the log's end.
    pub(super) log_from: AtomicU64,
    pub(super) log_to: AtomicU64,
    /// Memory of pages that are not written out.
    pub(super) shadow_bytes: AtomicU64,
    /// If commits are not logged: bytes of changes committed since the last checkpoint began.
    pub(super) changed_bytes: AtomicU64,
}

/// The messages between the checkpointing thread and the threads that wait for it.
#[derive(Default)]
pub(super) struct Signal {
    pub(super) stopping: bool,
    /// Whether a checkpoint has begun and not ended.
    pub(super) under_way: bool,
    /// Whether a checkpoint failed. Then there will be no other.
    pub(super) failed: bool,
    /// The number of checkpoints that ended, successfully or not.
    pub(super) ended: u64,
}

/// Counters since the store was opened.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) checkpoints: AtomicU64,
    pub(super) space_bytes_written: AtomicU64,
    pub(super) stalls: AtomicU64,
    pub(super) stall_ns: AtomicU64,
}

/// Locks, even if an earlier holder panicked: its state is used only after a check of `stopped`.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number of attempts to lock before the thread sleeps, ...
const TRIES: u32 = 400;
/// ... and of processor pauses between them.
const PAUSES: u32 = 4;

/// [`lock`] for locks that are held for microseconds. To sleep and wake takes tens of them, and
/// more on a virtual machine.
pub(super) fn lock_soon<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    for _ in 0..TRIES {
        match mutex.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(guard)) => return guard.into_inner(),
            Err(TryLockError::WouldBlock) => (0..PAUSES).for_each(|_| std::hint::spin_loop()),
        }
    }
    lock(mutex)
}

/// The writer, unless an error has stopped it.
fn unless_stopped(
    writer: MutexGuard<'_, Apart<Writer>>,
) -> Result<MutexGuard<'_, Apart<Writer>>, Error> {
    match &writer.stopped {
        Some(reason) => Err(Error::Stopped { reason: reason.clone() }),
        None => Ok(writer),
    }
}

impl Store {
    /// A view of the last commit, unchanged until it is dropped.
    ///
    /// # Errors
    /// [`Error::TooManySnapshots`]; of an authenticated store [`Error::Damaged`].
    pub fn snapshot(&self) -> Result<Snapshot<'_>, Error> {
        Snapshot::new(Held::Here(&self.shared))
    }

    /// The same, independent of the store's lifetime: the store stays open until it is dropped.
    ///
    /// # Errors
    /// As [`Store::snapshot`].
    pub fn shared_snapshot(self: &Arc<Self>) -> Result<Snapshot<'static>, Error> {
        Snapshot::new(Held::Shared(Arc::clone(self)))
    }

    /// [`Store::snapshot`] with proofs ([`Options::proofs`]). It writes pending digest blocks to
    /// memory, and writers wait meanwhile.
    ///
    /// # Errors
    /// As [`Store::snapshot`]; [`Error::LimitReached`], [`Error::Io`], [`Error::Log`],
    /// [`Error::Stopped`].
    pub fn provable_snapshot(&self) -> Result<Snapshot<'_>, Error> {
        self.provable(Held::Here(&self.shared))
    }

    /// The same, independent of the store's lifetime: the store stays open until it is dropped.
    ///
    /// # Errors
    /// As [`Store::provable_snapshot`].
    pub fn shared_provable_snapshot(self: &Arc<Self>) -> Result<Snapshot<'static>, Error> {
        self.provable(Held::Shared(Arc::clone(self)))
    }

    fn provable<'s>(&self, held: Held<'s>) -> Result<Snapshot<'s>, Error> {
        if !self.shared.options.defers_digests() {
            return Snapshot::new(held);
        }
        // The log's lock prevents the publication of other batches.
        let mut log = lock(&self.shared.log);
        let mut writer = self.shared.writer()?;
        self.shared.show_proofs(&mut log, &mut writer)?;
        Snapshot::new(held)
    }

    /// A view of a kept version ([`Options::kept_versions`]), until it is dropped.
    ///
    /// # Errors
    /// [`Error::NotKept`], [`Error::TooManySnapshots`], [`Error::Damaged`].
    pub fn snapshot_at(&self, version: u64) -> Result<Snapshot<'_>, Error> {
        Snapshot::at(&self.shared, version)
    }

    /// The version of the last commit. An empty store has version 1, and each batch makes the next.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.shared.readers.newest()
    }

    /// The number of items in the last commit.
    #[must_use]
    pub fn items(&self) -> u64 {
        let mut alone = self.shared.alone();
        let mut writer = lock(&self.shared.writer);
        // An error stops the store, and the next writer reports it.
        let _ = self.shared.collect(&mut alone, &mut writer);
        writer.totals.items
    }

    /// The Merkle root of the last commit.
    ///
    /// # Errors
    /// [`Error::NotAuthenticated`], [`Error::TooManySnapshots`], [`Error::Damaged`].
    pub fn root(&self) -> Result<Digest, Error> {
        self.snapshot()?.root()
    }

    /// The value of an item, copied.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::TooManySnapshots`].
    pub fn get<'a>(&self, name: impl Into<Name<'a>>) -> Result<Option<Vec<u8>>, Error> {
        self.get_with(name, <[u8]>::to_vec)
    }

    /// The result of `read` on the value of an item, which is not copied. It is the cheapest way to
    /// read one item. `read` holds up nobody, but the store keeps replaced data meanwhile.
    ///
    /// # Errors
    /// As [`Store::get`].
    pub fn get_with<'a, T>(
        &self,
        name: impl Into<Name<'a>>,
        read: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>, Error> {
        let name = name.into();
        let hash = name.hash();
        let snapshot = Snapshot::for_one(&self.shared, &hash)?;
        Ok(snapshot.find(&name, &hash)?.map(|item| read(item.value)))
    }

    /// Puts an item, and replaces the item of the same name.
    ///
    /// # Errors
    /// [`Error::TooLarge`]; as [`Store::write`].
    pub fn put<'a>(&self, name: impl Into<Name<'a>>, value: &[u8]) -> Result<(), Error> {
        self.change_one(&name.into(), |_| Ok(Some(value)))
    }

    /// Puts an item. Returns the value that it replaced.
    ///
    /// # Errors
    /// As [`Store::put`].
    pub fn replace<'a>(
        &self,
        name: impl Into<Name<'a>>,
        value: &[u8],
    ) -> Result<Option<Vec<u8>>, Error> {
        let mut old = None;
        self.change_one(&name.into(), |find| {
            old = find()?.map(<[u8]>::to_vec);
            Ok(Some(value))
        })?;
        Ok(old)
    }

    /// Removes an item. Returns whether it existed.
    ///
    /// # Errors
    /// As [`Store::write`].
    pub fn delete<'a>(&self, name: impl Into<Name<'a>>) -> Result<bool, Error> {
        let mut there = false;
        self.change_one(&name.into(), |find| {
            there = find()?.is_some();
            Ok::<_, Error>(None::<&[u8]>)
        })?;
        Ok(there)
    }

    /// Reads, changes and writes one item, with no other write in between. `change` gets the
    /// current value and returns the new one; `None` removes the item. It must not use the store,
    /// because the writer waits for it.
    ///
    /// # Errors
    /// As [`Store::put`].
    pub fn merge<'a>(
        &self,
        name: impl Into<Name<'a>>,
        change: impl FnOnce(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<(), Error> {
        self.change_one(&name.into(), |find| Ok(change(find()?)))
    }

    /// Commits the change of one item that `decide` returns. `decide` may read the current value.
    fn change_one<V: AsRef<[u8]>>(
        &self,
        name: &Name<'_>,
        decide: impl FnOnce(Find<'_>) -> Result<Option<V>, Error>,
    ) -> Result<(), Error> {
        let hash = name.hash();
        self.wait_for_room()?;
        let mut writer = loop {
            if let Some(entered) = self.shared.enter_lane()? {
                entered.change(name, &hash, decide)?;
                return self.shared.ask_for_checkpoint();
            }
            let writer = self.writer_looking_ahead(name, &hash)?;
            if !self.shared.is_divided() {
                break writer;
            }
        };
        let (version, bytes, divide) = {
            let value = decide(&|| writer.value(name, &hash))?;
            let value = value.as_ref().map(V::as_ref);
            check_lengths(name, value)?;
            let change = Change { name: *name, value };
            let change = Hashed::new(hash, change, self.shared.options.hashing());
            self.shared.apply(&mut writer, &[change])?;
            self.shared.queue(&writer, |bytes| encode(bytes, name, value));
            let divide = self.shared.wants_division(&mut writer);
            (writer.version, name.bytes().len() + value.map_or(0, <[u8]>::len), divide)
        };
        drop(writer);
        self.shared.settle(version, bytes)?;
        if divide {
            // Its error concerns the next commit, which reports it.
            let _ = self.shared.divide();
        }
        Ok(())
    }

    /// Locks the writer. While another thread writes, this one finds the item, so that it is in the
    /// processor's cache for the search under the lock. Otherwise all writers would wait for memory
    /// under the lock, one after the other.
    fn writer_looking_ahead(
        &self,
        name: &Name<'_>,
        hash: &Hash,
    ) -> Result<MutexGuard<'_, Apart<Writer>>, Error> {
        match self.shared.writer.try_lock() {
            Ok(writer) => return unless_stopped(writer),
            Err(TryLockError::Poisoned(writer)) => return unless_stopped(writer.into_inner()),
            Err(TryLockError::WouldBlock) => {
                if let Ok(snapshot) = Snapshot::for_one(&self.shared, hash) {
                    // The writer will find any damage of the store as well.
                    std::hint::black_box(snapshot.find(name, hash).is_ok());
                }
            }
        }
        self.shared.writer()
    }

    /// Commits the changes of a batch, all or none.
    ///
    /// # Errors
    /// [`Error::LimitReached`], [`Error::Damaged`] and errors of creating a file leave the store as
    /// before. After [`Error::Log`] and [`Error::Stopped`], the batch may or may not exist at the
    /// next opening.
    pub fn write(&self, batch: &Batch) -> Result<(), Error> {
        // Every batch can be decoded.
        let changes = hashed(batch.bytes(), self.shared.options.hashing()).unwrap_or_default();
        let bytes = batch.bytes().len();
        self.wait_for_room()?;
        let version = {
            let mut writer = self.shared.united_writer()?;
            writer.singles = 0;
            self.shared.apply(&mut writer, &changes)?;
            self.shared.queue(&writer, |bytes| bytes.extend_from_slice(batch.bytes()));
            writer.version
        };
        self.shared.settle(version, bytes)
    }

    /// Makes all commits survive a power failure, whatever the durability of commits. It does not
    /// apply to stores whose commits are not logged ([`Options::log_commits`]).
    ///
    /// # Errors
    /// [`Error::Log`], [`Error::Stopped`].
    pub fn sync(&self) -> Result<(), Error> {
        let mut alone = self.shared.alone();
        let mut log = lock(&self.shared.log);
        let mut writer = self.shared.writer()?;
        self.shared.unite(&mut alone, &mut writer)?;
        self.shared.flush(&mut log, &mut writer, Durability::Sync)
    }
}

impl Drop for Store {
    /// Stops the checkpointing thread. Commits are in the log, if they are logged; nothing else
    /// must be written.
    fn drop(&mut self) {
        lock(&self.shared.signal).stopping = true;
        self.shared.signalled.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// The writer, unless an error has stopped it.
    pub(super) fn writer(&self) -> Result<MutexGuard<'_, Apart<Writer>>, Error> {
        unless_stopped(lock_soon(&self.writer))
    }

    /// Applies a batch to the current tree.
    fn apply(&self, writer: &mut Writer, changes: &[Hashed<'_>]) -> Result<(), Error> {
        if writer.space.fresh_waiting.len() >= WAITING_SLOTS {
            let oldest = self.oldest();
            writer.space.release(oldest, self.readers.newest());
        }
        writer.apply(writer.version + 1, changes)?;
        self.tell_shadows(writer);
        Ok(())
    }

    /// Publishes the size of the writer's memory, if it has changed. Most batches do not change it.
    pub(super) fn tell_shadows(&self, writer: &Writer) {
        let told = &self.gathered.shadow_bytes;
        if told.load(Ordering::Relaxed) != writer.space.shadow_bytes {
            told.store(writer.space.shadow_bytes, Ordering::Relaxed);
        }
    }

    /// Queues the applied batch for the log, if commits are [logged](Options::log_commits). `put`
    /// appends its changes.
    fn queue(&self, writer: &Writer, put: impl FnOnce(&mut Vec<u8>)) {
        let mut queue = lock_soon(&self.queue);
        let put = |bytes: &mut Vec<u8>| {
            if self.options.log_commits {
                put(bytes)
            }
        };
        queue.add(writer.version, writer.shown(), put);
    }

    /// Writes `version`, with changes of `bytes` bytes, to the log together with other waiting
    /// batches, and publishes it.
    fn settle(&self, version: u64, bytes: usize) -> Result<(), Error> {
        if !self.options.log_commits {
            self.gathered.changed_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        }
        {
            let mut log = match self.options.durability {
                Durability::Os => lock_soon(&self.log),
                // The lock is held while the disk works.
                Durability::Sync => lock(&self.log),
            };
            if log.settled < version {
                // Other writers continue meanwhile.
                lock_soon(&self.queue).move_to(&mut log.taken);
                let Some(last) = log.taken.last() else {
                    // The thread that took it failed.
                    let reason = "another writer's commit failed".to_owned();
                    let error = Error::Stopped { reason };
                    self.stop(&error);
                    return Err(error);
                };
                self.record(&mut log, (last.version, last.root), self.options.durability)?;
            } else if log.synced < version && self.options.syncs_commits() {
                // A checkpoint that began, or a request for proofs, wrote it to the log without a
                // sync.
                log.sync().inspect_err(|error| self.stop(error))?;
            }
        }
        self.ask_for_checkpoint()
    }

    /// The same for all waiting batches. The caller holds both locks.
    pub(super) fn flush(
        &self,
        log: &mut LogSide,
        writer: &mut Writer,
        durability: Durability,
    ) -> Result<(), Error> {
        lock(&self.queue).move_to(&mut log.taken);
        let last = (writer.version, writer.shown());
        let result = self.record_without_stop(log, last, durability);
        if let Err(error) = &result {
            writer.stopped = Some(error.to_string());
            self.halted.store(true, Ordering::Release);
        }
        result
    }

    /// Publishes the last version with its proofs.
    pub(super) fn show_proofs(&self, log: &mut LogSide, writer: &mut Writer) -> Result<(), Error> {
        if self.options.defers_digests() {
            writer.write_digests()?;
            self.tell_shadows(writer);
            self.flush(log, writer, Durability::Os)?;
        }
        Ok(())
    }

    fn record(
        &self,
        log: &mut LogSide,
        last: (u64, u64),
        durability: Durability,
    ) -> Result<(), Error> {
        let result = self.record_without_stop(log, last, durability);
        if let Err(error) = &result {
            self.stop(error);
        }
        result
    }

    fn record_without_stop(
        &self,
        log: &mut LogSide,
        (version, root): (u64, u64),
        durability: Durability,
    ) -> Result<(), Error> {
        log.check_whole()?;
        if log.settled + log.taken.len() as u64 != version {
            // A writer panicked with the missing batch.
            return Err(Error::Stopped { reason: "a commit did not get to the log".to_owned() });
        }
        let LogSide { log: wal, taken, .. } = log;
        if self.options.log_commits {
            for (batch, changes) in taken.iter() {
                append(wal, batch.version, changes)?;
            }
            wal.commit(None, durability)?;
            self.gathered.log_to.store(wal.end().0, Ordering::Relaxed);
        }
        log.commits += taken.len() as u64;
        log.settled = version;
        if durability == Durability::Sync {
            log.synced = version;
        }
        if self.versions.are_kept() {
            taken.iter().for_each(|(batch, _)| self.versions.push(batch.version, batch.root));
        }
        self.readers.publish(version, root);
        Ok(())
    }

    /// The oldest version that is being read or may yet be.
    pub(super) fn oldest(&self) -> u64 {
        // A future reader of a kept version takes its place before that version can be dropped.
        let kept = if self.versions.are_kept() { self.versions.oldest() } else { u64::MAX };
        kept.min(self.readers.oldest())
    }

    /// Accepts no further batch.
    pub(super) fn stop(&self, error: &Error) {
        self.stop_writer(&mut lock(&self.writer), error);
    }

    /// The same for the holder of the writer's lock.
    pub(super) fn stop_writer(&self, writer: &mut Writer, error: &Error) {
        writer.stopped.get_or_insert_with(|| error.to_string());
        self.halted.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
