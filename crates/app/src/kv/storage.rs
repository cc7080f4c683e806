//! Where the keys and values are: what the commands need of it, and the one in memory.

use std::borrow::Cow;

use bytes::Bytes;
use quorate_core::base::crypto::PublicKey;
use quorate_core::ledger::state_machine::{KeepError, Keeper, ProveError, Prover, Snapshot};
use quorate_merkle::{Hash, MerkleMap};

use super::command::ValueKind;
use super::entry;
use super::feed::Head;
use super::proof::Content;
use super::quotas::{Moves, Stored};
use super::snapshot::Cutter;
use super::value::{
    Entry, Fields, Held, Value, key_used_bytes, place, read_fields, write_value, written_fields,
};

/// Entries under the hashes of their keys. All storages do the same with the same calls, roots and
/// chunks of snapshots included.
pub trait Storage: Send + sealed::Sealed + 'static {
    /// How many entries there are.
    #[doc(hidden)]
    fn count(&self) -> usize;
    /// Brings what was changed to where [`used_bytes`](Self::used_bytes) and
    /// [`stored`](Self::stored) count it.
    #[doc(hidden)]
    fn settle(&mut self) {}
    /// What the entries take of the state's [limit](super::KeyValue::limited_to), once settled.
    #[doc(hidden)]
    fn used_bytes(&self) -> u64;
    /// How much of that a key owns, as it was when it was settled; nothing once all was removed.
    #[doc(hidden)]
    fn stored(&self, owner: &PublicKey) -> u64;
    /// The same as it is now, between blocks.
    #[doc(hidden)]
    fn stored_now(&self, owner: &PublicKey) -> u64 {
        self.stored(owner)
    }
    /// What the entry there takes, and who owns it; `None` if there is none.
    #[doc(hidden)]
    fn held(&self, place: &Hash) -> Option<Held>;
    /// What this key owns of the entry there, bytes. Of what is not its own, no more is looked at
    /// than the owner: a command that is refused may be sent again and again, and nobody is billed
    /// for a walk over the entry.
    #[doc(hidden)]
    fn owned_by(&self, place: &Hash, key: &PublicKey) -> u64;
    /// Told which places are about to be looked up, before they are.
    #[doc(hidden)]
    fn look_ahead<'h>(&self, _places: impl Iterator<Item = &'h Hash>) {}
    #[doc(hidden)]
    fn kind(&self, place: &Hash) -> Option<ValueKind>;
    /// The string there, where it lies.
    #[doc(hidden)]
    fn text(&self, place: &Hash) -> Result<Option<&[u8]>, OtherKind>;
    /// The hash there, where it lies.
    #[doc(hidden)]
    fn hash(&self, place: &Hash) -> Result<Option<FoundHash<'_>>, OtherKind>;
    #[doc(hidden)]
    fn contains(&self, place: &Hash) -> bool;
    /// Changes the entry there, but for its key; `None` if there is none.
    #[doc(hidden)]
    fn change<T>(&mut self, place: &Hash, change: impl FnOnce(&mut Entry) -> T) -> Option<T>;
    /// Puts an entry where there is none.
    #[doc(hidden)]
    fn insert(&mut self, place: &Hash, entry: Entry);
    /// Makes what is there the string `text`, with this owner.
    #[doc(hidden)]
    fn assign(&mut self, place: &Hash, key_and_text: (&[u8], &[u8]), owner: Option<&PublicKey>);
    /// Says whether there was something.
    #[doc(hidden)]
    fn remove(&mut self, place: &Hash) -> bool;
    #[doc(hidden)]
    fn clear(&mut self);
    /// The entries whose hashes are not below `from`, in order. Reads no values.
    #[doc(hidden)]
    fn iter_from(&self, from: &Hash) -> impl Iterator<Item = (Hash, Listed<'_>)>;
    /// The root of the Merkle map of all entries.
    #[doc(hidden)]
    fn root(&mut self) -> Hash;
    /// The head of the change feed, which is a part of the state.
    #[doc(hidden)]
    fn head(&self) -> Head;
    #[doc(hidden)]
    fn set_head(&mut self, head: Head);
    #[doc(hidden)]
    fn freeze(&self) -> Box<dyn Snapshot>;
    /// What is committed, for proofs. `None` if that is not all.
    #[doc(hidden)]
    fn prover(&self) -> Option<Box<dyn Prover>>;
    /// The committed state as it is now, to be read by another thread. `None` while there are
    /// changes that are not committed.
    #[doc(hidden)]
    fn frozen(&self) -> Option<Self>
    where
        Self: Sized;
    /// A map that stays as this one is now, if it is that cheap.
    #[doc(hidden)]
    fn marked(&self) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }
    /// What failed in reading.
    #[doc(hidden)]
    fn failure(&self) -> Option<KeepError> {
        None
    }
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

/// A key holds a value of the other kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherKind;

/// An entry that was come by: its key, and of which kind its value is.
pub struct Listed<'a> {
    pub(super) key: &'a [u8],
    pub(super) kind: ValueKind,
}

/// A hash that was looked up, where it lies.
pub enum FoundHash<'a> {
    /// In memory.
    Here(&'a Fields),
    /// As it is written on disk, behind its kind.
    Written(&'a [u8]),
}

impl<'a> FoundHash<'a> {
    /// Bytes of all names and values, with 8 for each pair: the same in either storage.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Here(fields) => fields.bytes(),
            Self::Written(written) => written.len(),
        }
    }

    /// How many fields there are. Walks through a written one.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Here(fields) => fields.len(),
            Self::Written(written) => written_fields(written).count(),
        }
    }

    /// The value of a field. Walks through a written one.
    pub(super) fn get(&self, name: &[u8]) -> Option<&'a [u8]> {
        match self {
            Self::Here(fields) => fields.get(name),
            Self::Written(written) => {
                written_fields(written).find(|(of, _)| *of == name).map(|(_, value)| value)
            }
        }
    }

    /// The fields, names ascending.
    pub(super) fn iter(&self) -> Box<dyn Iterator<Item = (&'a [u8], &'a [u8])> + 'a> {
        match *self {
            Self::Here(fields) => Box::new(fields.iter()),
            Self::Written(written) => Box::new(written_fields(written)),
        }
    }

    /// The hash as it is in memory, for many looks at it. Reads a written one as a whole.
    pub(super) fn read(&self) -> Cow<'a, Fields> {
        match *self {
            Self::Here(fields) => Cow::Borrowed(fields),
            Self::Written(written) => Cow::Owned(read_fields(written).unwrap_or_default()),
        }
    }
}

/// Everything in memory: a Merkle map.
#[derive(Clone, Default)]
pub struct Memory {
    map: MerkleMap<Entry>,
    used_bytes: u64,
    /// What owners had stored when it was settled, and what has changed of that since.
    stored: Stored,
    moves: Moves,
    head: Head,
}

impl Memory {
    /// Nothing, with a head: all was removed.
    pub(super) fn empty(head: Head) -> Self {
        Self { head, ..Self::default() }
    }
}

impl sealed::Sealed for Memory {}

impl Storage for Memory {
    fn count(&self) -> usize {
        self.map.len()
    }

    fn settle(&mut self) {
        self.stored.apply(&mut self.moves);
    }

    fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    fn stored(&self, owner: &PublicKey) -> u64 {
        self.stored.of(owner)
    }

    fn stored_now(&self, owner: &PublicKey) -> u64 {
        self.stored.of(owner).saturating_add_signed(self.moves.of(owner))
    }

    fn held(&self, place: &Hash) -> Option<Held> {
        self.map.get(place).map(Entry::held)
    }

    fn owned_by(&self, place: &Hash, key: &PublicKey) -> u64 {
        let entry = self.map.get(place).filter(|entry| entry.owner.as_deref() == Some(key));
        entry.map_or(0, Entry::used_bytes)
    }

    fn kind(&self, place: &Hash) -> Option<ValueKind> {
        self.map.get(place).map(|entry| entry.value.kind())
    }

    fn text(&self, place: &Hash) -> Result<Option<&[u8]>, OtherKind> {
        self.map.get(place).map(|entry| entry.value.text()).transpose()
    }

    fn hash(&self, place: &Hash) -> Result<Option<FoundHash<'_>>, OtherKind> {
        let fields = self.map.get(place).map(|entry| entry.value.fields()).transpose()?;
        Ok(fields.map(FoundHash::Here))
    }

    fn contains(&self, place: &Hash) -> bool {
        self.map.contains_key(place)
    }

    fn change<T>(&mut self, place: &Hash, change: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        let entry = self.map.get_mut(place)?;
        let before = entry.held();
        let result = change(entry);
        let after = entry.held();
        self.used_bytes = self.used_bytes - before.used_bytes + after.used_bytes;
        self.moves.replaced(&before, &after);
        Some(result)
    }

    fn insert(&mut self, place: &Hash, entry: Entry) {
        let after = entry.held();
        let before = self.map.insert(*place, entry).map(|old| old.held()).unwrap_or_default();
        self.used_bytes = self.used_bytes - before.used_bytes + after.used_bytes;
        self.moves.replaced(&before, &after);
    }

    fn assign(&mut self, place: &Hash, (key, text): (&[u8], &[u8]), owner: Option<&PublicKey>) {
        let used_bytes = &mut self.used_bytes;
        let empty = || {
            *used_bytes += key_used_bytes(key);
            Entry { key: key.into(), value: Value::Text(Vec::new()), owner: None }
        };
        let entry = self.map.get_or_insert_with(place, empty);
        let before = entry.held();
        entry.value.assign(text);
        entry.set_owner(owner);
        let after = entry.held();
        self.used_bytes = self.used_bytes - before.used_bytes + after.used_bytes;
        self.moves.replaced(&before, &after);
    }

    fn remove(&mut self, place: &Hash) -> bool {
        let Some(removed) = self.map.remove(place) else { return false };
        let before = removed.held();
        self.used_bytes -= before.used_bytes;
        self.moves.replaced(&before, &Held::default());
        true
    }

    fn clear(&mut self) {
        *self = Self::empty(self.head);
    }

    fn iter_from(&self, from: &Hash) -> impl Iterator<Item = (Hash, Listed<'_>)> {
        self.map
            .iter_from(from)
            .map(|(hash, entry)| (*hash, Listed { key: &entry.key, kind: entry.value.kind() }))
    }

    fn root(&mut self) -> Hash {
        self.map.root()
    }

    fn head(&self) -> Head {
        self.head
    }

    fn set_head(&mut self, head: Head) {
        self.head = head;
    }

    fn freeze(&self) -> Box<dyn Snapshot> {
        Box::new(Frozen { map: self.map.clone(), head: self.head })
    }

    fn prover(&self) -> Option<Box<dyn Prover>> {
        Some(Box::new(Proving { map: self.map.clone(), head: self.head }))
    }

    fn frozen(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn marked(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn begin_filling(&mut self) -> Result<(), String> {
        self.clear();
        Ok(())
    }

    fn fill(&mut self, entries: &[(Hash, &[u8])]) -> Result<(), String> {
        for (place, encoded) in entries {
            let entry = entry::decode(encoded).ok_or("it is no entry")?;
            self.insert(place, entry);
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
    head: Head,
}

impl Snapshot for Frozen {
    fn chunks(&self, sink: &mut dyn FnMut(&[u8]) -> bool) {
        let mut proving = self.map.clone();
        let root = proving.root();
        let mut prove = |place: &Hash| Some(proving.prove(place).encode());
        let mut cutter = Cutter::new((&root, self.head), &mut prove, sink);
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
    head: Head,
}

impl Prover for Proving {
    fn prove(&mut self, key: &[u8]) -> Result<Bytes, ProveError> {
        let place = place(key);
        let proof = self.map.prove(&place).encode();
        let written = self.map.get(&place).map(|entry| {
            let mut written = Vec::new();
            write_value(&mut written, &entry.value, entry.owner.as_deref());
            written
        });
        let (root, head) = (self.map.root(), self.head);
        Ok(Content { root, head, value: written.as_deref(), proof: &proof }.encode())
    }
}
