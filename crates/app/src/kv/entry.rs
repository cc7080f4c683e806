//! Entries as the lazy-trie and snapshots have them.
//!
//! Length of the key u32, little-endian ‖ key ‖ kind u8 (1 a string, 2 a hash) ‖ the string, or
//! each field's name and value behind their lengths (u32), names ascending. What the map in memory
//! hashes of a value stands here as one piece, so that [`digests`] need not take an entry apart.

use quorate_merkle::Hash;

use super::command::ValueKind;
use super::storage::OtherKind;
use super::value::{Entry, put_byte_string, split_byte_string};
use super::value::{
    key_used_bytes, read_value, text_digests, value_digest, write_text, write_value, written_hash,
    written_kind, written_text, written_used_bytes,
};

/// Appends an entry.
pub(super) fn encode(out: &mut Vec<u8>, entry: &Entry) {
    put_byte_string(out, &entry.key);
    write_value(out, &entry.value);
}

/// Appends the entry of a string.
pub(super) fn encode_text(out: &mut Vec<u8>, key: &[u8], text: &[u8]) {
    put_byte_string(out, key);
    write_text(out, text);
}

/// The entry of these bytes, if they are one.
pub(super) fn decode(bytes: &[u8]) -> Option<Entry> {
    let (key, written) = split_byte_string(bytes)?;
    Some(Entry { key: key.into(), value: read_value(written)? })
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

/// Bytes of the state's limit that the entry of these bytes takes.
pub(super) fn used_bytes(bytes: &[u8]) -> u64 {
    let entry = split_byte_string(bytes);
    entry.map_or(0, |(key, written)| key_used_bytes(key) + written_used_bytes(written))
}

/// The digests of the values of entries, as the map in memory has them. Of what is no entry:
/// anything.
pub(super) fn digests(entries: &[&[u8]], digests: &mut [Hash]) {
    let values = || entries.iter().map(|entry| written_value(entry).unwrap_or_default());
    let texts: Vec<&[u8]> = values().map_while(|value| written_text(value)?.ok()).collect();
    if texts.len() == entries.len() {
        return text_digests(&texts, digests);
    }
    for (value, digest) in values().zip(digests) {
        *digest = value_digest(value).unwrap_or_default();
    }
}
