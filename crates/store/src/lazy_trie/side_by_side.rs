//! Commits of one item, side by side.
//!
//! After a few commits of one item the tree is [*divided*](super::readers::DIVIDED): each first
//! digit of a hash has a part with a root and a lock of its own, and nothing above. A commit of one
//! item takes its thread's [lane](super::lanes), a place among the readers, and the lock of its
//! part. It changes the part with slots of the lane, appends its record under the log's lock, and
//! publishes the part's root and the version there. So writers meet for the record alone, unless
//! they change the same part.
//!
//! A batch of several changes, a checkpoint and a check take the locks of all lanes. They *unite*
//! the tree: a node above the parts becomes its root, and the lanes give their slots to the space.
//! So the state on disk is that of a tree that was never divided.
//!
//! The locks are taken in this order: lane, part, log, writer, queue.

use super::apart::Apart;
use super::batch::{check_lengths, encode};
use super::edit::{Edit, Lengths, Met};
use super::entry::{Entry, Kind};
use super::error::Error;
use super::hash::Hash;
use super::item::Name;
use super::lanes::{Alone, Lane, LaneSlots, Lanes, Moved, Record};
use super::log_side::{LogSide, append};
use super::node::{self, Node};
use super::readers::{DIVIDED, PARTS, Parts};
use super::slab::SlotUse;
use super::slots::Slots;
use super::snapshot::hint;
use super::store::{Find, Shared, lock, lock_soon};
use super::tree;
use super::writer::{Totals, Writer};
use crate::wal::Durability;
use std::sync::MutexGuard;
use std::sync::atomic::{Ordering, fence};

/// The tree is divided after this many commits of one item without another batch in between.
const SINGLES: u32 = 8;
/// A root with fewer parts is not divided. Threads would meet at one of them, and a small tree
/// would keep a slot for each of several sizes.
const LEAST_PARTS: usize = 16;
/// The log's growth after which waiting threads are told, as a share of a checkpoint's.
const TOLD_ONE_IN: u64 = 256;

/// A place among the readers.
struct Place<'a> {
    shared: &'a Shared,
    index: usize,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.shared.readers.leave(self.index);
    }
}

/// A thread that is about to change a part.
pub(super) struct Entered<'a> {
    shared: &'a Shared,
    lanes: &'a Lanes,
    lane: MutexGuard<'a, Apart<Lane>>,
    _place: Place<'a>,
}

impl Shared {
    /// Whether the tree is divided. It stays so or not while the caller holds the lock of a lane or
    /// of the writer.
    pub(super) fn is_divided(&self) -> bool {
        self.lanes.as_ref().is_some_and(Lanes::are_divided)
    }

    /// Begins a commit of one item. `None` if the tree is not divided.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Stopped`].
    pub(super) fn enter_lane(&self) -> Result<Option<Entered<'_>>, Error> {
        let Some(lanes) = self.lanes.as_ref().filter(|lanes| lanes.are_divided()) else {
            return Ok(None);
        };
        let mut lane = lanes.lane(hint());
        if !lanes.are_divided() {
            return Ok(None);
        }
        if lane.is_full() {
            self.exchange(&mut lane)?;
        }
        if let Some((index, _)) = self.readers.enter(hint()) {
            let _place = Place { shared: self, index };
            return Ok(Some(Entered { shared: self, lanes, lane, _place }));
        }
        // There are too many snapshots. The other way needs no place.
        drop(lane);
        drop(self.united_writer()?);
        Ok(None)
    }

    /// Exchanges freed slots of a lane for others.
    fn exchange(&self, lane: &mut Lane) -> Result<(), Error> {
        let mut writer = self.writer()?;
        self.give_and_release(lane, &mut writer)?;
        lane.top_up(&mut writer.space);
        self.tell_shadows(&writer);
        Ok(())
    }

    /// Gives the space the freed slots of a lane, and releases what no reader needs.
    ///
    /// # Errors
    /// [`Error::Damaged`]; then the store is stopped.
    pub(super) fn give_and_release(
        &self,
        lane: &mut Lane,
        writer: &mut Writer,
    ) -> Result<(), Error> {
        if let Err(error) = lane.give(&mut writer.space) {
            self.stop_writer(writer, &error);
            return Err(error);
        }
        // Readers of shadows that were dropped before began at most at this version.
        fence(Ordering::SeqCst);
        let newest = self.readers.newest();
        let oldest = self.oldest();
        writer.space.release(oldest, newest);
        Ok(())
    }

    /// Writes a commit of one part to the log and publishes it. Returns its version.
    fn settle_part(
        &self,
        part: usize,
        root: Entry,
        Record { change, memory }: &mut Record,
    ) -> Result<u64, Error> {
        let mut log = lock_soon(&self.log);
        log.check_whole().inspect_err(|error| self.stop(error))?;
        if self.halted.load(Ordering::Acquire) {
            let reason = "another writer's commit failed".to_owned();
            return Err(self.writer().err().unwrap_or(Error::Stopped { reason }));
        }
        // While the tree is divided, no batch is in the queue.
        let version = log.settled + 1;
        log.writing = true;
        log.log.exchange_memory(memory);
        let written = append(&mut log.log, version, change)
            .and_then(|()| Ok(log.log.commit(None, Durability::Os)?));
        log.log.exchange_memory(memory);
        log.writing = false;
        written.inspect_err(|error| self.stop(error))?;
        log.settled = version;
        log.commits += 1;
        let (told, end) = (self.gathered.log_to.load(Ordering::Relaxed), log.log.end().0);
        if end.saturating_sub(told) > self.options.checkpoint_bytes / TOLD_ONE_IN {
            self.gathered.log_to.store(end, Ordering::Relaxed);
        }
        self.readers.publish_part(version, part, root.0);
        Ok(version)
    }

    /// The locks of all lanes, which come before the others.
    pub(super) fn alone(&self) -> Option<Alone<'_>> {
        self.lanes.as_ref().map(Lanes::alone)
    }

    /// Gives the space all slots of the lanes, and the writer their totals and the last version.
    ///
    /// # Errors
    /// [`Error::Damaged`]; then the store is stopped.
    pub(super) fn collect(
        &self,
        alone: &mut Option<Alone<'_>>,
        writer: &mut Writer,
    ) -> Result<(), Error> {
        if !self.is_divided() {
            return Ok(());
        }
        writer.version = writer.version.max(self.readers.newest());
        let (mut result, mut moved) = (Ok(()), Moved::default());
        for lane in alone.iter_mut().flatten() {
            result = result.and(lane.collect(&mut writer.space, &mut moved));
        }
        result = result.and(writer.space.end_unsure());
        match writer.totals.moved(&moved) {
            Some(totals) => writer.totals = totals,
            None => result = result.and(Err(Totals::wrong())),
        }
        self.tell_shadows(writer);
        if let Err(error) = &result {
            self.stop_writer(writer, error);
        }
        result
    }

    /// Unites a divided tree. Its root is not published.
    ///
    /// # Errors
    /// As [`Shared::collect`].
    pub(super) fn unite(
        &self,
        alone: &mut Option<Alone<'_>>,
        writer: &mut Writer,
    ) -> Result<(), Error> {
        self.collect(alone, writer)?;
        let divided = self.lanes.as_ref().filter(|lanes| lanes.are_divided());
        let Some((lanes, alone)) = divided.zip(alone.as_ref()) else { return Ok(()) };
        let roots = self.readers.parts();
        let parts: Vec<(u8, Entry)> = (0..)
            .zip(roots.iter().map(Entry::decode))
            .filter(|(_, root)| *root != Entry::EMPTY)
            .collect();
        writer.root = root_above(writer, &parts).inspect_err(|error| {
            self.stop_writer(writer, error);
        })?;
        writer.next_root = None;
        lanes.set_divided(false, alone);
        Ok(())
    }

    /// Publishes the root of a united tree, if the batch for which it was united has failed.
    ///
    /// # Errors
    /// [`Error::Log`], [`Error::Stopped`].
    pub(super) fn show_united(&self, log: &mut LogSide, writer: &mut Writer) -> Result<(), Error> {
        if !self.is_divided() && self.readers.root() == DIVIDED {
            self.flush(log, writer, Durability::Os)?;
        }
        Ok(())
    }

    /// The writer of the whole tree.
    ///
    /// # Errors
    /// As [`Shared::unite`]; [`Error::Stopped`].
    pub(super) fn united_writer(&self) -> Result<MutexGuard<'_, Apart<Writer>>, Error> {
        let writer = self.writer()?;
        if !self.is_divided() {
            return Ok(writer);
        }
        drop(writer);
        let mut alone = self.alone();
        let mut writer = self.writer()?;
        self.unite(&mut alone, &mut writer)?;
        Ok(writer)
    }

    /// After a commit of one item in the whole tree: whether the tree should be divided.
    pub(super) fn wants_division(&self, writer: &mut Writer) -> bool {
        writer.singles = writer.singles.saturating_add(1);
        self.lanes.is_some() && writer.singles >= SINGLES && parts_of(writer).is_some()
    }

    /// Divides the tree.
    ///
    /// # Errors
    /// [`Error::Log`], [`Error::LimitReached`], [`Error::Io`], [`Error::Damaged`],
    /// [`Error::Stopped`].
    pub(super) fn divide(&self) -> Result<(), Error> {
        let alone = self.alone();
        let mut log = lock(&self.log);
        let mut writer = self.writer()?;
        let Some((lanes, alone)) = self.lanes.as_ref().zip(alone.as_ref()) else {
            return Ok(());
        };
        if lanes.are_divided() {
            return Ok(());
        }
        let Some(parts) = parts_of(&writer) else { return Ok(()) };
        // Readers of this version may have the root. If a checkpoint knew it, the next checkpoint
        // of the same version would give it back before they are gone. The next commit of one item
        // has a root of its own, and asks again.
        if !writer.space.is_fresh(writer.root.address(), SlotUse::Node) {
            return Ok(());
        }
        self.flush(&mut log, &mut writer, Durability::Os)?;
        writer.singles = 0;
        // Taken now, so that uniting needs no room. A checkpoint must not fail for it.
        let class = writer.space.classes.of(node::FULL_BYTES).unwrap_or(u8::MAX);
        let next_root = writer.space.take_ahead(SlotUse::Node, class)?;
        let (root, version) = (writer.root, writer.version);
        if let Err(error) = writer.space.free(root.address(), SlotUse::Node) {
            writer.space.take_back(next_root);
            return Err(error);
        }
        // Readers of this version may have the root.
        writer.space.keep_batch(version + 1);
        writer.next_root = Some(next_root);
        // Divided again at once when a checkpoint has united it.
        writer.singles = SINGLES;
        self.tell_shadows(&writer);
        self.readers.divide(&parts);
        lanes.set_divided(true, alone);
        Ok(())
    }
}

/// Makes the root of a divided tree, in the slot that was taken for it.
///
/// # Errors
/// As [`Space::free`](super::space::Space::free); [`Error::Stopped`] if there is no slot.
fn root_above(writer: &mut Writer, parts: &[(u8, Entry)]) -> Result<Entry, Error> {
    let Writer { space, scratch, version, next_root, .. } = writer;
    match *next_root {
        Some(address) if !parts.is_empty() => {
            node::encode(scratch, *version, parts, &[]);
            space.fill(address, 0, scratch);
            // It counts as at hand until here, and no list of freed slots names it.
            space.take_over(&[address], &[])?;
            Ok(Entry::node(address))
        }
        None if !parts.is_empty() => {
            let reason = "a divided tree has no slot for its root".to_owned();
            Err(Error::Stopped { reason })
        }
        unused => {
            unused.into_iter().for_each(|address| space.take_back(address));
            Ok(Entry::EMPTY)
        }
    }
}

/// The roots of the parts, if the tree has enough of them.
fn parts_of(writer: &Writer) -> Option<Box<Parts>> {
    if writer.root.kind() != Kind::Node {
        return None;
    }
    let node = Node::read(writer.space.view(), writer.root.address()).ok()?;
    if !node.prefix.is_empty() || node.len() < LEAST_PARTS {
        return None;
    }
    let mut parts = Box::new([[0; 8]; PARTS]);
    for (digit, root) in (0..).zip(parts.iter_mut()) {
        *root = node.child(digit).0.to_le_bytes();
    }
    Some(parts)
}

impl Entered<'_> {
    /// Commits the change of one item that `decide` returns.
    ///
    /// # Errors
    /// As [`Store::put`](super::Store::put).
    pub(super) fn change<V: AsRef<[u8]>>(
        mut self,
        name: &Name<'_>,
        hash: &Hash,
        decide: impl FnOnce(Find<'_>) -> Result<Option<V>, Error>,
    ) -> Result<(), Error> {
        let Entered { shared, lanes, .. } = self;
        let lane: &mut Lane = &mut self.lane;
        // A thread that panicked may have left something.
        lane.undo();
        let _part = lanes.part(hash.part());
        let root = Entry(shared.readers.part(hash.part()));
        let (mut scratch, mut record) =
            (std::mem::take(&mut lane.scratch), std::mem::take(&mut lane.record));
        let committed = {
            // SAFETY: `self` has a place among the readers, and `_part` the lock of the part.
            #[allow(unsafe_code)]
            let mut space = unsafe { LaneSlots::new(lane, shared, lanes) };
            commit(&mut space, (shared, root, &mut scratch, &mut record), name, hash, decide)
        };
        record.shrink();
        (lane.scratch, lane.record) = (scratch, record);
        match committed {
            Ok((version, met, lengths)) => {
                lane.keep(version, &met, lengths);
                Ok(())
            }
            Err(error) => {
                lane.undo();
                Err(error)
            }
        }
    }
}

/// Changes a part, and settles the change. Returns the version, what the change met, and the
/// lengths of the new item.
fn commit<V: AsRef<[u8]>>(
    space: &mut LaneSlots<'_>,
    (shared, root, scratch, record): (&Shared, Entry, &mut Vec<u8>, &mut Record),
    name: &Name<'_>,
    hash: &Hash,
    decide: impl FnOnce(Find<'_>) -> Result<Option<V>, Error>,
) -> Result<(u64, Met, Option<Lengths>), Error> {
    let value = decide(&|| {
        let found = tree::find(space.view(), (root, 1), name, hash);
        found.map(|item| item.map(|item| item.value))
    })?;
    let value = value.as_ref().map(V::as_ref);
    check_lengths(name, value)?;
    // A published version. No later batch has it, so none takes these nodes for its own.
    let version = shared.readers.newest();
    let mut edit = Edit { space, version, bucket_items: shared.options.bucket_items, scratch };
    let (root, met) = match value {
        Some(value) => edit.put((root, 1), name, hash, value)?,
        None => edit.remove((root, 1), name, hash)?,
    };
    record.change.clear();
    encode(&mut record.change, name, value);
    let version = shared.settle_part(hash.part(), root, record)?;
    Ok((version, met, value.map(|value| (name.bytes().len(), value.len()))))
}
