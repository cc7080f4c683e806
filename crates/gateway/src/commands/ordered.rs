//! Commands that the cluster orders: from Redis's arguments to the store's encoding.

use std::borrow::Cow;

use quorate_app::kv::command::encode;
use quorate_app::kv::decimal::parse_integer;
use quorate_app::kv::{
    Condition, MAX_KEY_BYTES, MAX_PATTERN_BYTES, MAX_VALUE_BYTES, Scan, ValueKind,
};

use super::{Complaint, NOT_AN_INTEGER, SYNTAX};
use crate::reply::Shape;
use crate::resp::Args;

type Encoded = Result<Shape, Complaint>;
type Out = Vec<u8>;

fn key(args: Args<'_>) -> Result<&[u8], Complaint> {
    check(args.get(1), "key", MAX_KEY_BYTES)
}

fn value(bytes: &[u8]) -> Result<&[u8], Complaint> {
    check(bytes, "value", MAX_VALUE_BYTES)
}

/// The store would refuse it as well, but only after it was ordered.
fn check<'a>(bytes: &'a [u8], name: &str, cap: usize) -> Result<&'a [u8], Complaint> {
    match bytes.len() <= cap {
        true => Ok(bytes),
        false => Err(Cow::Owned(format!("ERR {name} is longer than {cap} bytes"))),
    }
}

fn keys(args: Args<'_>) -> Result<(), Complaint> {
    args.from(1).try_for_each(|key| check(key, "key", MAX_KEY_BYTES).map(drop))
}

/// Checks names and values in turn, from `first` on.
fn pairs(args: Args<'_>, first: usize, name: &str, cap: usize) -> Result<(), Complaint> {
    if !(args.len() - first).is_multiple_of(2) {
        let command = String::from_utf8_lossy(args.get(0)).to_ascii_lowercase();
        let complaint = format!("ERR wrong number of arguments for '{command}' command");
        return Err(Cow::Owned(complaint));
    }
    for (at, bytes) in args.from(first).enumerate() {
        match at % 2 {
            0 => check(bytes, name, cap)?,
            _ => value(bytes)?,
        };
    }
    Ok(())
}

fn integer(bytes: &[u8]) -> Result<i64, Complaint> {
    parse_integer(bytes).ok_or(NOT_AN_INTEGER)
}

macro_rules! of_key {
    ($($name:ident)*) => {$(
        pub(super) fn $name(args: Args<'_>, out: &mut Out) -> Encoded {
            encode::$name(out, key(args)?);
            Ok(Shape::Plain)
        }
    )*};
}

of_key!(get get_del str_len h_len kind);

macro_rules! of_keys {
    ($($name:ident)*) => {$(
        pub(super) fn $name(args: Args<'_>, out: &mut Out) -> Encoded {
            keys(args)?;
            encode::$name(out, args.from(1));
            Ok(Shape::Plain)
        }
    )*};
}

of_keys!(m_get del exists);

macro_rules! of_fields {
    ($($name:ident)*) => {$(
        pub(super) fn $name(args: Args<'_>, out: &mut Out) -> Encoded {
            for field in args.from(2) {
                check(field, "field", MAX_VALUE_BYTES)?;
            }
            encode::$name(out, key(args)?, args.from(2));
            Ok(Shape::Plain)
        }
    )*};
}

of_fields!(h_del h_m_get);

pub(super) fn set(args: Args<'_>, out: &mut Out) -> Encoded {
    let (mut condition, mut get) = (Condition::Always, false);
    for at in 3..args.len() {
        match () {
            () if args.is(at, "nx") && condition != Condition::Present => {
                condition = Condition::Absent;
            }
            () if args.is(at, "xx") && condition != Condition::Absent => {
                condition = Condition::Present;
            }
            () if args.is(at, "get") => get = true,
            () if ["ex", "px", "exat", "pxat", "keepttl"].iter().any(|word| args.is(at, word)) => {
                return Err(Cow::Borrowed(
                    "ERR expiry is not supported: keys do not expire, since replicas agree on no clock",
                ));
            }
            () => return Err(SYNTAX),
        }
    }
    encode::set(out, key(args)?, value(args.get(2))?, condition, get);
    Ok(Shape::Plain)
}

pub(super) fn set_nx(args: Args<'_>, out: &mut Out) -> Encoded {
    encode::set(out, key(args)?, value(args.get(2))?, Condition::Absent, false);
    Ok(Shape::Done)
}

pub(super) fn get_set(args: Args<'_>, out: &mut Out) -> Encoded {
    encode::set(out, key(args)?, value(args.get(2))?, Condition::Always, true);
    Ok(Shape::Plain)
}

pub(super) fn m_set(args: Args<'_>, out: &mut Out) -> Encoded {
    pairs(args, 1, "key", MAX_KEY_BYTES)?;
    encode::m_set(out, args.from(1));
    Ok(Shape::Plain)
}

pub(super) fn append(args: Args<'_>, out: &mut Out) -> Encoded {
    encode::append(out, key(args)?, value(args.get(2))?);
    Ok(Shape::Plain)
}

pub(super) fn incr(args: Args<'_>, out: &mut Out) -> Encoded {
    encode::incr_by(out, key(args)?, 1);
    Ok(Shape::Plain)
}

pub(super) fn decr(args: Args<'_>, out: &mut Out) -> Encoded {
    encode::incr_by(out, key(args)?, -1);
    Ok(Shape::Plain)
}

pub(super) fn incr_by(args: Args<'_>, out: &mut Out) -> Encoded {
    encode::incr_by(out, key(args)?, integer(args.get(2))?);
    Ok(Shape::Plain)
}

pub(super) fn decr_by(args: Args<'_>, out: &mut Out) -> Encoded {
    let by = integer(args.get(2))?.checked_neg();
    encode::incr_by(out, key(args)?, by.ok_or("ERR decrement would overflow")?);
    Ok(Shape::Plain)
}

pub(super) fn h_set(args: Args<'_>, out: &mut Out) -> Encoded {
    pairs(args, 2, "field", MAX_VALUE_BYTES)?;
    encode::h_set(out, key(args)?, args.from(2));
    Ok(Shape::Plain)
}

pub(super) fn h_m_set(args: Args<'_>, out: &mut Out) -> Encoded {
    h_set(args, out).map(|_| Shape::Ok)
}

pub(super) fn h_get(args: Args<'_>, out: &mut Out) -> Encoded {
    encode::h_get(out, key(args)?, check(args.get(2), "field", MAX_VALUE_BYTES)?);
    Ok(Shape::Plain)
}

pub(super) fn h_exists(args: Args<'_>, out: &mut Out) -> Encoded {
    encode::h_exists(out, key(args)?, check(args.get(2), "field", MAX_VALUE_BYTES)?);
    Ok(Shape::Plain)
}

pub(super) fn h_incr_by(args: Args<'_>, out: &mut Out) -> Encoded {
    let field = check(args.get(2), "field", MAX_VALUE_BYTES)?;
    encode::h_incr_by(out, key(args)?, field, integer(args.get(3))?);
    Ok(Shape::Plain)
}

pub(super) fn h_get_all(args: Args<'_>, out: &mut Out) -> Encoded {
    encode::h_get_all(out, key(args)?);
    Ok(Shape::Map)
}

pub(super) fn h_keys(args: Args<'_>, out: &mut Out) -> Encoded {
    h_get_all(args, out).map(|_| Shape::Fields)
}

pub(super) fn h_vals(args: Args<'_>, out: &mut Out) -> Encoded {
    h_get_all(args, out).map(|_| Shape::Values)
}

pub(super) fn ttl(args: Args<'_>, out: &mut Out) -> Encoded {
    exists(args, out).map(|_| Shape::Lifetime)
}

pub(super) fn db_size(_: Args<'_>, out: &mut Out) -> Encoded {
    encode::db_size(out);
    Ok(Shape::Plain)
}

pub(super) fn keys_like(args: Args<'_>, out: &mut Out) -> Encoded {
    encode::keys(out, check(args.get(1), "pattern", MAX_PATTERN_BYTES)?);
    Ok(Shape::Plain)
}

pub(super) fn flush(args: Args<'_>, out: &mut Out) -> Encoded {
    if args.len() > 2 || args.len() == 2 && !args.is(1, "sync") && !args.is(1, "async") {
        return Err(SYNTAX);
    }
    encode::flush_all(out);
    Ok(Shape::Plain)
}

pub(super) fn scan(args: Args<'_>, out: &mut Out) -> Encoded {
    let cursor = str::from_utf8(args.get(1)).ok().and_then(|text| text.parse().ok());
    let cursor = cursor.ok_or("ERR invalid cursor")?;
    let mut scan = Scan { cursor, count: 10, kind: None, pattern: None };
    let (mut at, mut unknown_kind) = (2, false);
    while at < args.len() {
        if at + 1 == args.len() {
            return Err(SYNTAX);
        }
        let given = args.get(at + 1);
        if args.is(at, "count") {
            let count = integer(given)?;
            if count < 1 {
                return Err(SYNTAX);
            }
            scan.count = u32::try_from(count).unwrap_or(u32::MAX);
        } else if args.is(at, "match") {
            scan.pattern = Some(check(given, "pattern", MAX_PATTERN_BYTES)?);
        } else if args.is(at, "type") {
            scan.kind = [ValueKind::Text, ValueKind::Hash]
                .into_iter()
                .find(|kind| given.eq_ignore_ascii_case(kind.name().as_bytes()));
            unknown_kind = scan.kind.is_none();
        } else {
            return Err(SYNTAX);
        }
        at += 2;
    }
    if unknown_kind {
        return Err(Cow::Borrowed("ERR unknown type name: values are of type string or hash"));
    }
    encode::scan(out, &scan);
    Ok(Shape::Plain)
}
