//! The commands that change the state.

use quorate_merkle::Hash;

use super::command::{Command, Condition, List, Pairs};
use super::decimal::{Digits, parse_integer};
use super::read::{bytes_of, field_of};
use super::recorded::{At, Due, Recorded};
use super::reply::encode;
use super::storage::{FoundHash, Storage};
use super::value::{FIELD_OVERHEAD_BYTES, Fields, field_used_bytes, key_used_bytes, place};
use super::{MAX_VALUE_BYTES, Meter, Refused};

/// Executes `command`, which is not read-only, and appends its reply; `at` is the place of the key
/// that it is about, if it is about one. Has no effect if it fails.
pub(super) fn write<M: Storage>(
    to: &mut Recorded<'_, M>,
    command: &Command<'_>,
    at: &Hash,
    meter: &mut Meter,
    out: &mut Vec<u8>,
) -> Result<(), Refused> {
    meter.wrote(1);
    match *command {
        Command::Set { key, value, condition: Condition::Always, get: false } => {
            let bytes = key_used_bytes(key) + value.len() as u64;
            to.grow(meter, bytes, Due::Whole(at, bytes))?;
            to.assign((at, key), value);
            encode::ok(out);
        }
        Command::Set { key, value, condition, get } => {
            return set_if(to, (at, key), value, (condition, get), meter, out);
        }
        Command::GetDel(key) => return get_del(to, (at, key), meter, out),
        Command::MSet(pairs) => {
            meter.look_up(pairs.len())?;
            to.grow_all(meter, pairs)?;
            meter.wrote(pairs.len());
            for (key, value) in pairs.iter() {
                to.assign((&place(key), key), value);
            }
            encode::ok(out);
        }
        Command::Del(keys) => {
            meter.look_up(keys.len())?;
            meter.wrote(keys.len());
            let removed = keys.iter().filter(|key| to.remove_key(key)).count();
            encode::count(out, removed);
        }
        Command::IncrBy { key, by } => return incr_by(to, (at, key), by, meter, out),
        Command::Append { key, value } => return append(to, (at, key), value, meter, out),
        Command::HSet { key, pairs } => return h_set(to, (at, key), pairs, meter, out),
        Command::HDel { key, fields } => return h_del(to, (at, key), fields, meter, out),
        Command::HIncrBy { key, field, by } => {
            return h_incr_by(to, (at, key), field, by, meter, out);
        }
        Command::FlushAll => {
            to.clear();
            meter.empty_state();
            encode::ok(out);
        }
        // The rest is read-only and does not come here.
        _ => {}
    }
    Ok(())
}

fn set_if<M: Storage>(
    to: &mut Recorded<'_, M>,
    (place, key): At<'_>,
    value: &[u8],
    (condition, get): (Condition, bool),
    meter: &mut Meter,
    out: &mut Vec<u8>,
) -> Result<(), Refused> {
    let old = if get { to.map.text(place)? } else { None };
    let applies = match condition {
        Condition::Always => true,
        Condition::Absent => !to.map.contains(place),
        Condition::Present => to.map.contains(place),
    };
    meter.spend(old.map_or(0, <[u8]>::len))?;
    match get {
        true => encode::maybe_bulk(out, old),
        false if applies => encode::ok(out),
        false => encode::nil(out),
    }
    if applies {
        let bytes = key_used_bytes(key) + value.len() as u64;
        to.grow(meter, bytes, Due::Whole(place, bytes))?;
        to.assign((place, key), value);
    }
    Ok(())
}

fn get_del<M: Storage>(
    to: &mut Recorded<'_, M>,
    at: At<'_>,
    meter: &mut Meter,
    out: &mut Vec<u8>,
) -> Result<(), Refused> {
    let Some(old) = to.map.text(at.0)? else {
        encode::nil(out);
        return Ok(());
    };
    meter.spend(old.len())?;
    encode::bulk(out, old);
    to.remove(at);
    Ok(())
}

fn incr_by<M: Storage>(
    to: &mut Recorded<'_, M>,
    (place, key): At<'_>,
    by: i64,
    meter: &mut Meter,
    out: &mut Vec<u8>,
) -> Result<(), Refused> {
    let old = match to.map.text(place)? {
        None => 0,
        Some(text) => parse_integer(text).ok_or(Refused::NotAnInteger)?,
    };
    let new = old.checked_add(by).ok_or(Refused::Overflow)?;
    let digits = Digits::of(new);
    let bytes = key_used_bytes(key) + digits.as_bytes().len() as u64;
    to.grow(meter, bytes, Due::Whole(place, bytes))?;
    to.assign((place, key), digits.as_bytes());
    encode::integer(out, new);
    Ok(())
}

fn append<M: Storage>(
    to: &mut Recorded<'_, M>,
    (place, key): At<'_>,
    value: &[u8],
    meter: &mut Meter,
    out: &mut Vec<u8>,
) -> Result<(), Refused> {
    let old = to.map.text(place)?.map(<[u8]>::len);
    let length = old.unwrap_or(0) + value.len();
    if length > MAX_VALUE_BYTES {
        return Err(Refused::TextTooLong);
    }
    if old.is_none() {
        let bytes = key_used_bytes(key) + value.len() as u64;
        to.grow(meter, bytes, Due::Whole(place, bytes))?;
        to.assign((place, key), value);
    } else {
        meter.change_text(place, length)?;
        let bytes = value.len() as u64;
        to.grow(meter, bytes, Due::More(place, bytes))?;
        to.append((place, key), value);
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

/// How many bytes more of the state's limit a hash takes with these fields, at most.
fn added_by(
    hash: Option<&FoundHash<'_>>,
    pairs: Pairs<'_>,
    meter: &mut Meter,
) -> Result<u64, Refused> {
    meter.read_hash(bytes_of(hash))?;
    let fields = hash.map(FoundHash::read);
    let old = |field: &[u8]| fields.as_ref()?.get(field);
    Ok(pairs.iter().map(|(field, value)| added(old(field), field, value)).sum())
}

/// The bytes that one field adds, given its former value.
fn added(old: Option<&[u8]>, field: &[u8], value: &[u8]) -> u64 {
    match old {
        Some(old) => value.len().saturating_sub(old.len()) as u64,
        None => field_used_bytes(field, value),
    }
}

fn h_set<M: Storage>(
    to: &mut Recorded<'_, M>,
    (place, key): At<'_>,
    pairs: Pairs<'_>,
    meter: &mut Meter,
    out: &mut Vec<u8>,
) -> Result<(), Refused> {
    let hash = to.map.hash(place)?;
    meter.change_hash(place, bytes_of(hash.as_ref()))?;
    meter.look_up(pairs.len())?;
    let new = if hash.is_none() { key_used_bytes(key) } else { 0 };
    let taken = pairs.iter().map(|(field, value)| field_used_bytes(field, value));
    // A quota is taken by what is added, a look at each field of the hash being paid for.
    let more = match to.payer {
        Some(_) => new + added_by(hash.as_ref(), pairs, meter)?,
        None => 0,
    };
    to.grow(meter, new + taken.sum::<u64>(), Due::More(place, more))?;
    let change = |fields: &mut Fields| set_fields(fields, pairs);
    let added = to.set_fields((place, key), (pairs.len(), pairs.iter()), change)?;
    encode::count(out, added);
    Ok(())
}

fn h_del<M: Storage>(
    to: &mut Recorded<'_, M>,
    at: At<'_>,
    names: List<'_>,
    meter: &mut Meter,
    out: &mut Vec<u8>,
) -> Result<(), Refused> {
    let Some(hash) = to.map.hash(at.0)? else {
        encode::count(out, 0);
        return Ok(());
    };
    meter.change_hash(at.0, hash.bytes())?;
    meter.look_up(names.len())?;
    encode::count(out, to.remove_fields(at, names.iter()));
    Ok(())
}

fn h_incr_by<M: Storage>(
    to: &mut Recorded<'_, M>,
    (place, key): At<'_>,
    field: &[u8],
    by: i64,
    meter: &mut Meter,
    out: &mut Vec<u8>,
) -> Result<(), Refused> {
    let text = field_of(to.map, place, field, meter)?;
    let old = match text {
        None => 0,
        Some(text) => parse_integer(text).ok_or(Refused::FieldNotAnInteger)?,
    };
    let new = old.checked_add(by).ok_or(Refused::Overflow)?;
    let digits = Digits::of(new);
    let value = digits.as_bytes();
    let hash = to.map.hash(place)?;
    meter.change_hash(place, bytes_of(hash.as_ref()))?;
    let made = if hash.is_none() { key_used_bytes(key) } else { 0 };
    let more = made + added(text, field, value);
    to.grow(meter, made + field_used_bytes(field, value), Due::More(place, more))?;
    let one = std::iter::once((field, value));
    to.set_fields((place, key), (1, one), |fields| {
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
