//! Where the keys and values are: what the commands need of it, and the one in memory.

use std::ops::Deref;

use bytes::Bytes;
use quorate_core::merkle::{Hash, MerkleMap};
use quorate_core::state_machine::{Keeper, ProveError, Prover, Snapshot};

use super::entry;
use super::proof::Content;
use super::snapshot::Cutter;
use super::value::{Entry, Fields, Value, place, write_value};

/// Entries under the hashes of their keys. All storages do the same with the same calls, roots and
/// chunks of snapshots included.
pub trait Storage: Send + sealed::Sealed {
    /// How many entries there are.
    #[doc(hidden)]
    fn count(&self) -> usize;
    #[doc(hidden)]
    fn get(&self, place: &Hash) -> Option<Found<'_>>;
    /// Told which places are about to be looked up, before they are.
    #[doc(hidden)]
    fn look_ahead<'h>(&self, _places: impl Iterator<Item = &'h Hash>) {}
    /// The string there, where it lies.
    #[doc(hidden)]
    fn text(&self, place: &Hash) -> Result<Option<&[u8]>, NoText>;
    #[doc(hidden)]
    fn contains(&self, place: &Hash) -> bool;
    /// A value to be changed in place.
    #[doc(hidden)]
    fn get_mut(&mut self, place: &Hash) -> Option<&mut Value>;
    /// The same; if there is none, what `make` returns is put there first.
    #[doc(hidden)]
    fn get_or_insert_with(&mut self, place: &Hash, make: impl FnOnce() -> Entry) -> &mut Value;
    /// Makes what is there the string `text`.
    #[doc(hidden)]
    fn assign(&mut self, place: &Hash, key: &[u8], text: &[u8]);
    /// Says whether there was something.
    #[doc(hidden)]
    fn remove(&mut self, place: &Hash) -> bool;
    #[doc(hidden)]
    fn clear(&mut self);
    /// The entries whose hashes are not below `from`, in order.
    #[doc(hidden)]
    fn iter_from(&self, from: &Hash) -> impl Iterator<Item = (Hash, Found<'_>)>;
    /// The root of the Merkle map of all entries.
    #[doc(hidden)]
    fn root(&mut self) -> Hash;
    #[doc(hidden)]
    fn freeze(&self) -> Box<dyn Snapshot>;
    /// What is committed, for proofs. `None` if that is not all.
    #[doc(hidden)]
    fn prover(&self) -> Option<Box<dyn Prover>>;
    /// Begins to be filled with another state; until that has ended, what there is is unspecified.
    #[doc(hidden)]
    fn begin_filling(&mut self) -> Result<(), String>;
    /// Takes entries, encoded, that follow on the last ones.
    #[doc(hidden)]
    fn fill(&mut self, entries: &[(Hash, &[u8])]) -> Result<(), String>;
    #[doc(hidden)]
    fn end_filling(&mut self) -> Result<(), String>;
    #[doc(hidden)]
    fn keeper(&mut self) -> Option<&mut dyn Keeper>;
}

pub(super) mod sealed {
    pub trait Sealed {}
}

/// What is there is no string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoText;

/// An entry that was looked up: where it lies, or read.
pub enum Found<'a> {
    /// In memory.
    Here(&'a Entry),
    /// From disk.
    Read(Entry),
}

impl Deref for Found<'_> {
    type Target = Entry;

    fn deref(&self) -> &Entry {
        match self {
            Self::Here(entry) => entry,
            Self::Read(entry) => entry,
        }
    }
}

/// A hash that was looked up.
pub(super) struct FoundFields<'a>(Found<'a>);

impl<'a> FoundFields<'a> {
    /// `None` if it is something else.
    pub(super) fn of(found: Found<'a>) -> Option<Self> {
        matches!(found.value, Value::Hash(_)).then_some(Self(found))
    }

    pub(super) fn fields(&self) -> Option<&Fields> {
        match &self.0.value {
            Value::Hash(fields) => Some(fields),
            Value::Text(_) => None,
        }
    }
}

/// Everything in memory: a Merkle map.
#[derive(Default)]
pub struct Memory {
    map: MerkleMap<Entry>,
}

impl sealed::Sealed for Memory {}

impl Storage for Memory {
    fn count(&self) -> usize {
        self.map.len()
    }

    fn get(&self, place: &Hash) -> Option<Found<'_>> {
        self.map.get(place).map(Found::Here)
    }

    fn text(&self, place: &Hash) -> Result<Option<&[u8]>, NoText> {
        self.map.get(place).map(|entry| entry.value.text()).transpose()
    }

    fn contains(&self, place: &Hash) -> bool {
        self.map.contains_key(place)
    }

    fn get_mut(&mut self, place: &Hash) -> Option<&mut Value> {
        self.map.get_mut(place).map(|entry| &mut entry.value)
    }

    fn get_or_insert_with(&mut self, place: &Hash, make: impl FnOnce() -> Entry) -> &mut Value {
        &mut self.map.get_or_insert_with(place, make).value
    }

    fn assign(&mut self, place: &Hash, key: &[u8], text: &[u8]) {
        let empty = || Entry { key: key.into(), value: Value::Text(Vec::new()) };
        self.map.get_or_insert_with(place, empty).value.assign(text);
    }

    fn remove(&mut self, place: &Hash) -> bool {
        self.map.remove(place).is_some()
    }

    fn clear(&mut self) {
        self.map = MerkleMap::new();
    }

    fn iter_from(&self, from: &Hash) -> impl Iterator<Item = (Hash, Found<'_>)> {
        self.map.iter_from(from).map(|(hash, entry)| (*hash, Found::Here(entry)))
    }

    fn root(&mut self) -> Hash {
        self.map.root()
    }

    fn freeze(&self) -> Box<dyn Snapshot> {
        Box::new(Frozen { map: self.map.clone() })
    }

    fn prover(&self) -> Option<Box<dyn Prover>> {
        Some(Box::new(Proving { map: self.map.clone() }))
    }

    fn begin_filling(&mut self) -> Result<(), String> {
        self.clear();
        Ok(())
    }

    fn fill(&mut self, entries: &[(Hash, &[u8])]) -> Result<(), String> {
        for (place, encoded) in entries {
            let entry = entry::decode(encoded).ok_or("it is no entry")?;
            self.map.insert(*place, entry);
        }
        Ok(())
    }

    fn end_filling(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn keeper(&mut self) -> Option<&mut dyn Keeper> {
        None
    }
}

/// A frozen map.
struct Frozen {
    map: MerkleMap<Entry>,
}

impl Snapshot for Frozen {
    fn chunks(&self, sink: &mut dyn FnMut(&[u8]) -> bool) {
        let mut proving = self.map.clone();
        let root = proving.root();
        let mut prove = |place: &Hash| Some(proving.prove(place));
        let mut cutter = Cutter::new(&root, &mut prove, sink);
        let mut encoded = Vec::new();
        for (place, entry) in self.map.iter() {
            encoded.clear();
            entry::encode(&mut encoded, entry);
            if !cutter.entry(place, &encoded) {
                return;
            }
        }
        cutter.finish();
    }
}

/// A frozen map that proves what it holds.
struct Proving {
    map: MerkleMap<Entry>,
}

impl Prover for Proving {
    fn prove(&mut self, key: &[u8]) -> Result<Bytes, ProveError> {
        let place = place(key);
        let proof = self.map.prove(&place);
        let written = self.map.get(&place).map(|entry| {
            let mut written = Vec::new();
            write_value(&mut written, &entry.value);
            written
        });
        Ok(Content { root: self.map.root(), value: written.as_deref(), proof: &proof }.encode())
    }
}
