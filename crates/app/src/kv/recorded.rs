//! The state while a block changes it: what a command changes, it changes here, so that no change
//! is missing in the block's [list](super::feed).

use std::collections::BTreeSet;

use quorate_core::base::crypto::PublicKey;
use quorate_merkle::Hash;

use super::command::Pairs;
use super::feed::List;
use super::quotas::{Payer, Taken, signed};
use super::storage::Storage;
use super::value::{Entry, Fields, Value, key_used_bytes, place};
use super::{Meter, Refused};

/// The map, and the list of what becomes of it.
pub(super) struct Recorded<'a, M> {
    /// To be read from.
    pub(super) map: &'a mut M,
    pub(super) list: &'a mut List,
    /// What the block's commands take of quotas.
    pub(super) taken: &'a mut Taken,
    /// The sender of the command, if it has a [quota](super::quotas).
    pub(super) payer: Option<Payer<'a>>,
}

/// What becomes of the entry at a place, as far as it counts for a quota.
#[derive(Clone, Copy)]
pub(super) enum Due<'a> {
    /// It takes so many bytes, whatever was there.
    Whole(&'a Hash, u64),
    /// It takes so many bytes more than it did.
    More(&'a Hash, u64),
}

/// A key, behind its place.
pub(super) type At<'a> = (&'a Hash, &'a [u8]);

impl<'a, M: Storage> Recorded<'a, M> {
    /// The owner of written entries.
    fn owner(&self) -> Option<&'a PublicKey> {
        self.payer.map(|payer| payer.key)
    }

    /// Takes `bytes` of room in the state, and what is due of the sender's quota, if it has one.
    /// Takes nothing of either if one is too small. What is said to be due is written next.
    pub(super) fn grow(
        &mut self,
        meter: &mut Meter,
        bytes: u64,
        due: Due<'_>,
    ) -> Result<(), Refused> {
        let Some(payer) = self.payer else { return meter.grow(bytes) };
        let more = match due {
            Due::Whole(at, bytes) => signed(bytes) - signed(self.map.owned_by(at, payer.key)),
            Due::More(at, bytes) => {
                let there = self.map.held(at);
                let used_bytes = there.map_or(0, |held| held.used_bytes);
                signed(bytes + used_bytes - payer.owned(there.as_ref()))
            }
        };
        self.grow_by(payer, meter, bytes, more)
    }

    /// The same for strings that are about to be assigned.
    pub(super) fn grow_all(&mut self, meter: &mut Meter, pairs: Pairs<'_>) -> Result<(), Refused> {
        let taken = pairs.iter().map(|(key, value)| key_used_bytes(key) + value.len() as u64);
        let bytes = taken.sum();
        let Some(payer) = self.payer else { return meter.grow(bytes) };
        let mut overwritten = BTreeSet::new();
        let mut more = signed(bytes);
        for (key, _) in pairs.iter() {
            let at = place(key);
            // What stands there is overwritten once, however often the key is named.
            if overwritten.insert(at) {
                more -= signed(self.map.owned_by(&at, payer.key));
            }
        }
        self.grow_by(payer, meter, bytes, more)
    }

    fn grow_by(
        &mut self,
        payer: Payer<'a>,
        meter: &mut Meter,
        bytes: u64,
        more: i64,
    ) -> Result<(), Refused> {
        let stored = self.map.stored(payer.key);
        payer.may_take(self.taken, stored, more)?;
        meter.grow(bytes)?;
        payer.take(self.taken, more);
        Ok(())
    }

    /// What the sender owns of the entry at a place, if it has a quota.
    fn owned(&self, at: &Hash) -> Option<(Payer<'a>, u64)> {
        let payer = self.payer?;
        Some((payer, self.map.owned_by(at, payer.key)))
    }

    /// Makes what is there the string `text`.
    pub(super) fn assign(&mut self, (at, key): At<'_>, text: &[u8]) {
        let owner = self.owner();
        self.map.assign(at, (key, text), owner);
        self.list.set(key, text);
    }

    /// Appends to the string that is there.
    pub(super) fn append(&mut self, (at, key): At<'_>, text: &[u8]) {
        let owner = self.owner();
        self.map.change(at, |entry| {
            if let Value::Text(old) = &mut entry.value {
                old.extend_from_slice(text);
            }
            entry.set_owner(owner);
        });
        if !text.is_empty() {
            self.list.appended(key, text);
        }
    }

    /// Removes what is there; whether something was.
    pub(super) fn remove(&mut self, (at, key): At<'_>) -> bool {
        let owned = self.owned(at);
        let was_there = self.map.remove(at);
        if let Some((payer, bytes)) = owned {
            payer.take(self.taken, -signed(bytes));
        }
        if was_there {
            self.list.removed(key);
        }
        was_there
    }

    /// As [`remove`](Self::remove), by the key alone.
    pub(super) fn remove_key(&mut self, key: &[u8]) -> bool {
        self.remove((&place(key), key))
    }

    pub(super) fn clear(&mut self) {
        self.map.clear();
        self.taken.clear();
        self.list.all_removed();
    }

    /// Changes the hash under a key. One that is not there is made, unless the change fails. The
    /// change sets `fields`, of which there are so many, or fails.
    pub(super) fn set_fields<'f, T>(
        &mut self,
        (at, key): At<'_>,
        fields: (usize, impl Iterator<Item = (&'f [u8], &'f [u8])>),
        change: impl FnOnce(&mut Fields) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        let owner = self.owner();
        let result = if self.map.contains(at) {
            let changed = self.map.change(at, |entry| {
                let Value::Hash(fields) = &mut entry.value else { return Err(Refused::WrongType) };
                let result = change(fields)?;
                entry.set_owner(owner);
                Ok(result)
            });
            changed.unwrap_or(Err(Refused::WrongType))?
        } else {
            let mut fields = Fields::default();
            let result = change(&mut fields)?;
            let value = Value::Hash(Box::new(fields));
            let owner = owner.map(|owner| Box::new(*owner));
            self.map.insert(at, Entry { key: key.into(), value, owner });
            result
        };
        self.list.fields_set(key, fields);
        Ok(result)
    }

    /// Removes fields of the hash that is there, and the key with the last of them. How many were
    /// there.
    pub(super) fn remove_fields<'f>(
        &mut self,
        (at, key): At<'_>,
        names: impl Iterator<Item = &'f [u8]>,
    ) -> usize {
        let before = self.owned(at);
        let remove = |entry: &mut Entry| match &mut entry.value {
            Value::Hash(fields) => {
                let removed: Vec<&[u8]> = names.filter(|name| fields.remove(name)).collect();
                (removed, fields.is_empty())
            }
            Value::Text(_) => (Vec::new(), false),
        };
        let (removed, is_empty) = self.map.change(at, remove).unwrap_or_default();
        if !removed.is_empty() {
            self.list.fields_removed(key, &removed);
        }
        if let (Some((payer, before)), Some((_, after))) = (before, self.owned(at)) {
            payer.take(self.taken, signed(after) - signed(before));
        }
        if is_empty {
            self.remove((at, key));
        }
        removed.len()
    }
}
