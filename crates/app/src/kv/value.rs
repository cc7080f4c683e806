//! What the store holds: entries under the hash of their key.

use std::collections::BTreeMap;
use std::sync::Arc;

use quorate_core::base::crypto::PublicKey;
use quorate_merkle::hashes::Kind;
use quorate_merkle::{Hash, Leaf};

use super::command::ValueKind;
use super::storage::OtherKind;

/// A key and its value.
#[derive(Clone)]
pub struct Entry {
    pub(super) key: Arc<[u8]>,
    pub(super) value: Value,
    /// Whose [quota](super::quotas) it counts for; nobody's, most often.
    pub(super) owner: Option<Box<PublicKey>>,
}

/// What an entry takes of the state's limit, and whose quota that counts for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    pub(super) used_bytes: u64,
    pub(super) owner: Option<PublicKey>,
}

/// A value of either kind.
#[derive(Clone)]
pub enum Value {
    /// A string.
    Text(Vec<u8>),
    /// A hash.
    Hash(Box<Fields>),
}

/// The fields of a hash. Never empty where it is stored: an empty hash is no key.
#[derive(Clone, Default)]
pub struct Fields {
    by_name: BTreeMap<Box<[u8]>, Vec<u8>>,
    /// Bytes of all names and values, with [`FIELD_OVERHEAD_BYTES`] for each pair.
    bytes: usize,
}

/// What a field costs beside its bytes: the two length prefixes in front of them.
pub(super) const FIELD_OVERHEAD_BYTES: usize = 8;

/// Bytes that a key counts for in the state's limit, beside its own and those of its value: its
/// place in the map and its allocations.
pub const KEY_BYTES: usize = 256;
/// Bytes that a field of a hash counts for, beside its own and those of its value.
pub const FIELD_BYTES: usize = 128;

const PLACE: &[u8; 32] = b"quorate kv v1: place of a key   ";
/// The digest of a string.
fn text_digest(text: &[u8]) -> Hash {
    *blake3::keyed_hash(TEXT, text).as_bytes()
}

/// The digest of a hash whose fields are written out one behind the other, names ascending: lengths
/// (u32) and bytes of name and value.
fn fields_digest(written: &[u8]) -> Hash {
    *blake3::keyed_hash(HASH, written).as_bytes()
}

const TEXT: &[u8; 32] = b"quorate kv v1: string value     ";
const HASH: &[u8; 32] = b"quorate kv v1: hash value       ";
const OWNED_TEXT: &[u8; 32] = b"quorate kv v2: owned string     ";
const OWNED_HASH: &[u8; 32] = b"quorate kv v2: owned hash       ";

// The kinds of written values.
const TEXT_KIND: u8 = 1;
const HASH_KIND: u8 = 2;
const OWNED_TEXT_KIND: u8 = 3;
const OWNED_HASH_KIND: u8 = 4;

/// What an owner adds to a written value, bytes.
pub(super) const OWNER_BYTES: usize = 32;

/// Appends a value: its kind u8 (1 a string, 2 a hash; 3 and 4 the same with an owner) ‖ the
/// owner's key 32, if it has one ‖ the string, or each field's name and value behind their lengths
/// (u32, little-endian), names ascending. The hashed part stands here as one piece.
pub(super) fn write_value(out: &mut Vec<u8>, value: &Value, owner: Option<&PublicKey>) {
    match value {
        Value::Text(text) => write_text(out, text, owner),
        Value::Hash(fields) => {
            match owner {
                None => out.push(HASH_KIND),
                Some(PublicKey(owner)) => {
                    out.push(OWNED_HASH_KIND);
                    out.extend_from_slice(owner);
                }
            }
            for (name, value) in fields.iter() {
                put_byte_string(out, name);
                put_byte_string(out, value);
            }
        }
    }
}

/// The same of a string.
pub(super) fn write_text(out: &mut Vec<u8>, text: &[u8], owner: Option<&PublicKey>) {
    match owner {
        None => out.push(TEXT_KIND),
        Some(PublicKey(owner)) => {
            out.push(OWNED_TEXT_KIND);
            out.extend_from_slice(owner);
        }
    }
    out.extend_from_slice(text);
}

/// A written value's kind, its owner, and the rest.
type Parts<'a> = (ValueKind, Option<&'a [u8; OWNER_BYTES]>, &'a [u8]);

/// A written value, taken apart; `None` if it is none.
fn parts(written: &[u8]) -> Option<Parts<'_>> {
    let (kind, rest) = written.split_first()?;
    let owned = || rest.split_first_chunk().map(|(owner, rest)| (Some(owner), rest));
    let (kind, (owner, rest)) = match *kind {
        TEXT_KIND => (ValueKind::Text, (None, rest)),
        HASH_KIND => (ValueKind::Hash, (None, rest)),
        OWNED_TEXT_KIND => (ValueKind::Text, owned()?),
        OWNED_HASH_KIND => (ValueKind::Hash, owned()?),
        _ => return None,
    };
    Some((kind, owner, rest))
}

/// The value of these bytes and its owner, if they are one.
pub(super) fn read_value(written: &[u8]) -> Option<(Value, Option<PublicKey>)> {
    let (kind, owner, rest) = parts(written)?;
    let value = match kind {
        ValueKind::Text => Value::Text(rest.to_vec()),
        ValueKind::Hash => Value::Hash(Box::new(read_fields(rest)?)),
    };
    Some((value, owner.copied().map(PublicKey)))
}

/// The owner of a written value.
pub(super) fn written_owner(written: &[u8]) -> Option<PublicKey> {
    parts(written)?.1.copied().map(PublicKey)
}

/// The fields of a written hash, what is behind its kind; `None` if they are none.
pub(super) fn read_fields(mut rest: &[u8]) -> Option<Fields> {
    let mut fields = Fields::default();
    while !rest.is_empty() {
        let (name, behind) = split_byte_string(rest)?;
        let (value, behind) = split_byte_string(behind)?;
        if !fields.push(name.into(), value.to_vec()) {
            return None;
        }
        rest = behind;
    }
    Some(fields)
}

/// The same where they lie, up to what is none.
pub(super) fn written_fields(mut rest: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    std::iter::from_fn(move || {
        let (name, behind) = split_byte_string(rest)?;
        let (value, behind) = split_byte_string(behind)?;
        rest = behind;
        Some((name, value))
    })
}

/// The string of a written value, where it lies; `None` if it is no value.
pub(super) fn written_text(written: &[u8]) -> Option<Result<&[u8], OtherKind>> {
    match parts(written)? {
        (ValueKind::Text, _, text) => Some(Ok(text)),
        (ValueKind::Hash, ..) => Some(Err(OtherKind)),
    }
}

/// The string of a written value without an owner; `None` if it is anything else.
pub(super) fn written_free_text(written: &[u8]) -> Option<&[u8]> {
    written.split_first().filter(|(kind, _)| **kind == TEXT_KIND).map(|(_, text)| text)
}

/// The hash of a written value, behind its kind, where it lies; `None` if it is no value.
pub(super) fn written_hash(written: &[u8]) -> Option<Result<&[u8], OtherKind>> {
    match parts(written)? {
        (ValueKind::Hash, _, fields) => Some(Ok(fields)),
        (ValueKind::Text, ..) => Some(Err(OtherKind)),
    }
}

/// The kind of a written value; `None` if it is none.
pub(super) fn written_kind(written: &[u8]) -> Option<ValueKind> {
    parts(written).map(|(kind, ..)| kind)
}

/// Bytes of the state's limit that a key takes, without its value.
pub(super) fn key_used_bytes(key: &[u8]) -> u64 {
    (KEY_BYTES + key.len()) as u64
}

/// Bytes of the state's limit that a field of a hash takes.
pub(super) fn field_used_bytes(name: &[u8], value: &[u8]) -> u64 {
    (FIELD_BYTES + name.len() + value.len()) as u64
}

/// Bytes of the state's limit that a written value takes: as many as the value in memory.
pub(super) fn written_used_bytes(written: &[u8]) -> u64 {
    match parts(written) {
        Some((ValueKind::Hash, _, fields)) => {
            written_fields(fields).map(|(name, value)| field_used_bytes(name, value)).sum()
        }
        Some((ValueKind::Text, _, text)) => text.len() as u64,
        None => 0,
    }
}

/// The digest of a written value.
pub(super) fn value_digest(written: &[u8]) -> Option<Hash> {
    match written.split_first()? {
        (&TEXT_KIND, text) => Some(text_digest(text)),
        (&OWNED_TEXT_KIND, owned) => Some(*blake3::keyed_hash(OWNED_TEXT, owned).as_bytes()),
        (&OWNED_HASH_KIND, owned) => Some(*blake3::keyed_hash(OWNED_HASH, owned).as_bytes()),
        (_, fields) => Some(fields_digest(fields)),
    }
}

/// The digests of strings.
pub(super) fn text_digests(texts: &[&[u8]], digests: &mut [Hash]) {
    Kind::keyed(TEXT).of(texts, digests);
}

pub(super) fn put_byte_string(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

pub(super) fn split_byte_string(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}

/// Where in the map a key is kept.
pub(super) fn place(key: &[u8]) -> Hash {
    *blake3::keyed_hash(PLACE, key).as_bytes()
}

impl Leaf for Entry {
    /// The key is not hashed again: its hash is the entry's place in the map, and the root binds
    /// the two.
    fn digest(&self) -> Hash {
        match (&self.value, &self.owner) {
            (Value::Text(text), None) => text_digest(text),
            (Value::Text(text), Some(owner)) => {
                let mut hasher = blake3::Hasher::new_keyed(OWNED_TEXT);
                hasher.update(&owner.0).update(text);
                *hasher.finalize().as_bytes()
            }
            (Value::Hash(fields), owner) => {
                let kind = if owner.is_some() { OWNED_HASH } else { HASH };
                let mut hasher = blake3::Hasher::new_keyed(kind);
                if let Some(owner) = owner {
                    hasher.update(&owner.0);
                }
                for (name, value) in fields.iter() {
                    hasher.update(&(name.len() as u32).to_le_bytes());
                    hasher.update(name);
                    hasher.update(&(value.len() as u32).to_le_bytes());
                    hasher.update(value);
                }
                *hasher.finalize().as_bytes()
            }
        }
    }

    fn digests(values: &[&Self], digests: &mut [Hash]) {
        let texts: Vec<&[u8]> = values.iter().map_while(|entry| entry.free_text()).collect();
        if texts.len() == values.len() {
            return text_digests(&texts, digests);
        }
        for (value, digest) in values.iter().zip(digests) {
            *digest = value.digest();
        }
    }
}

impl Entry {
    /// Bytes of the state's limit that it takes.
    pub(super) fn used_bytes(&self) -> u64 {
        key_used_bytes(&self.key) + self.value.used_bytes()
    }

    /// Its string, if it is one without an owner.
    fn free_text(&self) -> Option<&[u8]> {
        self.value.text().ok().filter(|_| self.owner.is_none())
    }

    pub(super) fn held(&self) -> Held {
        Held { used_bytes: self.used_bytes(), owner: self.owner.as_deref().copied() }
    }

    /// Lets it count for the quota of this key, or for none.
    pub(super) fn set_owner(&mut self, owner: Option<&PublicKey>) {
        if self.owner.as_deref() != owner {
            self.owner = owner.map(|owner| Box::new(*owner));
        }
    }
}

impl Value {
    pub(super) const fn kind(&self) -> ValueKind {
        match self {
            Self::Text(_) => ValueKind::Text,
            Self::Hash(_) => ValueKind::Hash,
        }
    }

    pub(super) fn text(&self) -> Result<&[u8], OtherKind> {
        match self {
            Self::Text(text) => Ok(text),
            Self::Hash(_) => Err(OtherKind),
        }
    }

    pub(super) fn fields(&self) -> Result<&Fields, OtherKind> {
        match self {
            Self::Hash(fields) => Ok(fields),
            Self::Text(_) => Err(OtherKind),
        }
    }

    /// Bytes of the state's limit that it takes.
    pub(super) fn used_bytes(&self) -> u64 {
        match self {
            Self::Text(text) => text.len() as u64,
            Self::Hash(fields) => {
                (fields.bytes + fields.len() * (FIELD_BYTES - FIELD_OVERHEAD_BYTES)) as u64
            }
        }
    }

    /// Makes this a string, in the memory of the old one where that fits.
    pub(super) fn assign(&mut self, bytes: &[u8]) {
        match self {
            Self::Text(text) => overwrite(text, bytes),
            Self::Hash(_) => *self = Self::Text(bytes.to_vec()),
        }
    }
}

impl Fields {
    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.by_name.get(name).map(Vec::as_slice)
    }

    /// Sets a field; says whether it is new.
    pub(super) fn set(&mut self, name: &[u8], bytes: &[u8]) -> bool {
        if let Some(value) = self.by_name.get_mut(name) {
            self.bytes = self.bytes - value.len() + bytes.len();
            overwrite(value, bytes);
            return false;
        }
        self.bytes += FIELD_OVERHEAD_BYTES + name.len() + bytes.len();
        self.by_name.insert(name.into(), bytes.to_vec());
        true
    }

    /// Adds a field behind the last one. Refused if its name is not above that one's.
    pub(super) fn push(&mut self, name: Box<[u8]>, value: Vec<u8>) -> bool {
        if self.by_name.last_key_value().is_some_and(|(last, _)| *last >= name) {
            return false;
        }
        self.bytes += FIELD_OVERHEAD_BYTES + name.len() + value.len();
        self.by_name.insert(name, value);
        true
    }

    /// Removes a field; says whether it was there.
    pub(super) fn remove(&mut self, name: &[u8]) -> bool {
        let Some(value) = self.by_name.remove(name) else { return false };
        self.bytes -= FIELD_OVERHEAD_BYTES + name.len() + value.len();
        true
    }

    /// The fields, names ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.by_name.iter().map(|(name, value)| (&**name, value.as_slice()))
    }
}

/// Replaces the content of `target`. A much larger buffer is given back.
pub(super) fn overwrite(target: &mut Vec<u8>, bytes: &[u8]) {
    if target.capacity() > 2 * bytes.len() + 64 {
        *target = bytes.to_vec();
    } else {
        target.clear();
        target.extend_from_slice(bytes);
    }
}
