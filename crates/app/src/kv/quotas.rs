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
//!
//! Anybody may ask what keys have stored, by a [question](question()).

use std::collections::BTreeMap;
use std::sync::Arc;

use quorate_core::base::crypto::PublicKey;

use super::reply::{Reply, encode};
use super::value::Held;

/// Most keys of one [`question`].
pub const MAX_KEYS_ASKED: usize = 1024;
/// What the question begins with. No command does, so as a command it is malformed, under any
/// rules: replicas of all releases answer an ordered one alike.
const QUESTION: u8 = 0x80;

/// Most owners that a checkpoint notes; see [`Stored::note`].
const MAX_NOTED: usize = 100_000;
/// Bytes of an owner in a note.
const NOTED_BYTES: usize = 32 + 8;
/// The note of more owners than [`MAX_NOTED`].
const NOT_NOTED: &[u8] = b"count";

/// What owners have stored, bytes. Those who have nothing are not there.
///
/// Owners lie in shelves by the first byte of their keys. A frozen state shares all of it. The next
/// block copies the shelves of owners that it changes, and no others: whoever asks questions must
/// not make the deciding thread copy every owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Stored {
    shelves: Arc<BTreeMap<u8, Arc<BTreeMap<PublicKey, u64>>>>,
    owners: usize,
}

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
        let shelf = self.shelves.get(&owner.0[0]);
        shelf.and_then(|shelf| shelf.get(owner)).copied().unwrap_or_default()
    }

    /// From now on the key has stored so much.
    fn set(&mut self, owner: PublicKey, stored: u64) {
        let shelves = Arc::make_mut(&mut self.shelves);
        let first = owner.0[0];
        let shelf = Arc::make_mut(shelves.entry(first).or_default());
        self.owners -= shelf.len();
        match stored {
            0 => shelf.remove(&owner),
            stored => shelf.insert(owner, stored),
        };
        self.owners += shelf.len();
        if shelf.is_empty() {
            shelves.remove(&first);
        }
    }

    /// The owners and what they have stored, by ascending keys.
    fn iter(&self) -> impl Iterator<Item = (&PublicKey, &u64)> {
        self.shelves.values().flat_map(|shelf| shelf.iter())
    }

    /// Takes moves over.
    pub(super) fn apply(&mut self, moves: &mut Moves) {
        for (owner, bytes) in std::mem::take(&mut moves.0) {
            self.set(owner, self.of(&owner).saturating_add_signed(bytes));
        }
    }

    /// Counts an entry that there was not before.
    pub(super) fn count(&mut self, entry: &Held) {
        if let Some(owner) = entry.owner {
            self.set(owner, self.of(&owner).saturating_add(entry.used_bytes));
        }
    }

    /// What a checkpoint says of it: each owner 32 and its bytes u64, little-endian; or that they
    /// are too many, and must be counted. `None` if nobody owns anything.
    pub(super) fn note(&self) -> Option<Vec<u8>> {
        match self.owners {
            0 => None,
            1..=MAX_NOTED => {
                let mut note = Vec::with_capacity(self.owners * NOTED_BYTES);
                for (owner, bytes) in self.iter() {
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
        if !rest.is_empty() {
            return None;
        }
        let mut stored = Self::default();
        for noted in noted {
            let (owner, bytes) = of(noted)?;
            stored.set(owner, bytes);
        }
        Some(stored)
    }
}

/// The question what these keys have stored, at most [`MAX_KEYS_ASKED`] of them. It is no command:
/// it is not ordered, and one replica answers it from its own state.
#[must_use]
pub fn question(keys: &[PublicKey]) -> Vec<u8> {
    let mut out = Vec::with_capacity(1 + 32 * keys.len());
    out.push(QUESTION);
    keys.iter().for_each(|key| out.extend_from_slice(&key.0));
    out
}

/// What a replica answers to a [`question`] of as many keys: bytes, in the order of the keys.
/// `None` if the answer is another, as that of a release without this question.
#[must_use]
pub fn answer(bytes: &[u8], keys: usize) -> Option<Vec<u64>> {
    let Ok(Reply::Array(items)) = Reply::decode(bytes) else { return None };
    let number = |reply| match reply {
        Reply::Integer(number) => u64::try_from(number).ok(),
        _ => None,
    };
    let stored: Vec<u64> = items.iter().map(number).collect::<Option<_>>()?;
    (stored.len() == keys).then_some(stored)
}

/// The keys that bytes ask for; `None` if they are no such question.
pub(super) fn asked(bytes: &[u8]) -> Option<&[[u8; 32]]> {
    let (keys, rest) = bytes.strip_prefix(&[QUESTION])?.as_chunks();
    (rest.is_empty() && keys.len() <= MAX_KEYS_ASKED).then_some(keys)
}

/// Answers the question for these keys, by what each has `stored`.
pub(super) fn tell(out: &mut Vec<u8>, keys: &[[u8; 32]], stored: impl Fn(&PublicKey) -> u64) {
    encode::array(out, keys.len());
    for key in keys {
        encode::integer(out, signed(stored(&PublicKey(*key))));
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

    /// How many bytes more, or fewer, a key stores.
    pub(super) fn of(&self, owner: &PublicKey) -> i64 {
        self.0.get(owner).copied().unwrap_or_default()
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
        let stored = stored.saturating_add_signed(taken.of(self.key));
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
