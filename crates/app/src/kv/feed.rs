//! The change feed: what each block changed, in an order that all replicas agree on.
//!
//! # The list of a block
//! A block that changes something has a *list*: its [changes](Change) in the order of execution. A
//! command that had no effect (an error, a `SET … NX` of a key that is there, a `DEL` of one that
//! is not) is not in it. The commands of a transaction stand one behind the other. There is no
//! expiry in this store, so that nothing changes without a command.
//!
//! Integers are little-endian, byte strings stand behind their length (u32), lists behind their
//! count (u32). A change is its kind u8 and
//!
//! ```text
//! 1 the key was set to a string      key, string
//! 2 a string was appended to         key, what was appended
//! 3 fields of a hash were set        key, list of name and value
//! 4 the key was removed              key
//! 5 fields of a hash were removed    key, list of names
//! 6 everything was removed
//! ```
//!
//! # What vouches for it
//! The lists are a hash chain. The application's root covers its [`Head`]:
//!
//! ```text
//! digest = H("quorate kv feed", digest before [32] ‖ height of the list before u64
//!            ‖ height u64 ‖ bytes of the list u32 ‖ H("quorate kv changes", list) [32])
//! root   = H("quorate kv root", root of the map [32] ‖ digest [32] ‖ height of the last list u64)
//! ```
//!
//! Each link names the height of the one before it. So a head that a quorum vouches for proves that
//! some lists are all there are from a height on: they lead to the head, and the link of the first
//! names a list below that height. A replica that leaves a list out, adds or alters one would have
//! to find a collision. The first digest is zero, at height 0. A chain that was restored from a
//! backup goes on from the digest that the backup has, at height 0.

mod pages;
mod window;

use bytes::Bytes;
use quorate_core::base::wire::{Decode, DecodeError, Encode, Reader, put_bytes};
use quorate_core::{Digest, Height};

use super::{MAX_KEY_BYTES, MAX_VALUE_BYTES};

pub use pages::{Link, Links, MAX_PAGE_BYTES, NotLinked, Page, Piece};
pub(super) use window::Block;
pub use window::{Bounds, Feed, Found, MAX_LIST_BYTES};

/// The end of the chain of lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The height of the last block that changed something; 0: none has.
    pub height: Height,
    /// The digest of the chain up to there.
    pub digest: Digest,
}

impl Head {
    /// Bytes of an encoded one.
    pub const BYTES: usize = 8 + 32;

    /// The head behind this list. The length counts too: a watcher is to know it before the list.
    #[must_use]
    pub fn then(&self, list: &Link) -> Self {
        let mut link = [0; 32 + 8 + 8 + 4 + 32];
        link[..32].copy_from_slice(&self.digest.0);
        link[32..40].copy_from_slice(&self.height.0.to_le_bytes());
        link[40..48].copy_from_slice(&list.height.0.to_le_bytes());
        link[48..52].copy_from_slice(&list.bytes.to_le_bytes());
        link[52..].copy_from_slice(&list.digest.0);
        Self { height: list.height, digest: Digest::of("quorate kv feed", &link) }
    }

    /// The head before a block at `height`. In a chain that goes on from another one's state, what
    /// was changed there was changed before its first block, whose height is 1.
    #[must_use]
    pub(super) fn before(self, height: Height) -> Self {
        let is_of_another = height == Height(1) || self.height > height;
        if is_of_another { Self { height: Height(0), ..self } } else { self }
    }

    pub(super) fn to_array(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.height.0.to_le_bytes());
        bytes[8..].copy_from_slice(&self.digest.0);
        bytes
    }

    pub(super) fn from_array(bytes: &[u8; Self::BYTES]) -> Self {
        let (height, digest) = bytes.split_at(8);
        let height = Height(u64::from_le_bytes(height.try_into().unwrap_or_default()));
        Self { height, digest: Digest(digest.try_into().unwrap_or_default()) }
    }
}

impl Encode for Head {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_array());
    }
}

impl Decode for Head {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self::from_array(&reader.array()?))
    }
}

/// The digest of a list, as the chain has it.
#[must_use]
pub fn list_digest(list: &[u8]) -> Digest {
    Digest::of("quorate kv changes", list)
}

/// What a command changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A key holds this string now, whatever it held before.
    Set {
        /// The key.
        key: Bytes,
        /// Its value.
        value: Bytes,
    },
    /// The string under a key ends with these bytes now, behind what it was.
    Appended {
        /// The key.
        key: Bytes,
        /// The bytes behind what the string held before.
        text: Bytes,
    },
    /// Fields of the hash under a key have these values now. A key that was not there is.
    FieldsSet {
        /// The key.
        key: Bytes,
        /// Names and values, as the command had them: of equal names the last counts.
        fields: Vec<(Bytes, Bytes)>,
    },
    /// A key was there and is not any more.
    Removed {
        /// The key.
        key: Bytes,
    },
    /// Fields of the hash under a key were there and are not any more. If they were the last, the
    /// removal of the key follows.
    FieldsRemoved {
        /// The key.
        key: Bytes,
        /// Their names.
        fields: Vec<Bytes>,
    },
    /// No key is there any more.
    AllRemoved,
}

impl Change {
    /// The key that it is about; `None`: it is about all of them.
    #[must_use]
    pub fn key(&self) -> Option<&Bytes> {
        match self {
            Self::Set { key, .. }
            | Self::Appended { key, .. }
            | Self::FieldsSet { key, .. }
            | Self::Removed { key }
            | Self::FieldsRemoved { key, .. } => Some(key),
            Self::AllRemoved => None,
        }
    }

    /// Whether it is about a key with this prefix.
    #[must_use]
    pub fn is_within(&self, prefix: &[u8]) -> bool {
        self.key().is_none_or(|key| key.starts_with(prefix))
    }
}

impl Decode for Change {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let kind = reader.u8()?;
        if kind == AllRemoved::KIND {
            return Ok(Self::AllRemoved);
        }
        let key = reader.byte_string("key", MAX_KEY_BYTES)?;
        let part = |reader: &mut Reader| reader.byte_string("part of a value", MAX_VALUE_BYTES);
        Ok(match kind {
            1 => Self::Set { key, value: part(reader)? },
            2 => Self::Appended { key, text: part(reader)? },
            3 => {
                let count = reader.length("fields", MAX_VALUE_BYTES)?;
                let mut fields = Vec::with_capacity(count.min(reader.remaining() / 8));
                for _ in 0..count {
                    fields.push((part(reader)?, part(reader)?));
                }
                Self::FieldsSet { key, fields }
            }
            4 => Self::Removed { key },
            5 => {
                let count = reader.length("fields", MAX_VALUE_BYTES)?;
                let mut fields = Vec::with_capacity(count.min(reader.remaining() / 4));
                for _ in 0..count {
                    fields.push(part(reader)?);
                }
                Self::FieldsRemoved { key, fields }
            }
            _ => return Err(DecodeError::Invalid { field: "kind of a change" }),
        })
    }
}

impl Encode for Change {
    fn encode(&self, out: &mut Vec<u8>) {
        let mut list = List(std::mem::take(out));
        match self {
            Self::Set { key, value } => list.set(key, value),
            Self::Appended { key, text } => list.appended(key, text),
            Self::FieldsSet { key, fields } => {
                let pairs = fields.iter().map(|(name, value)| (&**name, &**value));
                list.fields_set(key, (fields.len(), pairs));
            }
            Self::Removed { key } => list.removed(key),
            Self::FieldsRemoved { key, fields } => {
                let names: Vec<&[u8]> = fields.iter().map(|name| &**name).collect();
                list.fields_removed(key, &names);
            }
            Self::AllRemoved => list.all_removed(),
        }
        *out = list.0;
    }
}

/// The changes of a list, in order.
///
/// # Errors
/// Each of them: the list ends there, or says what no list does.
pub fn changes(list: Bytes) -> impl Iterator<Item = Result<Change, DecodeError>> {
    let mut reader = Some(Reader::new(list));
    std::iter::from_fn(move || {
        let from = reader.as_mut().filter(|reader| reader.remaining() > 0)?;
        let change = Change::decode(from);
        if change.is_err() {
            reader = None;
        }
        Some(change)
    })
}

/// The list of a block, as it grows.
#[derive(Debug, Default)]
pub(super) struct List(Vec<u8>);

struct AllRemoved;

impl AllRemoved {
    const KIND: u8 = 6;
}

impl List {
    pub(super) fn set(&mut self, key: &[u8], value: &[u8]) {
        self.change(1, key);
        put_bytes(&mut self.0, value);
    }

    pub(super) fn appended(&mut self, key: &[u8], text: &[u8]) {
        self.change(2, key);
        put_bytes(&mut self.0, text);
    }

    pub(super) fn fields_set<'a>(
        &mut self,
        key: &[u8],
        (count, fields): (usize, impl Iterator<Item = (&'a [u8], &'a [u8])>),
    ) {
        self.change(3, key);
        (count as u32).encode(&mut self.0);
        for (name, value) in fields {
            put_bytes(&mut self.0, name);
            put_bytes(&mut self.0, value);
        }
    }

    pub(super) fn removed(&mut self, key: &[u8]) {
        self.change(4, key);
    }

    pub(super) fn fields_removed(&mut self, key: &[u8], names: &[&[u8]]) {
        self.change(5, key);
        (names.len() as u32).encode(&mut self.0);
        names.iter().for_each(|name| put_bytes(&mut self.0, name));
    }

    pub(super) fn all_removed(&mut self) {
        self.0.push(AllRemoved::KIND);
    }

    fn change(&mut self, kind: u8, key: &[u8]) {
        self.0.push(kind);
        put_bytes(&mut self.0, key);
    }

    /// The list so far, if there is anything in it; the next one begins.
    pub(super) fn take(&mut self) -> Option<Vec<u8>> {
        if self.0.is_empty() {
            return None;
        }
        // The next one is about as long.
        let room = Vec::with_capacity(self.0.len());
        Some(std::mem::replace(&mut self.0, room))
    }
}
