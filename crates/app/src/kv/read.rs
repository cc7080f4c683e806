//! The commands that leave the state as it is.

use quorate_core::merkle::Hash;

use super::command::{Command, List, Scan};
use super::decimal::Digits;
use super::glob::matches;
use super::reply::encode;
use super::storage::{FoundFields, Storage};
use super::value::{Fields, place};
use super::{Allowance, MAX_KEYS_LISTED, MAX_REPLY_BYTES, MAX_SCAN_COUNT, Refused};

/// What looking at a key costs beside its bytes.
const LOOK_BYTES: usize = 64;

/// Appends the reply to `command`, which is read-only; `at` is the place of the key that it is about, if it is about one.
pub(super) fn read<M: Storage>(
    map: &M,
    command: &Command<'_>,
    at: &Hash,
    allowance: &mut Allowance,
    out: &mut Vec<u8>,
) -> Result<(), Refused> {
    match *command {
        Command::Get(_) => {
            encode::maybe_bulk(out, map.text(at)?);
        }
        Command::MGet(keys) => return m_get(map, keys, out),
        Command::Exists(keys) => {
            encode::count(out, keys.iter().filter(|key| map.contains(&place(key))).count());
        }
        Command::StrLen(_) => {
            encode::count(out, map.text(at)?.map_or(0, <[u8]>::len));
        }
        Command::HGet { field, .. } => {
            let hash = hash(map, at)?;
            encode::maybe_bulk(out, fields_of(&hash).and_then(|fields| fields.get(field)));
        }
        Command::HGetAll(_) => return h_get_all(fields_of(&hash(map, at)?), out),
        Command::HLen(_) => {
            encode::count(out, fields_of(&hash(map, at)?).map_or(0, Fields::len));
        }
        Command::HExists { field, .. } => {
            let hash = hash(map, at)?;
            let found = fields_of(&hash).is_some_and(|fields| fields.get(field).is_some());
            encode::count(out, usize::from(found));
        }
        Command::HMGet { fields, .. } => {
            let hash = hash(map, at)?;
            let hash = fields_of(&hash);
            let values = fields.iter().map(|field| hash.and_then(|hash| hash.get(field)));
            return bulks(fields.len(), values, out);
        }
        Command::Type(_) => {
            encode::status(out, map.get(at).map_or("none", |entry| entry.value.kind().name()));
        }
        Command::DbSize => encode::count(out, map.count()),
        Command::Keys(pattern) => return keys(map, pattern, allowance, out),
        Command::Scan(ref wanted) => scan(map, wanted, allowance, out),
        // The empty command has the empty reply. Writes do not come here.
        _ => {}
    }
    Ok(())
}

fn hash<'a, M: Storage>(map: &'a M, at: &Hash) -> Result<Option<FoundFields<'a>>, Refused> {
    map.get(at).map(|found| FoundFields::of(found).ok_or(Refused::WrongType)).transpose()
}

fn fields_of<'a>(found: &'a Option<FoundFields<'_>>) -> Option<&'a Fields> {
    found.as_ref().and_then(FoundFields::fields)
}

fn m_get<M: Storage>(map: &M, keys: List<'_>, out: &mut Vec<u8>) -> Result<(), Refused> {
    // As in Redis a hash is nothing here, not an error.
    bulks(keys.len(), keys.iter().map(|key| map.text(&place(key)).ok().flatten()), out)
}

fn h_get_all(fields: Option<&Fields>, out: &mut Vec<u8>) -> Result<(), Refused> {
    let pairs = fields.into_iter().flat_map(Fields::iter);
    let count = 2 * fields.map_or(0, Fields::len);
    bulks(count, pairs.flat_map(|(name, value)| [Some(name), Some(value)]), out)
}

fn bulks<V: AsRef<[u8]>>(
    count: usize,
    values: impl Iterator<Item = Option<V>>,
    out: &mut Vec<u8>,
) -> Result<(), Refused> {
    let start = out.len();
    encode::array(out, count);
    for value in values {
        let value = value.as_ref().map(AsRef::as_ref);
        if out.len() - start + value.map_or(0, <[u8]>::len) > MAX_REPLY_BYTES {
            return Err(Refused::ReplyTooLong);
        }
        encode::maybe_bulk(out, value);
    }
    Ok(())
}

fn keys<M: Storage>(
    map: &M,
    pattern: &[u8],
    allowance: &mut Allowance,
    out: &mut Vec<u8>,
) -> Result<(), Refused> {
    if map.count() > MAX_KEYS_LISTED {
        return Err(Refused::TooManyKeys);
    }
    let start = out.len();
    encode::array(out, 0);
    let mut count = 0;
    for (_, entry) in map.iter_from(&[0; 32]) {
        allowance.spend(LOOK_BYTES + entry.key.len());
        if matches(pattern, &entry.key) {
            if out.len() - start + entry.key.len() > MAX_REPLY_BYTES {
                return Err(Refused::TooManyKeys);
            }
            encode::bulk(out, &entry.key);
            count += 1;
        }
    }
    encode::set_array_count(out, start, count);
    Ok(())
}

/// The reply is the next cursor in decimal, and the keys.
fn scan<M: Storage>(map: &M, wanted: &Scan<'_>, allowance: &mut Allowance, out: &mut Vec<u8>) {
    let mut from = [0; 32];
    from[..8].copy_from_slice(&wanted.cursor.to_be_bytes());
    let limit = wanted.count.clamp(1, MAX_SCAN_COUNT);

    // The cursor comes first in the reply and is known last: the keys are gathered behind it.
    let start = out.len();
    encode::array(out, 0);
    let (mut count, mut looked, mut last, mut next) = (0, 0, None, None);
    for (hash, entry) in map.iter_from(&from) {
        let prefix = u64::from_be_bytes(std::array::from_fn(|at| hash[at]));
        let full = looked >= limit || out.len() - start + entry.key.len() > MAX_REPLY_BYTES;
        if full && last.is_some_and(|last| last != prefix) {
            next = Some(prefix);
            break;
        }
        (looked, last) = (looked + 1, Some(prefix));
        allowance.spend(LOOK_BYTES + entry.key.len());
        let kind_fits = wanted.kind.is_none_or(|kind| kind == entry.value.kind());
        if kind_fits && wanted.pattern.is_none_or(|pattern| matches(pattern, &entry.key)) {
            encode::bulk(out, &entry.key);
            count += 1;
        }
    }
    encode::set_array_count(out, start, count);

    let keys_end = out.len();
    encode::array(out, 2);
    encode::bulk(out, Digits::of_unsigned(next.unwrap_or(0)).as_bytes());
    let head_bytes = out.len() - keys_end;
    out[start..].rotate_right(head_bytes);
}
