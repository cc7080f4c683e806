//! Entries as the lazy-trie has them.
//!
//! Length of the key u32, little-endian ‖ key ‖ kind u8 (1 a string, 2 a hash) ‖ the string, or each
//! field's name and value behind their lengths (u32), names ascending. What the map in memory hashes of a
//! value stands here as one piece, so that [`digest`] need not take an entry apart.

use quorate_core::merkle::Hash;

use super::super::storage::NoText;
use super::super::value::{Entry, Fields, Value, fields_digest, text_digest};

const TEXT: u8 = 1;
const HASH: u8 = 2;

/// Appends an entry.
pub(super) fn encode(out: &mut Vec<u8>, entry: &Entry) {
    byte_string(out, &entry.key);
    match &entry.value {
        Value::Text(text) => {
            out.push(TEXT);
            out.extend_from_slice(text);
        }
        Value::Hash(fields) => {
            out.push(HASH);
            for (name, value) in fields.iter() {
                byte_string(out, name);
                byte_string(out, value);
            }
        }
    }
}

fn byte_string(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// The entry of these bytes, if they are one.
pub(super) fn decode(bytes: &[u8]) -> Option<Entry> {
    let (key, rest) = split_byte_string(bytes)?;
    let (kind, mut rest) = rest.split_first()?;
    let value = match *kind {
        TEXT => Value::Text(rest.to_vec()),
        HASH => {
            let mut fields = Fields::default();
            while !rest.is_empty() {
                let (name, behind) = split_byte_string(rest)?;
                let (value, behind) = split_byte_string(behind)?;
                if !fields.push(name.into(), value.to_vec()) {
                    return None;
                }
                rest = behind;
            }
            Value::Hash(Box::new(fields))
        }
        _ => return None,
    };
    Some(Entry { key: key.into(), value })
}

/// The string of these bytes, without a copy; `None` if they are no entry.
pub(super) fn text(bytes: &[u8]) -> Option<Result<&[u8], NoText>> {
    let (_, rest) = split_byte_string(bytes)?;
    match rest.split_first()? {
        (&TEXT, text) => Some(Ok(text)),
        (&HASH, _) => Some(Err(NoText)),
        _ => None,
    }
}

/// The digest of the value, as the map in memory has it. Of what is no entry: anything.
pub(super) fn digest(bytes: &[u8]) -> Hash {
    match split_byte_string(bytes).and_then(|(_, rest)| rest.split_first()) {
        Some((&TEXT, text)) => text_digest(text),
        Some((_, fields)) => fields_digest(fields),
        None => Hash::default(),
    }
}

fn split_byte_string(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}
