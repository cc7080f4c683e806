//! The commands that change the state.

use quorate_core::merkle::Hash;

use super::command::{Command, Condition, List, Pairs};
use super::decimal::{Digits, parse_integer};
use super::reply::encode;
use super::storage::{FoundFields, Storage};
use super::value::{Entry, FIELD_OVERHEAD_BYTES, Fields, Value, overwrite, place};
use super::{MAX_VALUE_BYTES, Refused};

/// Executes `command`, which is not read-only, and appends its reply; `at` is the place of the key that it is about, if it is about one. Has no
/// effect if it fails.
pub(super) fn write<M: Storage>(
    map: &mut M,
    command: &Command<'_>,
    at: &Hash,
    out: &mut Vec<u8>,
) -> Result<(), Refused> {
    match *command {
        Command::Set { key, value, condition: Condition::Always, get: false } => {
            map.assign(at, key, value);
            encode::ok(out);
        }
        Command::Set { key, value, condition, get } => {
            return set_if(map, (at, key), value, condition, get, out);
        }
        Command::GetDel(_) => return get_del(map, at, out),
        Command::MSet(pairs) => {
            for (key, value) in pairs.iter() {
                map.assign(&place(key), key, value);
            }
            encode::ok(out);
        }
        Command::Del(keys) => {
            let removed = keys.iter().filter(|key| map.remove(&place(key))).count();
            encode::count(out, removed);
        }
        Command::IncrBy { key, by } => return incr_by(map, (at, key), by, out),
        Command::Append { key, value } => return append(map, (at, key), value, out),
        Command::HSet { key, pairs } => return h_set(map, (at, key), pairs, out),
        Command::HDel { key, fields } => return h_del(map, (at, key), fields, out),
        Command::HIncrBy { key, field, by } => return h_incr_by(map, (at, key), field, by, out),
        Command::FlushAll => {
            map.clear();
            encode::ok(out);
        }
        // The rest is read-only and does not come here.
        _ => {}
    }
    Ok(())
}

/// A key, behind its place.
type At<'a> = (&'a Hash, &'a [u8]);

fn set_if<M: Storage>(
    map: &mut M,
    (place, key): At<'_>,
    value: &[u8],
    condition: Condition,
    get: bool,
    out: &mut Vec<u8>,
) -> Result<(), Refused> {
    if condition == Condition::Always && !get {
        encode::ok(out);
        map.assign(place, key, value);
        return Ok(());
    }
    let old = map.get(place);
    let applies = match condition {
        Condition::Always => true,
        Condition::Absent => old.is_none(),
        Condition::Present => old.is_some(),
    };
    match (get, old.as_ref().map(|old| &old.value)) {
        (true, Some(Value::Hash(_))) => return Err(Refused::WrongType),
        (true, Some(Value::Text(text))) => encode::bulk(out, text),
        (true, None) => encode::nil(out),
        (false, _) if applies => encode::ok(out),
        (false, _) => encode::nil(out),
    }
    drop(old);
    if applies {
        map.assign(place, key, value);
    }
    Ok(())
}

fn get_del<M: Storage>(map: &mut M, place: &Hash, out: &mut Vec<u8>) -> Result<(), Refused> {
    let Some(old) = map.text(place)? else {
        encode::nil(out);
        return Ok(());
    };
    encode::bulk(out, old);
    map.remove(place);
    Ok(())
}

fn incr_by<M: Storage>(
    map: &mut M,
    (place, key): At<'_>,
    by: i64,
    out: &mut Vec<u8>,
) -> Result<(), Refused> {
    let new = match map.get_mut(place) {
        None => {
            map.assign(place, key, Digits::of(by).as_bytes());
            by
        }
        Some(Value::Text(text)) => {
            let old = parse_integer(text).ok_or(Refused::NotAnInteger)?;
            let new = old.checked_add(by).ok_or(Refused::Overflow)?;
            overwrite(text, Digits::of(new).as_bytes());
            new
        }
        Some(Value::Hash(_)) => return Err(Refused::WrongType),
    };
    encode::integer(out, new);
    Ok(())
}

fn append<M: Storage>(
    map: &mut M,
    (place, key): At<'_>,
    value: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Refused> {
    let length = match map.get_mut(place) {
        None => {
            map.assign(place, key, value);
            value.len()
        }
        Some(Value::Text(text)) if text.len() + value.len() > MAX_VALUE_BYTES => {
            return Err(Refused::TextTooLong);
        }
        Some(Value::Text(text)) => {
            text.extend_from_slice(value);
            text.len()
        }
        Some(Value::Hash(_)) => return Err(Refused::WrongType),
    };
    encode::count(out, length);
    Ok(())
}

/// The hash under a key, for reading.
fn hash_at<'a, M: Storage>(map: &'a M, place: &Hash) -> Result<Option<FoundFields<'a>>, Refused> {
    map.get(place).map(|found| FoundFields::of(found).ok_or(Refused::WrongType)).transpose()
}

/// Changes the hash under a key, which is made if it is not there. What is there must be a hash.
fn change<T>(
    map: &mut impl Storage,
    place: &Hash,
    key: &[u8],
    change: impl FnOnce(&mut Fields) -> T,
) -> T {
    let empty = || Entry { key: key.into(), value: Value::Hash(Box::default()) };
    match map.get_or_insert_with(place, empty) {
        Value::Hash(fields) => change(fields),
        Value::Text(_) => unreachable!("the caller has checked that this is a hash"),
    }
}

/// By how many bytes setting a field would make a hash larger. A value that becomes shorter
/// counts 0, so that the sum over fields named twice is never too small.
fn growth(hash: Option<&Fields>, field: &[u8], value_bytes: usize) -> usize {
    match hash.and_then(|hash| hash.get(field)) {
        Some(old) => value_bytes.saturating_sub(old.len()),
        None => FIELD_OVERHEAD_BYTES + field.len() + value_bytes,
    }
}

fn h_set<M: Storage>(
    map: &mut M,
    (place, key): At<'_>,
    pairs: Pairs<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Refused> {
    let found = hash_at(map, place)?;
    let hash = found.as_ref().and_then(FoundFields::fields);
    let growth: usize = pairs.iter().map(|(field, value)| growth(hash, field, value.len())).sum();
    if hash.map_or(0, Fields::bytes) + growth > MAX_VALUE_BYTES {
        return Err(Refused::HashTooLong);
    }
    drop(found);
    let added = change(map, place, key, |fields| {
        pairs.iter().filter(|(field, value)| fields.set(field, value)).count()
    });
    encode::count(out, added);
    Ok(())
}

fn h_del<M: Storage>(
    map: &mut M,
    (place, key): At<'_>,
    names: List<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Refused> {
    let found = hash_at(map, place)?;
    let hash = found.as_ref().and_then(FoundFields::fields);
    if names.iter().all(|name| hash.and_then(|hash| hash.get(name)).is_none()) {
        encode::count(out, 0);
        return Ok(());
    }
    drop(found);
    let (removed, empty) = change(map, place, key, |fields| {
        let removed = names.iter().filter(|name| fields.remove(name)).count();
        (removed, fields.is_empty())
    });
    if empty {
        map.remove(place);
    }
    encode::count(out, removed);
    Ok(())
}

fn h_incr_by<M: Storage>(
    map: &mut M,
    (place, key): At<'_>,
    field: &[u8],
    by: i64,
    out: &mut Vec<u8>,
) -> Result<(), Refused> {
    let found = hash_at(map, place)?;
    let hash = found.as_ref().and_then(FoundFields::fields);
    let old = match hash.and_then(|hash| hash.get(field)) {
        None => 0,
        Some(text) => parse_integer(text).ok_or(Refused::FieldNotAnInteger)?,
    };
    let new = old.checked_add(by).ok_or(Refused::Overflow)?;
    let digits = Digits::of(new);
    let growth = growth(hash, field, digits.as_bytes().len());
    if hash.map_or(0, Fields::bytes) + growth > MAX_VALUE_BYTES {
        return Err(Refused::HashTooLong);
    }
    drop(found);
    change(map, place, key, |fields| fields.set(field, digits.as_bytes()));
    encode::integer(out, new);
    Ok(())
}
