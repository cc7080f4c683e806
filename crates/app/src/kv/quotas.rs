//! How much of the state a client may fill: quotas of stored bytes.
//!
//! A [grant](quorate_core::ledger::clients::Grant) may have a quota. An entry that a key with a
//! quota writes is *owned* by that key: as a whole, and until somebody else writes it. It counts
//! for the owner what it takes of the [state's limit](super). Whoever writes an entry last decides
//! what it holds and how long it is, so that one pays for it:
//!
//! - A key with a quota that appends to another's string, or sets a field of another's hash, pays
//!   for all of it, and the former owner for none.
//! - A key without a quota that writes makes the entry nobody's.
//! - Removing fields of a hash is no writing: it keeps its owner, for whom it counts less.
//!
//! A command that would make its key own more than its quota is refused with `OOM`, and has no
//! effect. What the key itself removes or overwrites is free at once; what others do to its entries
//! counts from the next block on. So a key never owns more than its quota, and all storages do the
//! same, though one of them looks at what was overwritten only behind the block.
//!
//! Owners stand in the entries, and thereby in the state's root, in snapshots and in proofs. What a
//! key has stored is the sum over its entries; it is carried along, and can always be counted
//! again. A key that loses its quota, or its place in the list, goes on owning what it wrote: that
//! counts again if it gets another quota.

use std::collections::BTreeMap;

use quorate_core::base::crypto::PublicKey;

use super::value::Held;

/// Most owners that a checkpoint notes; see [`Stored::note`].
const MAX_NOTED: usize = 100_000;
/// Bytes of an owner in a note.
const NOTED_BYTES: usize = 32 + 8;
/// The note of more owners than [`MAX_NOTED`].
const NOT_NOTED: &[u8] = b"count";

/// What owners have stored, bytes. Those who have nothing are not there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Stored(BTreeMap<PublicKey, u64>);

/// Changes of the bytes that owners store.
#[derive(Clone, Debug, Default)]
pub(super) struct Moves(BTreeMap<PublicKey, i64>);

/// A client with a quota, whose command is at work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Payer<'a> {
    pub(super) key: &'a PublicKey,
    pub(super) quota: u64,
}

/// What the commands of a block have made their own senders own so far. Never less than they do.
pub(super) type Taken = Moves;

/// The quota would be exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exceeded {
    pub(super) stored: u64,
    pub(super) quota: u64,
}

impl Stored {
    /// What a key has stored.
    pub(super) fn of(&self, owner: &PublicKey) -> u64 {
        self.0.get(owner).copied().unwrap_or_default()
    }

    /// Takes moves over.
    pub(super) fn apply(&mut self, moves: &mut Moves) {
        for (owner, bytes) in std::mem::take(&mut moves.0) {
            match self.of(&owner).saturating_add_signed(bytes) {
                0 => self.0.remove(&owner),
                stored => self.0.insert(owner, stored),
            };
        }
    }

    /// Counts an entry that there was not before.
    pub(super) fn count(&mut self, entry: &Held) {
        if let Some(owner) = entry.owner {
            *self.0.entry(owner).or_default() += entry.used_bytes;
        }
    }

    /// What a checkpoint says of it: each owner 32 and its bytes u64, little-endian; or that they
    /// are too many, and must be counted. `None` if nobody owns anything.
    pub(super) fn note(&self) -> Option<Vec<u8>> {
        match self.0.len() {
            0 => None,
            1..=MAX_NOTED => {
                let mut note = Vec::with_capacity(self.0.len() * NOTED_BYTES);
                for (owner, bytes) in &self.0 {
                    note.extend_from_slice(&owner.0);
                    note.extend_from_slice(&bytes.to_le_bytes());
                }
                Some(note)
            }
            _ => Some(NOT_NOTED.to_vec()),
        }
    }

    /// What such a note says; `None` if it has to be counted.
    pub(super) fn noted(note: &[u8]) -> Option<Self> {
        let (noted, rest) = note.as_chunks::<NOTED_BYTES>();
        let of = |noted: &[u8; NOTED_BYTES]| {
            let (owner, bytes) = noted.split_first_chunk::<32>()?;
            Some((PublicKey(*owner), u64::from_le_bytes(bytes.try_into().ok()?)))
        };
        rest.is_empty().then(|| noted.iter().map(of).collect::<Option<_>>().map(Self))?
    }
}

impl Moves {
    /// An entry was replaced by another.
    pub(super) fn replaced(&mut self, before: &Held, after: &Held) {
        if let Some(owner) = before.owner {
            self.add(&owner, -signed(before.used_bytes));
        }
        if let Some(owner) = after.owner {
            self.add(&owner, signed(after.used_bytes));
        }
    }

    fn add(&mut self, owner: &PublicKey, bytes: i64) {
        let sum = self.0.entry(*owner).or_default();
        *sum = sum.saturating_add(bytes);
    }

    /// Everything was removed.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

impl Payer<'_> {
    /// Whether it may own so many bytes more than it does; it had `stored` before the block.
    pub(super) fn may_take(&self, taken: &Taken, stored: u64, more: i64) -> Result<(), Exceeded> {
        let moved = taken.0.get(self.key).copied().unwrap_or_default();
        let stored = stored.saturating_add_signed(moved);
        if more > 0 && stored.saturating_add_signed(more) > self.quota {
            return Err(Exceeded { stored, quota: self.quota });
        }
        Ok(())
    }

    /// It owns so many bytes more.
    pub(super) fn take(&self, taken: &mut Taken, more: i64) {
        taken.add(self.key, more);
    }

    /// What it owns of an entry, bytes.
    pub(super) fn owned(&self, entry: Option<&Held>) -> u64 {
        entry.filter(|held| held.owner.as_ref() == Some(self.key)).map_or(0, |it| it.used_bytes)
    }
}

/// Sizes of states are far from the bound.
pub(super) fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
