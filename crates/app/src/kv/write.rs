//! The commands that change the state.

use quorate_merkle::Hash;

use super::command::{Command, Condition, List, Pairs};
use super::decimal::{Digits, parse_integer};
use super::read::{bytes_of, field_of};
use super::reply::encode;
use super::storage::Storage;
use super::value::{
    Entry, FIELD_OVERHEAD_BYTES, Fields, Value, field_used_bytes, key_used_bytes, place,
};
use super::{MAX_VALUE_BYTES, Meter, Refused};

/// Executes `command`, which is not read-only, and appends its reply; `at` is the place of the key
/// that it is about, if it is about one. Has no effect if it fails.
pub(super) fn write<M: Storage>(
    map: &mut M,
    command: &Command<'_>,
    at: &Hash,
    meter: &mut Meter,
    out: &mut Vec<u8>,
) -> Result<(), Refused> {
    meter.wrote(1);
    match *command {
        Command::Set { key, value, condition: Condition::Always, get: false } => {
            meter.grow(key_used_bytes(key) + value.len() as u64)?;
            map.assign(at, key, value);
            encode::ok(out);
        }
        Command::Set { key, value, condition, get } => {
            return set_if(map, (at, key), value, (condition, get), meter, out);
        }
        Command::GetDel(_) => return get_del(map, at, meter, out),
        Command::MSet(pairs) => {
            meter.look_up(pairs.len())?;
            let taken = pairs.iter().map(|(key, value)| key_used_bytes(key) + value.len() as u64);
            meter.grow(taken.sum())?;
            meter.wrote(pairs.len());
            for (key, value) in pairs.iter() {
                map.assign(&place(key), key, value);
            }
            encode::ok(out);
        }
        Command::Del(keys) => {
            meter.look_up(keys.len())?;
            meter.wrote(keys.len());
            let removed = keys.iter().filter(|key| map.remove(&place(key))).count();
            encode::count(out, removed);
        }
        Command::IncrBy { key, by } => return incr_by(map, (at, key), by, meter, out),
        Command::Append { key, value } => return append(map, (at, key), value, meter, out),
        Command::HSet { key, pairs } => return h_set(map, (at, key), pairs, meter, out),
        Command::HDel { fields, .. } => return h_del(map, at, fields, meter, out),
        Command::HIncrBy { key, field, by } => {
            return h_incr_by(map, (at, key), field, by, meter, out);
        }
        Command::FlushAll => {
            map.clear();
            meter.empty_state();
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
    (condition, get): (Condition, bool),
    meter: &mut Meter,
    out: &mut Vec<u8>,
) -> Result<(), Refused> {
    let old = if get { map.text(place)? } else { None };
    let applies = match condition {
        Condition::Always => true,
        Condition::Absent => !map.contains(place),
        Condition::Present => map.contains(place),
    };
    meter.spend(old.map_or(0, <[u8]>::len))?;
    if applies {
        meter.grow(key_used_bytes(key) + value.len() as u64)?;
    }
    match get {
        true => encode::maybe_bulk(out, old),
        false if applies => encode::ok(out),
        false => encode::nil(out),
    }
    if applies {
        map.assign(place, key, value);
    }
    Ok(())
}

fn get_del<M: Storage>(
    map: &mut M,
    place: &Hash,
    meter: &mut Meter,
    out: &mut Vec<u8>,
) -> Result<(), Refused> {
    let Some(old) = map.text(place)? else {
        encode::nil(out);
        return Ok(());
    };
    meter.spend(old.len())?;
    encode::bulk(out, old);
    map.remove(place);
    Ok(())
}

fn incr_by<M: Storage>(
    map: &mut M,
    (place, key): At<'_>,
    by: i64,
    meter: &mut Meter,
    out: &mut Vec<u8>,
) -> Result<(), Refused> {
    let old = match map.text(place)? {
        None => 0,
        Some(text) => parse_integer(text).ok_or(Refused::NotAnInteger)?,
    };
    let new = old.checked_add(by).ok_or(Refused::Overflow)?;
    let digits = Digits::of(new);
    meter.grow(key_used_bytes(key) + digits.as_bytes().len() as u64)?;
    map.assign(place, key, digits.as_bytes());
    encode::integer(out, new);
    Ok(())
}

fn append<M: Storage>(
    map: &mut M,
    (place, key): At<'_>,
    value: &[u8],
    meter: &mut Meter,
    out: &mut Vec<u8>,
) -> Result<(), Refused> {
    let old = map.text(place)?.map(<[u8]>::len);
    let length = old.unwrap_or(0) + value.len();
    if length > MAX_VALUE_BYTES {
        return Err(Refused::TextTooLong);
    }
    if old.is_none() {
        meter.grow(key_used_bytes(key) + value.len() as u64)?;
        map.assign(place, key, value);
    } else {
        meter.change_text(place, length)?;
        meter.grow(value.len() as u64)?;
        map.change(place, |old| {
            if let Value::Text(text) = old {
                text.extend_from_slice(value);
            }
        });
    }
    encode::count(out, length);
    Ok(())
}

/// By how many bytes setting a field would make a hash larger. A value that becomes shorter
/// counts 0, so that the sum over fields named twice is never too small.
fn growth(old: Option<&[u8]>, field: &[u8], value_bytes: usize) -> usize {
    match old {
        Some(old) => value_bytes.saturating_sub(old.len()),
        None => FIELD_OVERHEAD_BYTES + field.len() + value_bytes,
    }
}

fn set_fields(fields: &mut Fields, pairs: Pairs<'_>) -> Result<usize, Refused> {
    let grown = pairs.iter().map(|(field, value)| growth(fields.get(field), field, value.len()));
    if fields.bytes() + grown.sum::<usize>() > MAX_VALUE_BYTES {
        return Err(Refused::HashTooLong);
    }
    Ok(pairs.iter().filter(|(field, value)| fields.set(field, value)).count())
}

/// Changes the hash under a key. One that is not there is made, unless the change fails.
fn change_or_make<M: Storage, T>(
    map: &mut M,
    (place, key): At<'_>,
    change: impl FnOnce(&mut Fields) -> Result<T, Refused>,
) -> Result<T, Refused> {
    if map.contains(place) {
        let changed = map.change(place, |value| match value {
            Value::Hash(fields) => change(fields),
            Value::Text(_) => Err(Refused::WrongType),
        });
        return changed.unwrap_or(Err(Refused::WrongType));
    }
    let mut fields = Fields::default();
    let result = change(&mut fields)?;
    map.insert(place, Entry { key: key.into(), value: Value::Hash(Box::new(fields)) });
    Ok(result)
}

fn h_set<M: Storage>(
    map: &mut M,
    (place, key): At<'_>,
    pairs: Pairs<'_>,
    meter: &mut Meter,
    out: &mut Vec<u8>,
) -> Result<(), Refused> {
    let hash = map.hash(place)?;
    meter.change_hash(place, bytes_of(hash.as_ref()))?;
    meter.look_up(pairs.len())?;
    let new = if hash.is_none() { key_used_bytes(key) } else { 0 };
    let taken = pairs.iter().map(|(field, value)| field_used_bytes(field, value));
    meter.grow(new + taken.sum::<u64>())?;
    let added = change_or_make(map, (place, key), |fields| set_fields(fields, pairs))?;
    encode::count(out, added);
    Ok(())
}

fn h_del<M: Storage>(
    map: &mut M,
    place: &Hash,
    names: List<'_>,
    meter: &mut Meter,
    out: &mut Vec<u8>,
) -> Result<(), Refused> {
    let Some(hash) = map.hash(place)? else {
        encode::count(out, 0);
        return Ok(());
    };
    meter.change_hash(place, hash.bytes())?;
    meter.look_up(names.len())?;
    let remove = |value: &mut Value| match value {
        Value::Hash(fields) => {
            let removed = names.iter().filter(|name| fields.remove(name)).count();
            (removed, fields.is_empty())
        }
        Value::Text(_) => (0, false),
    };
    let (removed, empty) = map.change(place, remove).unwrap_or_default();
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
    meter: &mut Meter,
    out: &mut Vec<u8>,
) -> Result<(), Refused> {
    let old = match field_of(map, place, field, meter)? {
        None => 0,
        Some(text) => parse_integer(text).ok_or(Refused::FieldNotAnInteger)?,
    };
    let new = old.checked_add(by).ok_or(Refused::Overflow)?;
    let digits = Digits::of(new);
    let value = digits.as_bytes();
    let hash = map.hash(place)?;
    meter.change_hash(place, bytes_of(hash.as_ref()))?;
    let made = if hash.is_none() { key_used_bytes(key) } else { 0 };
    meter.grow(made + field_used_bytes(field, value))?;
    change_or_make(map, (place, key), |fields| {
        let growth = growth(fields.get(field), field, value.len());
        if fields.bytes() + growth > MAX_VALUE_BYTES {
            return Err(Refused::HashTooLong);
        }
        fields.set(field, value);
        Ok(())
    })?;
    encode::integer(out, new);
    Ok(())
}
