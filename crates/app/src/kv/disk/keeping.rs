//! What a store keeps beyond the process: checkpoints, and what they note beside the entries.

use std::sync::Arc;

use quorate_core::ledger::state_machine::{Checkpoint, KeepError, Keeper, Left, MAX_NOTE_BYTES};
use quorate_store::lazy_trie::{self, Hash as TrieHash};

use super::super::entry;
use super::super::quotas::Stored;
use super::checkpoint::Kept;
use super::proving::head_of;
use super::{Disk, Open};

/// Where the note is, aside.
const NOTE: TrieHash = TrieHash::aside(1 << 64);
/// Where a checkpoint says what its entries take of the state's limit, aside: u64, little-endian.
const USED: TrieHash = TrieHash::aside(2 << 64);
/// Where a checkpoint says the head of the change feed, aside.
pub(super) const FEED: TrieHash = TrieHash::aside(3 << 64);
/// Where a checkpoint [says](Stored::note) what owners have stored, aside. Nothing is there if no
/// entry has an owner: so earlier releases find what they know, until there is one.
const STORED: TrieHash = TrieHash::aside(4 << 64);
const _: () = assert!(MAX_NOTE_BYTES <= lazy_trie::VALUE_LIMIT_BYTES);

impl Disk {
    /// Begins a checkpoint of what is committed.
    fn begin_kept(&mut self, note: &[u8]) -> Result<Kept, KeepError> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.begin_store()?,
        };
        let placed = |error: lazy_trie::Error| self.shelf.place(open.number, &error);
        let used_bytes = self.used_bytes.to_le_bytes();
        let (head, stored) = (self.head.to_array(), self.stored.note());
        self.batch.clear();
        let mut notes = open.notes;
        let said: [(_, Option<&[u8]>); 4] = [
            (&NOTE, Some(note)),
            (&USED, Some(&used_bytes)),
            (&FEED, Some(&head)),
            (&STORED, stored.as_deref()),
        ];
        for (place, noted) in said {
            let was_there = open.view.get_ref(place).map_err(placed)?.is_some();
            notes = notes + u64::from(noted.is_some()) - u64::from(was_there);
            match noted {
                Some(noted) => self.batch.put(place, noted).map_err(placed)?,
                None if was_there => self.batch.delete(place).map_err(placed)?,
                None => {}
            }
        }
        open.write(&self.batch).map_err(|error| self.shelf.place(open.number, &error))?;
        open.notes = notes;
        let placed = |error: lazy_trie::Error| self.shelf.place(open.number, &error);
        let begun = open.store.begin_checkpoint().map_err(placed)?;
        open.kept = true;
        let kept = self.kept(&open, Some(begun));
        self.open = Some(open);
        kept
    }

    /// The checkpoint of the last commit.
    fn kept(&self, open: &Open, begun: Option<lazy_trie::Checkpoint>) -> Result<Kept, KeepError> {
        let version = open.view.version().map_err(|error| self.shelf.place(open.number, &error))?;
        Ok(Kept {
            shelf: Arc::clone(&self.shelf),
            number: open.number,
            store: Arc::clone(&open.store),
            version,
            begun,
        })
    }
}

impl Open {
    /// What its entries take of the state's limit, and what owners have stored: what a checkpoint
    /// says of it, or counted one by one.
    fn counted(&self) -> Result<(u64, Stored), lazy_trie::Error> {
        let used = self.view.get_ref(&USED)?.and_then(|noted| noted.try_into().ok());
        let stored = self.view.get_ref(&STORED)?.map_or(Some(Stored::default()), Stored::noted);
        if let (Some(used), Some(stored)) = (used, stored) {
            return Ok((u64::from_le_bytes(used), stored));
        }
        let (mut used, mut stored) = (0, Stored::default());
        for item in self.view.iter_from(&TrieHash::FIRST_UNDER_ROOT) {
            let held = entry::held(item?.1.value);
            used += held.used_bytes;
            stored.count(&held);
        }
        Ok((used, stored))
    }
}

impl Keeper for Disk {
    fn check(&mut self) -> Result<(), KeepError> {
        self.commit()
    }

    fn is_due(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.store.checkpoint_is_due())
    }

    fn begin_checkpoint(&mut self, note: &[u8]) -> Result<Box<dyn Checkpoint>, KeepError> {
        self.commit()?;
        let begun = self.begin_kept(note).inspect_err(|error| {
            let _ = self.failed.set(error.clone());
        })?;
        Ok(Box::new(begun))
    }

    fn turn_back(&mut self) -> Result<Option<Left>, KeepError> {
        while let Some(number) = self.shelf.take_left() {
            let placed = |error: lazy_trie::Error| self.shelf.place(number, &error);
            let open = self.opened(number, self.shelf.store(number)?)?;
            let Some(note) = open.view.get(&NOTE).map_err(placed)? else {
                // It never came to count.
                drop(open);
                self.shelf.remove(number);
                continue;
            };
            let kept = self.kept(&open, None)?;
            self.len = open.count();
            (self.used_bytes, self.stored) = open.counted().map_err(placed)?;
            self.root = open.view.root().map_err(placed)?;
            self.head = head_of(&open.view, |error| self.shelf.place(number, &error))?;
            // If it turns out to be of no use: to remove it is for who keeps another.
            self.open = Some(Open { kept: true, ..open });
            return Ok(Some(Left { checkpoint: Box::new(kept), note: note.into() }));
        }
        Ok(None)
    }
}
