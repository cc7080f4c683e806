//! What changed since the last commit.

use std::collections::{BTreeMap, btree_map};
use std::ops::Range;

use quorate_core::base::crypto::PublicKey;
use quorate_merkle::Hash;

use super::super::command::ValueKind;
use super::super::entry;
use super::super::storage::{FoundHash, Listed, OtherKind};
use super::super::value::{Entry, Held};

/// Memory for more texts than this is given back.
const TEXTS_KEPT_BYTES: usize = 1 << 20;

/// Changes, by place.
#[derive(Clone, Default)]
pub(super) struct Changes {
    by_place: BTreeMap<Place, Changed>,
    /// Strings that were put, as entries are [written](entry): most become what is committed
    /// without having been anything else.
    texts: Vec<u8>,
}

/// A place, of which comparisons look at one number first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    first: u64,
    hash: Hash,
}

impl From<&Hash> for Place {
    fn from(hash: &Hash) -> Self {
        Self { first: u64::from_be_bytes(std::array::from_fn(|at| hash[at])), hash: *hash }
    }
}

/// What became of an entry.
#[derive(Clone)]
pub(super) enum Changed {
    Gone,
    Put {
        put: Put,
        /// Without a look at whether there is a committed one.
        blind: bool,
    },
}

/// What was put.
#[derive(Clone)]
pub(super) enum Put {
    /// A string, which is written in this part of the texts.
    Text(Range<usize>),
    Entry(Box<Entry>),
}

impl Changed {
    pub(super) const fn is_blind(&self) -> bool {
        matches!(self, Self::Put { blind: true, .. })
    }
}

impl Changes {
    pub(super) fn is_empty(&self) -> bool {
        self.by_place.is_empty()
    }

    /// Forgets all. What the texts of most blocks take is kept.
    pub(super) fn clear(&mut self) {
        self.by_place.clear();
        self.texts.clear();
        self.texts.shrink_to(TEXTS_KEPT_BYTES);
    }

    pub(super) fn get(&self, place: &Hash) -> Option<&Changed> {
        self.by_place.get(&place.into())
    }

    /// All, in the order of their places.
    pub(super) fn iter(&self) -> Iter<'_> {
        Iter(self.by_place.range(..))
    }

    /// Those that are not below `from`, in order.
    pub(super) fn iter_from(&self, from: &Hash) -> Iter<'_> {
        Iter(self.by_place.range(Place::from(from)..))
    }

    /// The key that was put and the kind of its value, if it was not removed.
    pub(super) fn listed<'a>(&'a self, changed: &'a Changed) -> Option<Listed<'a>> {
        match changed {
            Changed::Gone => None,
            Changed::Put { put: Put::Entry(entry), .. } => {
                Some(Listed { key: &entry.key, kind: entry.value.kind() })
            }
            Changed::Put { put: Put::Text(range), .. } => {
                let (key, kind) = entry::listed(self.written(range))?;
                Some(Listed { key, kind })
            }
        }
    }

    /// The kind of the value that was put, if it was not removed.
    pub(super) fn kind(changed: &Changed) -> Option<ValueKind> {
        match changed {
            Changed::Gone => None,
            Changed::Put { put: Put::Entry(entry), .. } => Some(entry.value.kind()),
            Changed::Put { put: Put::Text(_), .. } => Some(ValueKind::Text),
        }
    }

    /// Bytes and owner of the entry that was put; `None` if it was removed.
    pub(super) fn held(&self, changed: &Changed) -> Option<Held> {
        match changed {
            Changed::Gone => None,
            Changed::Put { put: Put::Entry(entry), .. } => Some(entry.held()),
            Changed::Put { put: Put::Text(range), .. } => Some(entry::held(self.written(range))),
        }
    }

    /// What this key owns of what was put, bytes.
    pub(super) fn owned_by(&self, changed: &Changed, key: &PublicKey) -> u64 {
        match changed {
            Changed::Gone => 0,
            Changed::Put { put: Put::Entry(entry), .. } if entry.owner.as_deref() == Some(key) => {
                entry.used_bytes()
            }
            Changed::Put { put: Put::Entry(_), .. } => 0,
            Changed::Put { put: Put::Text(range), .. } => entry::owned_by(self.written(range), key),
        }
    }

    /// The hash that was put, where it lies.
    pub(super) fn hash(changed: &Changed) -> Result<Option<FoundHash<'_>>, OtherKind> {
        match changed {
            Changed::Gone => Ok(None),
            Changed::Put { put: Put::Entry(entry), .. } => {
                entry.value.fields().map(|fields| Some(FoundHash::Here(fields)))
            }
            Changed::Put { put: Put::Text(_), .. } => Err(OtherKind),
        }
    }

    /// The string that was put, where it lies.
    pub(super) fn text<'a>(&'a self, changed: &'a Changed) -> Result<Option<&'a [u8]>, OtherKind> {
        match changed {
            Changed::Gone => Ok(None),
            Changed::Put { put: Put::Entry(entry), .. } => entry.value.text().map(Some),
            Changed::Put { put: Put::Text(range), .. } => {
                entry::text(self.written(range)).transpose()
            }
        }
    }

    /// A string that was put, as an entry is written.
    pub(super) fn written(&self, range: &Range<usize>) -> &[u8] {
        &self.texts[range.clone()]
    }

    /// Puts an entry after a look at what is committed.
    pub(super) fn put(&mut self, place: &Hash, entry: Entry) {
        let put = Put::Entry(Box::new(entry));
        self.by_place.insert(place.into(), Changed::Put { put, blind: false });
    }

    pub(super) fn remove(&mut self, place: &Hash) {
        self.by_place.insert(place.into(), Changed::Gone);
    }

    /// Puts a string; whether it comes back after it was removed. If nothing became of the entry
    /// before, it is put blind.
    pub(super) fn assign(
        &mut self,
        place: &Hash,
        (key, text): (&[u8], &[u8]),
        owner: Option<&PublicKey>,
    ) -> bool {
        let from = self.texts.len();
        entry::encode_text(&mut self.texts, key, text, owner);
        let put = Put::Text(from..self.texts.len());
        match self.by_place.entry(place.into()) {
            btree_map::Entry::Vacant(vacant) => {
                vacant.insert(Changed::Put { put, blind: true });
                false
            }
            btree_map::Entry::Occupied(mut there) => {
                let blind = there.get().is_blind();
                matches!(there.insert(Changed::Put { put, blind }), Changed::Gone)
            }
        }
    }

    /// The entry that was put, to be changed in place.
    pub(super) fn entry_mut(&mut self, place: &Hash) -> Option<&mut Entry> {
        let Changed::Put { put, .. } = self.by_place.get_mut(&place.into())? else { return None };
        if let Put::Text(range) = put {
            *put = Put::Entry(Box::new(entry::decode(&self.texts[range.clone()])?));
        }
        match put {
            Put::Entry(entry) => Some(entry),
            Put::Text(_) => None,
        }
    }
}

/// Changes in the order of their places.
pub(super) struct Iter<'a>(btree_map::Range<'a, Place, Changed>);

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a Hash, &'a Changed);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(place, changed)| (&place.hash, changed))
    }
}
