//! Entries as the lazy-trie and snapshots have them.
//!
//! Length of the key u32, little-endian ‖ key ‖ kind u8 (1 a string, 2 a hash; 3 and 4 the same
//! with an owner) ‖ the owner's key 32, if it has one ‖ the string, or each field's name and value
//! behind their lengths (u32), names ascending. What the map in memory hashes of a value stands
//! here as one piece, so that [`digests`] need not take an entry apart.

use quorate_core::base::crypto::PublicKey;
use quorate_merkle::Hash;

use super::command::ValueKind;
use super::storage::OtherKind;
use super::value::{Entry, Held, put_byte_string, split_byte_string};
use super::value::{
    key_used_bytes, read_value, text_digests, value_digest, write_text, write_value,
    written_free_text, written_hash, written_kind, written_owner, written_text, written_used_bytes,
};

/// Appends an entry.
pub(super) fn encode(out: &mut Vec<u8>, entry: &Entry) {
    put_byte_string(out, &entry.key);
    write_value(out, &entry.value, entry.owner.as_deref());
}

/// Appends the entry of a string.
pub(super) fn encode_text(out: &mut Vec<u8>, key: &[u8], text: &[u8], owner: Option<&PublicKey>) {
    put_byte_string(out, key);
    write_text(out, text, owner);
}

/// The entry of these bytes, if they are one.
pub(super) fn decode(bytes: &[u8]) -> Option<Entry> {
    let (key, written) = split_byte_string(bytes)?;
    let (value, owner) = read_value(written)?;
    Some(Entry { key: key.into(), value, owner: owner.map(Box::new) })
}

/// The value in the entry of these bytes, as it is written.
pub(super) fn written_value(bytes: &[u8]) -> Option<&[u8]> {
    split_byte_string(bytes).map(|(_, written)| written)
}

/// The string in the entry of these bytes, without a copy; `None` if they are no entry.
pub(super) fn text(bytes: &[u8]) -> Option<Result<&[u8], OtherKind>> {
    written_value(bytes).and_then(written_text)
}

/// The hash in the entry of these bytes, behind its kind, without a copy; `None` if they are no
/// entry.
pub(super) fn hash(bytes: &[u8]) -> Option<Result<&[u8], OtherKind>> {
    written_value(bytes).and_then(written_hash)
}

/// The key in the entry of these bytes, and the kind of its value; `None` if they are no entry.
pub(super) fn listed(bytes: &[u8]) -> Option<(&[u8], ValueKind)> {
    let (key, written) = split_byte_string(bytes)?;
    Some((key, written_kind(written)?))
}

/// What the entry of these bytes takes, and who is its owner; nothing if they are none.
pub(super) fn held(bytes: &[u8]) -> Held {
    let Some((key, written)) = split_byte_string(bytes) else { return Held::default() };
    let used_bytes = key_used_bytes(key) + written_used_bytes(written);
    Held { used_bytes, owner: written_owner(written) }
}

/// What this key owns of the entry of these bytes. Fields are walked over only if it is the owner.
pub(super) fn owned_by(bytes: &[u8], key: &PublicKey) -> u64 {
    let is_own = |(_, written): &(&[u8], &[u8])| written_owner(written).as_ref() == Some(key);
    let own = split_byte_string(bytes).filter(is_own);
    own.map_or(0, |(key, written)| key_used_bytes(key) + written_used_bytes(written))
}

/// The digests of the values of entries, as the map in memory has them. Of what is no entry:
/// anything.
pub(super) fn digests(entries: &[&[u8]], digests: &mut [Hash]) {
    let values = || entries.iter().map(|entry| written_value(entry).unwrap_or_default());
    let texts: Vec<&[u8]> = values().map_while(written_free_text).collect();
    if texts.len() == entries.len() {
        return text_digests(&texts, digests);
    }
    for (value, digest) in values().zip(digests) {
        *digest = value_digest(value).unwrap_or_default();
    }
}
