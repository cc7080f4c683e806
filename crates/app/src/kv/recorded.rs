//! The state while a block changes it: what a command changes, it changes here, so that no change
//! is missing in the block's [list](super::feed).

use quorate_merkle::Hash;

use super::Refused;
use super::feed::List;
use super::storage::Storage;
use super::value::{Entry, Fields, Value, place};

/// The map, and the list of what becomes of it.
pub(super) struct Recorded<'a, M> {
    /// To be read from.
    pub(super) map: &'a mut M,
    pub(super) list: &'a mut List,
}

/// A key, behind its place.
pub(super) type At<'a> = (&'a Hash, &'a [u8]);

impl<M: Storage> Recorded<'_, M> {
    /// Makes what is there the string `text`.
    pub(super) fn assign(&mut self, (at, key): At<'_>, text: &[u8]) {
        self.map.assign(at, key, text);
        self.list.set(key, text);
    }

    /// Appends to the string that is there.
    pub(super) fn append(&mut self, (at, key): At<'_>, text: &[u8]) {
        self.map.change(at, |old| {
            if let Value::Text(old) = old {
                old.extend_from_slice(text);
            }
        });
        if !text.is_empty() {
            self.list.appended(key, text);
        }
    }

    /// Removes what is there; whether something was.
    pub(super) fn remove(&mut self, (at, key): At<'_>) -> bool {
        let was_there = self.map.remove(at);
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
        let result = if self.map.contains(at) {
            let changed = self.map.change(at, |value| match value {
                Value::Hash(fields) => change(fields),
                Value::Text(_) => Err(Refused::WrongType),
            });
            changed.unwrap_or(Err(Refused::WrongType))?
        } else {
            let mut fields = Fields::default();
            let result = change(&mut fields)?;
            let value = Value::Hash(Box::new(fields));
            self.map.insert(at, Entry { key: key.into(), value });
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
        let remove = |value: &mut Value| match value {
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
        if is_empty {
            self.remove((at, key));
        }
        removed.len()
    }
}
