//! The keys and values in a lazy-trie (`quorate_store::lazy_trie`), and beside them the note of who
//! executes.
//!
//! What a block changes is gathered in memory and becomes one batch of the store behind the block.
//! Entries stand at their places in the Merkle map, under its digests, so that the store's root is
//! the map's; the note stands [aside](TrieHash::aside). The store has no log of its commits: the
//! replica's has the blocks that they came of, from the last checkpoint on.
//!
//! Commands cannot fail, and neither can
//! [`StateMachine::apply`](quorate_core::ledger::state_machine::StateMachine::apply): what the
//! store says against reading is remembered, and told behind the block, before anything that came
//! of it leaves.

mod changes;
mod checkpoint;
mod frozen;
mod keeping;
mod merged;
mod proving;
mod shelf;

pub use shelf::{FileFolders, Folders, Shelf};

use std::sync::{Arc, OnceLock};

use quorate_core::base::crypto::PublicKey;
use quorate_core::ledger::state_machine::{KeepError, Keeper, Prover, Snapshot};
use quorate_merkle::{EMPTY_ROOT, Hash};
use quorate_store::lazy_trie::{self, Batch, Hash as TrieHash, Store};

use super::command::ValueKind;
use super::entry;
use super::feed::Head;
use super::quotas::{Moves, Stored};
use super::storage::{FoundHash, Listed, Memory, OtherKind, Storage, sealed};
use super::value::{Entry, Held};
use changes::{Changed, Changes, Put};
use frozen::Frozen;
use merged::Merged;
use proving::Proving;

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
    /// What the committed entries take of the state's limit.
    used_bytes: u64,
    /// What owners have stored of that.
    stored: Stored,
    /// The changes for the store. Kept for its memory.
    batch: Batch,
    /// The root of the last commit.
    root: Hash,
    /// The head of the change feed.
    head: Head,
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
    /// A checkpoint of it was begun, or had been when it was opened: only then may it be one to go
    /// on from.
    kept: bool,
}

impl Disk {
    pub(super) fn new(shelf: &Arc<Shelf>) -> Self {
        Self {
            shelf: Arc::clone(shelf),
            open: None,
            changes: Changes::default(),
            cleared: false,
            len: 0,
            used_bytes: 0,
            stored: Stored::default(),
            batch: Batch::new(),
            root: EMPTY_ROOT,
            head: Head::default(),
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
    fn check_read(&self) -> Result<(), KeepError> {
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
                // What it holds of the disk's is not removed before the other has a checkpoint.
                drop(old);
                self.begin_store()
            }
        }
    }

    fn begin_store(&self) -> Result<Open, KeepError> {
        let (number, store) = self.shelf.begin()?;
        self.opened(number, store)
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
        Ok(Open { number, store, view, notes, kept: false })
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

    /// Brings what was changed into the store, if anything was.
    fn commit(&mut self) -> Result<(), KeepError> {
        self.check_read()?;
        if !self.cleared && self.changes.is_empty() {
            return Ok(());
        }
        let result = self.commit_changes();
        result.inspect_err(|error| {
            let _ = self.failed.set(error.clone());
        })
    }

    fn commit_changes(&mut self) -> Result<(), KeepError> {
        let mut open = self.begin_commit()?;
        let number = open.number;
        let counted = self.counted_with_changes(&open);
        let (used_bytes, mut moves) = counted.map_err(|error| self.shelf.place(number, &error))?;
        self.gather().map_err(|error| self.shelf.place(number, &error))?;
        open.write(&self.batch).map_err(|error| self.shelf.place(number, &error))?;
        self.root = open.view.root().map_err(|error| self.shelf.place(number, &error))?;
        (self.len, self.used_bytes) = (open.count(), used_bytes);
        if self.cleared {
            self.stored = Stored::default();
        }
        self.stored.apply(&mut moves);
        self.changes.clear();
        self.cleared = false;
        self.open = Some(open);
        Ok(())
    }

    /// What the entries take of the state's limit with what was changed, and what that changes of
    /// what owners have stored; `open` is the last commit.
    fn counted_with_changes(&self, open: &Open) -> Result<(u64, Moves), lazy_trie::Error> {
        let mut used = if self.cleared { 0 } else { self.used_bytes };
        let mut moves = Moves::default();
        for (place, changed) in self.changes.iter() {
            let old = match self.cleared {
                true => None,
                false => open.view.get_ref(&TrieHash(*place))?,
            };
            let before = old.map(entry::held).unwrap_or_default();
            let after = self.changes.held(changed).unwrap_or_default();
            used = used.saturating_sub(before.used_bytes) + after.used_bytes;
            moves.replaced(&before, &after);
        }
        Ok((used, moves))
    }

    /// The store that is being filled.
    fn filled(&mut self) -> Result<&mut Open, String> {
        let open = self.open.as_mut().ok_or("nothing was begun")?;
        if self.shelf.is_newest(open.number) {
            return Ok(open);
        }
        // When that has a checkpoint, this one goes.
        Err(format!("{}: another store was begun meanwhile", self.shelf.name(open.number)))
    }
}

impl Open {
    fn write(&mut self, batch: &Batch) -> Result<(), lazy_trie::Error> {
        self.store.write(batch)?;
        self.view = self.store.shared_snapshot()?;
        Ok(())
    }

    /// How many entries there are.
    fn count(&self) -> usize {
        usize::try_from(self.store.items().saturating_sub(self.notes)).unwrap_or(usize::MAX)
    }
}

impl Disk {
    /// Lets go of the store. One that cannot come to count goes.
    fn close(&mut self) {
        if let Some(open) = self.open.take().filter(|open| !open.kept) {
            let number = open.number;
            drop(open);
            self.shelf.remove(number);
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.close();
    }
}

impl sealed::Sealed for Disk {}

impl Storage for Disk {
    fn count(&self) -> usize {
        let blind = self.changes.iter().filter(|(_, changed)| changed.is_blind());
        self.len + blind.filter(|(place, _)| self.committed(place).is_none()).count()
    }

    fn settle(&mut self) {
        // What fails is told behind the block.
        let _ = self.commit();
    }

    fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    fn stored(&self, owner: &PublicKey) -> u64 {
        if self.cleared { 0 } else { self.stored.of(owner) }
    }

    fn held(&self, place: &Hash) -> Option<Held> {
        match self.changes.get(place) {
            Some(changed) => self.changes.held(changed),
            None => self.committed(place).map(entry::held),
        }
    }

    fn owned_by(&self, place: &Hash, key: &PublicKey) -> u64 {
        match self.changes.get(place) {
            Some(changed) => self.changes.owned_by(changed, key),
            None => self.committed(place).map_or(0, |bytes| entry::owned_by(bytes, key)),
        }
    }

    fn kind(&self, place: &Hash) -> Option<ValueKind> {
        match self.changes.get(place) {
            Some(changed) => Changes::kind(changed),
            None => {
                let listed = entry::listed(self.committed(place)?);
                self.understood(place, listed).map(|(_, kind)| kind)
            }
        }
    }

    fn look_ahead<'h>(&self, places: impl Iterator<Item = &'h Hash>) {
        if let Some(view) = self.view() {
            view.look_ahead(places.map(|place| TrieHash(*place)));
        }
    }

    fn text(&self, place: &Hash) -> Result<Option<&[u8]>, OtherKind> {
        match self.changes.get(place) {
            Some(changed) => self.changes.text(changed),
            None => {
                let Some(committed) = self.committed(place) else { return Ok(None) };
                self.understood(place, entry::text(committed)).transpose()
            }
        }
    }

    fn hash(&self, place: &Hash) -> Result<Option<FoundHash<'_>>, OtherKind> {
        match self.changes.get(place) {
            Some(changed) => Changes::hash(changed),
            None => {
                let Some(committed) = self.committed(place) else { return Ok(None) };
                let hash = self.understood(place, entry::hash(committed)).transpose()?;
                Ok(hash.map(FoundHash::Written))
            }
        }
    }

    fn contains(&self, place: &Hash) -> bool {
        match self.changes.get(place) {
            Some(changed) => !matches!(changed, Changed::Gone),
            None => self.committed(place).is_some(),
        }
    }

    fn change<T>(&mut self, place: &Hash, change: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        if self.changes.get(place).is_none() {
            let entry = self.read(place)?;
            self.changes.put(place, entry);
        }
        self.changes.entry_mut(place).map(change)
    }

    fn insert(&mut self, place: &Hash, entry: Entry) {
        self.len += 1;
        self.changes.put(place, entry);
    }

    fn assign(&mut self, place: &Hash, key_and_text: (&[u8], &[u8]), owner: Option<&PublicKey>) {
        self.len += usize::from(self.changes.assign(place, key_and_text, owner));
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

    fn iter_from(&self, from: &Hash) -> impl Iterator<Item = (Hash, Listed<'_>)> {
        Merged::new(self.view(), &self.changes, from, |error| self.fail(&error))
    }

    /// That of the last commit; what is not committed is committed first.
    fn root(&mut self) -> Hash {
        if self.cleared || !self.changes.is_empty() {
            let _ = self.commit();
        }
        self.root
    }

    fn head(&self) -> Head {
        self.head
    }

    fn set_head(&mut self, head: Head) {
        self.head = head;
    }

    fn freeze(&self) -> Box<dyn Snapshot> {
        let open = self.open.as_ref().filter(|_| !self.cleared);
        let number = open.map_or(0, |open| open.number);
        let view = match open {
            _ if self.cleared || !self.changes.is_empty() => {
                Err(self.shelf.place(number, &"what changed is not committed yet"))
            }
            None => Ok(None),
            Some(open) => {
                let view = open.store.shared_provable_snapshot();
                view.map(Some).map_err(|error| self.shelf.place(number, &error))
            }
        };
        Box::new(Frozen::new(view, self.head))
    }

    fn prover(&self) -> Option<Box<dyn Prover>> {
        if self.cleared || !self.changes.is_empty() {
            return None;
        }
        let Some(open) = &self.open else { return Memory::empty(self.head).prover() };
        // With too many readers there is no proof for now; what is worse is told at the next
        // commit.
        let view = open.store.shared_provable_snapshot().ok()?;
        Some(Box::new(Proving {
            view,
            head: self.head,
            shelf: Arc::clone(&self.shelf),
            number: open.number,
        }))
    }

    fn frozen(&self) -> Option<Self> {
        if self.cleared || !self.changes.is_empty() {
            return None;
        }
        let mut frozen = Self::new(&self.shelf);
        (frozen.len, frozen.root, frozen.used_bytes) = (self.len, self.root, self.used_bytes);
        (frozen.head, frozen.stored) = (self.head, self.stored.clone());
        if let Some(open) = &self.open {
            // The folder is that of the other, which removes it if it has to be.
            frozen.open = Some(Open {
                number: open.number,
                store: Arc::clone(&open.store),
                view: open.store.shared_snapshot().ok()?,
                notes: open.notes,
                kept: true,
            });
        }
        Some(frozen)
    }

    fn failure(&self) -> Option<KeepError> {
        self.failed.get().cloned()
    }

    fn begin_filling(&mut self) -> Result<(), String> {
        self.close();
        let open = self.begin_store().map_err(|KeepError(reason)| reason)?;
        self.changes.clear();
        (self.cleared, self.len, self.root) = (false, 0, EMPTY_ROOT);
        (self.used_bytes, self.stored) = (0, Stored::default());
        self.open = Some(open);
        Ok(())
    }

    fn fill(&mut self, entries: &[(Hash, &[u8])]) -> Result<(), String> {
        self.batch.clear();
        for (place, entry) in entries {
            let put = self.batch.put(&TrieHash(*place), entry);
            put.map_err(|error| error.to_string())?;
        }
        let (batch, shelf) = (std::mem::take(&mut self.batch), Arc::clone(&self.shelf));
        let open = self.filled()?;
        let written = open.write(&batch).and_then(|()| {
            // Without a note it does not count, and it takes no memory.
            if open.store.checkpoint_is_due() { open.store.checkpoint() } else { Ok(()) }
        });
        written.map_err(|error| shelf.place(open.number, &error).0)?;
        for held in entries.iter().map(|(_, entry)| entry::held(entry)) {
            self.used_bytes += held.used_bytes;
            self.stored.count(&held);
        }
        self.batch = batch;
        Ok(())
    }

    fn end_filling(&mut self) -> Result<(), String> {
        let shelf = Arc::clone(&self.shelf);
        let open = self.filled()?;
        let root = open.view.root().map_err(|error| shelf.place(open.number, &error).0)?;
        (self.len, self.root) = (open.count(), root);
        Ok(())
    }

    fn keeper(&mut self) -> Option<&mut dyn Keeper> {
        Some(self)
    }
}
