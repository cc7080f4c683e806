//! The keys and values in a lazy-trie (`quorate_store::lazy_trie`), and beside them the note and the trail of who executes.
//!
//! What a block changes is gathered in memory and becomes one batch of the store when it is [committed](Keeper::commit). Entries stand at
//! their places in the Merkle map, under its digests, so that the store's root is the map's; the note stands
//! [aside](TrieHash::aside), and the trail in the store's log alone.
//!
//! Commands cannot fail, and neither can [`StateMachine::apply`](quorate_core::state_machine::StateMachine::apply): what the store says against
//! reading is kept, and told at the commit, before anything that came of it leaves.

mod changes;
mod entry;
mod merged;
mod shelf;

pub use shelf::{FileFolders, Folders, Shelf};

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use quorate_core::merkle::{EMPTY_ROOT, Hash};
use quorate_core::state_machine::{
    Beside, Committed, KeepError, Keeper, MAX_ENTRY_BYTES, ProveError, Prover, RestoreError,
    Snapshot,
};
use quorate_store::lazy_trie::{self, Batch, Hash as TrieHash, Store};

use super::proof::Content;
use super::snapshot;
use super::storage::{Found, Memory, NoText, Storage, sealed};
use super::value::{Entry, Value, place};
use changes::{Changed, Changes, Put};
use merged::{Frozen, Merged};

/// Where the note is, aside.
const NOTE: TrieHash = TrieHash::aside(1 << 64);
/// A snapshot is taken over in batches of about this many bytes.
const RESTORED_TOGETHER_BYTES: usize = 4 << 20;
const _: () = assert!(MAX_ENTRY_BYTES <= lazy_trie::VALUE_LIMIT_BYTES);
/// With more keys than this, a new store is begun to remove all.
const DELETED_ONE_BY_ONE: usize = 10_000;

/// Everything on disk: a lazy-trie.
pub struct Disk {
    shelf: Arc<Shelf>,
    /// Nothing before the first commit: the state is empty then.
    open: Option<Open>,
    /// What is not committed.
    changes: Changes,
    /// What is committed does not count any more.
    cleared: bool,
    /// How many entries there are, without those put [blind](Changed::Put::blind).
    len: usize,
    /// The changes for the store. Kept for its memory.
    batch: Batch,
    /// The root of the last commit.
    root: Hash,
    /// Why nothing of this can be believed.
    failed: OnceLock<KeepError>,
}

/// An open store.
struct Open {
    number: u64,
    store: Arc<Store>,
    /// The last commit.
    view: lazy_trie::Snapshot<'static>,
    /// How many items it has aside.
    notes: u64,
    /// Whether it has the note of who executes, or had it when it was opened: only then is it one to go on from.
    noted: bool,
    /// It took the place of another whose trail is not carried over, and none was begun.
    bare: bool,
    /// Whether the other folders are gone.
    alone: bool,
}

impl Disk {
    pub(super) fn new(shelf: &Arc<Shelf>) -> Self {
        Self {
            shelf: Arc::clone(shelf),
            open: None,
            changes: Changes::default(),
            cleared: false,
            len: 0,
            batch: Batch::new(),
            root: EMPTY_ROOT,
            failed: OnceLock::new(),
        }
    }

    fn view(&self) -> Option<&lazy_trie::Snapshot<'static>> {
        self.open.as_ref().filter(|_| !self.cleared).map(|open| &open.view)
    }

    fn fail(&self, error: &dyn std::fmt::Display) {
        let number = self.open.as_ref().map_or(0, |open| open.number);
        // The first failure counts.
        let _ = self.failed.set(self.shelf.place(number, error));
    }

    /// What is committed at a place.
    fn committed(&self, place: &Hash) -> Option<&[u8]> {
        self.view()?.get_ref(&TrieHash(*place)).unwrap_or_else(|error| {
            self.fail(&error);
            None
        })
    }

    fn read(&self, place: &Hash) -> Option<Entry> {
        self.understood(place, entry::decode(self.committed(place)?))
    }

    /// What was made of a committed item.
    fn understood<T>(&self, place: &Hash, read: Option<T>) -> Option<T> {
        if read.is_none() {
            self.fail(&format!("the item {:?} is no entry", TrieHash(*place)));
        }
        read
    }

    /// Says what failed since the last commit.
    fn check(&self) -> Result<(), KeepError> {
        self.failed.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// The store to commit to; what must go there first is in the batch.
    fn begin_commit(&mut self) -> Result<Open, KeepError> {
        self.batch.clear();
        let old = self.open.take();
        let keeps =
            !self.cleared || old.as_ref().is_some_and(|old| old.count() <= DELETED_ONE_BY_ONE);
        match old {
            Some(open) if keeps => {
                if self.cleared {
                    for item in open.view.iter_from(&TrieHash::FIRST_UNDER_ROOT) {
                        let deleted = item.and_then(|(hash, _)| self.batch.delete(&hash));
                        deleted.map_err(|error| self.shelf.place(open.number, &error))?;
                    }
                }
                Ok(open)
            }
            old => {
                let (number, store) = self.shelf.begin()?;
                Ok(Open { bare: old.is_some(), ..self.opened(number, store)? })
            }
        }
    }

    fn opened(&self, number: u64, store: Store) -> Result<Open, KeepError> {
        let failed = |error: lazy_trie::Error| self.shelf.place(number, &error);
        let store = Arc::new(store);
        let view = store.shared_snapshot().map_err(failed)?;
        let mut notes = 0;
        for item in view.iter() {
            if !item.map_err(failed)?.0.is_aside() {
                break;
            }
            notes += 1;
        }
        Ok(Open { number, store, view, notes, noted: false, bare: false, alone: false })
    }

    /// Puts what was changed into the batch.
    fn gather(&mut self) -> Result<(), lazy_trie::Error> {
        let mut encoded = Vec::new();
        for (place, changed) in self.changes.iter() {
            let written = match changed {
                Changed::Gone => None,
                Changed::Put { put: Put::Text(range), .. } => Some(self.changes.written(range)),
                Changed::Put { put: Put::Entry(entry), .. } => {
                    encoded.clear();
                    entry::encode(&mut encoded, entry);
                    Some(encoded.as_slice())
                }
            };
            match written {
                None => self.batch.delete(&TrieHash(*place))?,
                Some(written) => self.batch.put(&TrieHash(*place), written)?,
            }
        }
        Ok(())
    }

    fn write(&mut self, beside: &Beside<'_>) -> Result<Committed, KeepError> {
        self.check()?;
        let mut open = self.begin_commit()?;
        let number = open.number;
        self.gather().map_err(|error| self.shelf.place(number, &error))?;
        open.bare &= !beside.begins;
        let beside = if open.bare { &Beside::default() } else { beside };
        let placed = |error: lazy_trie::Error| self.shelf.place(number, &error);
        if let Some(note) = beside.note {
            open.notes += u64::from(open.view.get_ref(&NOTE).map_err(placed)?.is_none());
            self.batch.put(&NOTE, note).map_err(placed)?;
        }
        for entry in beside.entries {
            self.batch.entry(entry).map_err(placed)?;
        }
        if beside.begins {
            self.batch.begin_trail();
        }
        if beside.turns {
            self.batch.turn_trail();
        }
        open.store.write(&self.batch).map_err(placed)?;
        open.view = open.store.shared_snapshot().map_err(placed)?;
        self.root = open.view.root().map_err(placed)?;
        self.len = open.count();
        self.changes.clear();
        self.cleared = false;
        if !open.alone && beside.note.is_some() {
            // From now on this is the state that counts, also after a loss of power.
            open.store.sync().map_err(placed)?;
            (open.noted, open.alone) = (true, true);
            self.shelf.keep_only(open.number);
        }
        let trail_bytes = open.store.trail_bytes();
        let committed = if open.bare { Committed::Anew } else { Committed::Whole { trail_bytes } };
        self.open = Some(open);
        Ok(committed)
    }

    /// Fills a new store with a snapshot.
    fn fill(
        &self,
        open: &Open,
        chunks: &mut dyn Iterator<Item = Bytes>,
    ) -> Result<u64, RestoreError> {
        let mut batch = Batch::new();
        let (mut bytes, mut encoded) = (0, Vec::new());
        let count = snapshot::restore(chunks, &mut |hash, entry| {
            encoded.clear();
            entry::encode(&mut encoded, &entry);
            bytes += encoded.len() + 64;
            batch.put(&TrieHash(hash), &encoded).map_err(|error| error.to_string())?;
            if bytes >= RESTORED_TOGETHER_BYTES {
                open.store.write(&batch).map_err(|error| error.to_string())?;
                batch.clear();
                bytes = 0;
            }
            Ok(())
        })?;
        open.store.write(&batch).map_err(|error| unrestored(&error))?;
        Ok(count)
    }
}

impl Open {
    /// How many entries there are.
    fn count(&self) -> usize {
        usize::try_from(self.store.items().saturating_sub(self.notes)).unwrap_or(usize::MAX)
    }
}

fn unrestored(error: &dyn std::fmt::Display) -> RestoreError {
    RestoreError { chunk: 0, reason: format!("it cannot be stored: {error}") }
}

impl Drop for Disk {
    /// A store that never counted goes, so that it is not taken for one that does.
    fn drop(&mut self) {
        if let Some(open) = self.open.take().filter(|open| !open.noted) {
            let number = open.number;
            drop(open);
            self.shelf.remove(number);
        }
    }
}

impl sealed::Sealed for Disk {}

impl Storage for Disk {
    fn count(&self) -> usize {
        let blind = self.changes.iter().filter(|(_, changed)| changed.is_blind());
        self.len + blind.filter(|(place, _)| self.committed(place).is_none()).count()
    }

    fn get(&self, place: &Hash) -> Option<Found<'_>> {
        match self.changes.get(place) {
            Some(changed) => self.changes.found(changed),
            None => self.read(place).map(Found::Read),
        }
    }

    fn look_ahead<'h>(&self, places: impl Iterator<Item = &'h Hash>) {
        if let Some(view) = self.view() {
            view.look_ahead(places.map(|place| TrieHash(*place)));
        }
    }

    fn text(&self, place: &Hash) -> Result<Option<&[u8]>, NoText> {
        match self.changes.get(place) {
            Some(changed) => self.changes.text(changed),
            None => {
                let Some(committed) = self.committed(place) else { return Ok(None) };
                self.understood(place, entry::text(committed)).transpose()
            }
        }
    }

    fn contains(&self, place: &Hash) -> bool {
        match self.changes.get(place) {
            Some(changed) => !matches!(changed, Changed::Gone),
            None => self.committed(place).is_some(),
        }
    }

    fn get_mut(&mut self, place: &Hash) -> Option<&mut Value> {
        if self.changes.get(place).is_none() {
            let entry = self.read(place)?;
            self.changes.put(place, entry);
        }
        self.changes.entry_mut(place).map(|entry| &mut entry.value)
    }

    fn get_or_insert_with(&mut self, place: &Hash, make: impl FnOnce() -> Entry) -> &mut Value {
        let new = match self.changes.get(place) {
            Some(Changed::Gone) => true,
            Some(Changed::Put { .. }) => false,
            None => match self.read(place) {
                Some(entry) => {
                    self.changes.put(place, entry);
                    false
                }
                None => true,
            },
        };
        if new {
            self.len += 1;
            self.changes.put(place, make());
        }
        match self.changes.entry_mut(place) {
            Some(entry) => &mut entry.value,
            None => unreachable!("it was there, or was put there"),
        }
    }

    fn assign(&mut self, place: &Hash, key: &[u8], text: &[u8]) {
        self.len += usize::from(self.changes.assign(place, key, text));
    }

    fn remove(&mut self, place: &Hash) -> bool {
        let (there, counted) = match self.changes.get(place) {
            Some(Changed::Gone) => (false, false),
            Some(Changed::Put { blind: false, .. }) => (true, true),
            Some(Changed::Put { blind: true, .. }) => (true, self.committed(place).is_some()),
            None => {
                let there = self.committed(place).is_some();
                (there, there)
            }
        };
        self.len -= usize::from(counted);
        if there {
            self.changes.remove(place);
        }
        there
    }

    fn clear(&mut self) {
        self.cleared = true;
        self.changes.clear();
        self.len = 0;
    }

    fn iter_from(&self, from: &Hash) -> impl Iterator<Item = (Hash, Found<'_>)> {
        Merged::new(self.view(), &self.changes, from, |error| self.fail(&error))
    }

    /// That of the last commit; what is not committed is committed first.
    fn root(&mut self) -> Hash {
        if self.cleared || !self.changes.is_empty() {
            let _ = self.commit(&Beside::default());
        }
        self.root
    }

    fn freeze(&self) -> Box<dyn Snapshot> {
        let store = self.open.as_ref().map(|open| Arc::clone(&open.store));
        let view = self.view().and(store.as_ref()).map(Store::shared_snapshot).transpose();
        let failed = OnceLock::new();
        let view = view.unwrap_or_else(|error| {
            let _ = failed.set(self.shelf.place(0, &error));
            None
        });
        Box::new(Frozen { len: self.count(), store, view, changes: self.changes.clone(), failed })
    }

    fn prover(&self) -> Option<Box<dyn Prover>> {
        if self.cleared || !self.changes.is_empty() {
            return None;
        }
        let Some(open) = &self.open else { return Memory::default().prover() };
        // With too many readers there is no proof for now; what is worse is told at the next commit.
        let view = open.store.shared_provable_snapshot().ok()?;
        Some(Box::new(Proving { view, shelf: Arc::clone(&self.shelf), number: open.number }))
    }

    fn restore(&mut self, chunks: &mut dyn Iterator<Item = Bytes>) -> Result<(), RestoreError> {
        let (number, store) = self.shelf.begin().map_err(|error| unrestored(&error))?;
        let mut open = self.opened(number, store).map_err(|error| unrestored(&error))?;
        let filled = self.fill(&open, chunks).and_then(|count| {
            open.view = open.store.shared_snapshot().map_err(|error| unrestored(&error))?;
            self.root = open.view.root().map_err(|error| unrestored(&error))?;
            self.len = usize::try_from(count).unwrap_or(usize::MAX);
            Ok(())
        });
        self.changes.clear();
        self.cleared = false;
        self.open = Some(open);
        filled
    }

    fn keeper(&mut self) -> Option<&mut dyn Keeper> {
        Some(self)
    }
}

impl Keeper for Disk {
    fn commit(&mut self, beside: &Beside<'_>) -> Result<Committed, KeepError> {
        self.write(beside).inspect_err(|error| {
            let _ = self.failed.set(error.clone());
        })
    }

    fn note(&self) -> Result<Option<Bytes>, KeepError> {
        let Some(open) = &self.open else { return Ok(None) };
        let note =
            open.view.get_ref(&NOTE).map_err(|error| self.shelf.place(open.number, &error))?;
        Ok(note.map(Bytes::copy_from_slice))
    }

    fn trail(&self, each: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), KeepError> {
        let Some(open) = &self.open else { return Ok(()) };
        open.store.trail(each).map_err(|error| self.shelf.place(open.number, &error))
    }

    fn turn_back(&mut self) -> Result<bool, KeepError> {
        let Some(number) = self.shelf.take_left() else { return Ok(false) };
        let open = self.opened(number, self.shelf.store(number)?)?;
        self.len = open.count();
        self.root = open.view.root().map_err(|error| self.shelf.place(number, &error))?;
        // If it turns out to be of no use: to remove it is for who keeps another.
        self.open = Some(Open { noted: true, ..open });
        Ok(true)
    }
}

/// A commit that proves what it holds.
struct Proving {
    view: lazy_trie::Snapshot<'static>,
    shelf: Arc<Shelf>,
    number: u64,
}

impl Prover for Proving {
    fn prove(&mut self, key: &[u8]) -> Result<Bytes, ProveError> {
        let failed = |error: lazy_trie::Error| self.shelf.place(self.number, &error);
        let (proof, item) = self.view.get_proved(&TrieHash(place(key))).map_err(failed)?;
        let root = self.view.root().map_err(failed)?;
        let value = item.and_then(entry::written_value);
        Ok(Content { root, value, proof: &proof.encode() }.encode())
    }
}
