//! The commands that leave the state as it is.

use quorate_merkle::Hash;

use super::command::{Command, List, Scan};
use super::decimal::Digits;
use super::glob::Pattern;
use super::meter::LOOK_STEPS;
use super::reply::encode;
use super::storage::{FoundHash, Listed, Storage};
use super::value::place;
use super::{MAX_KEYS_LISTED, MAX_REPLY_BYTES, MAX_SCAN_COUNT, Meter, Refused};

/// Appends the reply to `command`, which is read-only; `at` is the place of the key that it is
/// about, if it is about one.
pub(super) fn read<M: Storage>(
    map: &M,
    command: &Command<'_>,
    at: &Hash,
    meter: &mut Meter,
    out: &mut Vec<u8>,
) -> Result<(), Refused> {
    match *command {
        Command::Get(_) => {
            let text = map.text(at)?;
            meter.spend(text.map_or(0, <[u8]>::len))?;
            encode::maybe_bulk(out, text);
        }
        Command::MGet(keys) => return m_get(map, keys, meter, out),
        Command::Exists(keys) => {
            meter.look_up(keys.len())?;
            encode::count(out, keys.iter().filter(|key| map.contains(&place(key))).count());
        }
        Command::StrLen(_) => {
            encode::count(out, map.text(at)?.map_or(0, <[u8]>::len));
        }
        Command::HGet { field, .. } => {
            let value = field_of(map, at, field, meter)?;
            meter.spend(value.map_or(0, <[u8]>::len))?;
            encode::maybe_bulk(out, value);
        }
        Command::HGetAll(_) => return h_get_all(map.hash(at)?, meter, out),
        Command::HLen(_) => {
            let hash = map.hash(at)?;
            meter.walk(bytes_of(hash.as_ref()))?;
            encode::count(out, hash.map_or(0, |hash| hash.len()));
        }
        Command::HExists { field, .. } => {
            encode::count(out, usize::from(field_of(map, at, field, meter)?.is_some()));
        }
        Command::HMGet { fields, .. } => return h_m_get(map.hash(at)?, fields, meter, out),
        Command::Type(_) => {
            encode::status(out, map.kind(at).map_or("none", |kind| kind.name()));
        }
        Command::DbSize => {
            meter.count_keys()?;
            encode::count(out, map.count());
        }
        Command::Keys(pattern) => return keys(map, pattern, meter, out),
        Command::Scan(ref wanted) => return scan(map, wanted, meter, out),
        // The empty command has the empty reply. Writes do not come here.
        _ => {}
    }
    Ok(())
}

pub(super) fn bytes_of(hash: Option<&FoundHash<'_>>) -> usize {
    hash.map_or(0, FoundHash::bytes)
}

/// The value of one field of the hash under a key.
pub(super) fn field_of<'a, M: Storage>(
    map: &'a M,
    at: &Hash,
    field: &[u8],
    meter: &mut Meter,
) -> Result<Option<&'a [u8]>, Refused> {
    let hash = map.hash(at)?;
    meter.walk(bytes_of(hash.as_ref()))?;
    Ok(hash.and_then(|hash| hash.get(field)))
}

fn m_get<M: Storage>(
    map: &M,
    keys: List<'_>,
    meter: &mut Meter,
    out: &mut Vec<u8>,
) -> Result<(), Refused> {
    meter.look_up(keys.len())?;
    // As in Redis a hash is nothing here, not an error.
    let values = keys.iter().map(|key| map.text(&place(key)).ok().flatten());
    bulks(keys.len(), values, meter, out)
}

fn h_get_all(
    hash: Option<FoundHash<'_>>,
    meter: &mut Meter,
    out: &mut Vec<u8>,
) -> Result<(), Refused> {
    // Twice: once for their count.
    meter.walk(bytes_of(hash.as_ref()))?;
    meter.walk(bytes_of(hash.as_ref()))?;
    let count = 2 * hash.as_ref().map_or(0, FoundHash::len);
    let pairs = hash.iter().flat_map(FoundHash::iter);
    bulks(count, pairs.flat_map(|(name, value)| [Some(name), Some(value)]), meter, out)
}

fn h_m_get(
    hash: Option<FoundHash<'_>>,
    names: List<'_>,
    meter: &mut Meter,
    out: &mut Vec<u8>,
) -> Result<(), Refused> {
    meter.look_up(names.len())?;
    meter.read_hash(bytes_of(hash.as_ref()))?;
    let fields = hash.as_ref().map(FoundHash::read);
    let values = names.iter().map(|name| fields.as_ref().and_then(|fields| fields.get(name)));
    bulks(names.len(), values, meter, out)
}

/// Each of these values costs its bytes, before it is copied.
fn bulks<'a>(
    count: usize,
    values: impl Iterator<Item = Option<&'a [u8]>>,
    meter: &mut Meter,
    out: &mut Vec<u8>,
) -> Result<(), Refused> {
    let start = out.len();
    encode::array(out, count);
    for value in values {
        let length = value.map_or(0, <[u8]>::len);
        if out.len() - start + length > MAX_REPLY_BYTES {
            return Err(Refused::ReplyTooLong);
        }
        meter.spend(1 + length)?;
        encode::maybe_bulk(out, value);
    }
    Ok(())
}

fn keys<M: Storage>(
    map: &M,
    pattern: &[u8],
    meter: &mut Meter,
    out: &mut Vec<u8>,
) -> Result<(), Refused> {
    meter.count_keys()?;
    if map.count() > MAX_KEYS_LISTED {
        return Err(Refused::TooManyKeys);
    }
    let pattern = Pattern::new(pattern);
    let start = out.len();
    encode::array(out, 0);
    let mut count = 0;
    for (_, entry) in map.iter_from(&[0; 32]) {
        if look_at(&entry, Some(&pattern), meter).map_err(Refused::of_keys)? {
            if out.len() - start + entry.key.len() > MAX_REPLY_BYTES {
                return Err(Refused::TooManyKeys);
            }
            encode::bulk(out, entry.key);
            count += 1;
        }
    }
    encode::set_array_count(out, start, count);
    Ok(())
}

/// Whether a key matches. Costs the look at it, its copy, and each look of a part of the pattern at
/// one of its bytes.
fn look_at(
    entry: &Listed<'_>,
    pattern: Option<&Pattern>,
    meter: &mut Meter,
) -> Result<bool, Refused> {
    meter.spend(LOOK_STEPS + entry.key.len())?;
    match pattern {
        None => Ok(true),
        Some(pattern) => meter.spend_in(|steps| pattern.matches(entry.key, steps)),
    }
}

/// What a scan has come to when it begins with keys of another prefix: it may end there.
struct Resting {
    prefix: u64,
    out: usize,
    count: usize,
}

/// The reply is the next cursor in decimal, and the keys. Ends early where it has no more steps.
fn scan<M: Storage>(
    map: &M,
    wanted: &Scan<'_>,
    meter: &mut Meter,
    out: &mut Vec<u8>,
) -> Result<(), Refused> {
    let mut from = [0; 32];
    from[..8].copy_from_slice(&wanted.cursor.to_be_bytes());
    let limit = wanted.count.clamp(1, MAX_SCAN_COUNT);
    let pattern = wanted.pattern.map(Pattern::new);

    // The cursor comes first in the reply and is known last: the keys are gathered behind it.
    let start = out.len();
    encode::array(out, 0);
    let (mut count, mut looked, mut next) = (0, 0, None);
    let mut resting: Option<Resting> = None;
    // Without a resting place behind the first one the scan would not get on.
    let mut first = true;
    for (hash, entry) in map.iter_from(&from) {
        let prefix = u64::from_be_bytes(std::array::from_fn(|at| hash[at]));
        if resting.as_ref().is_none_or(|resting| resting.prefix != prefix) {
            first = resting.is_none();
            let full = looked >= limit || out.len() - start + entry.key.len() > MAX_REPLY_BYTES;
            if full && !first {
                next = Some(prefix);
                break;
            }
            resting = Some(Resting { prefix, out: out.len(), count });
        }
        looked += 1;
        let kind_fits = wanted.kind.is_none_or(|kind| kind == entry.kind);
        let pattern = pattern.as_ref().filter(|_| kind_fits);
        match (look_at(&entry, pattern, meter), &resting) {
            (Ok(matches), _) => {
                if matches && kind_fits {
                    encode::bulk(out, entry.key);
                    count += 1;
                }
            }
            (Err(_), Some(resting)) if !first => {
                out.truncate(resting.out);
                (count, next) = (resting.count, Some(resting.prefix));
                break;
            }
            (Err(refused), _) => return Err(refused),
        }
    }
    encode::set_array_count(out, start, count);

    let keys_end = out.len();
    encode::array(out, 2);
    encode::bulk(out, Digits::of_unsigned(next.unwrap_or(0)).as_bytes());
    let head_bytes = out.len() - keys_end;
    out[start..].rotate_right(head_bytes);
    Ok(())
}
