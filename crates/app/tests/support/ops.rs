//! Random commands.

use proptest::collection::vec;
use proptest::prelude::*;
use quorate_app::kv::Condition;
use quorate_app::kv::command::encode;

use super::encoded;

#[derive(Clone, Debug)]
pub enum Op {
    Noop,
    Set(u8, Vec<u8>, u8, bool),
    Get(u8),
    GetDel(u8),
    MSet(Vec<(u8, Vec<u8>)>),
    MGet(Vec<u8>),
    Del(Vec<u8>),
    Exists(Vec<u8>),
    IncrBy(u8, i64),
    Append(u8, Vec<u8>),
    StrLen(u8),
    HSet(u8, Vec<(u8, Vec<u8>)>),
    HGet(u8, u8),
    HGetAll(u8),
    HDel(u8, Vec<u8>),
    HLen(u8),
    HExists(u8, u8),
    HMGet(u8, Vec<u8>),
    HIncrBy(u8, u8, i64),
    Type(u8),
    DbSize,
    Keys,
    FlushAll,
}

pub fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(any::<u8>(), 0..40),
        (-20i64..20).prop_map(|number| number.to_string().into_bytes()),
        Just(i64::MAX.to_string().into_bytes()),
        Just(i64::MIN.to_string().into_bytes()),
        Just(b"007".to_vec()),
        Just(b"-0".to_vec()),
        Just(b"+1".to_vec()),
        Just(b"9223372036854775808".to_vec()),
    ]
}

pub fn op() -> impl Strategy<Value = Op> {
    let key = || 0u8..12;
    let pairs = || vec((key(), value()), 1..4);
    let by = || prop_oneof![-3i64..4, any::<i64>()];
    prop_oneof![
        1 => Just(Op::Noop),
        6 => (key(), value(), 0u8..3, any::<bool>()).prop_map(|(k, v, c, g)| Op::Set(k, v, c, g)),
        2 => key().prop_map(Op::Get),
        2 => key().prop_map(Op::GetDel),
        2 => pairs().prop_map(Op::MSet),
        2 => vec(key(), 1..5).prop_map(Op::MGet),
        2 => vec(key(), 1..4).prop_map(Op::Del),
        2 => vec(key(), 1..5).prop_map(Op::Exists),
        4 => (key(), by()).prop_map(|(k, by)| Op::IncrBy(k, by)),
        3 => (key(), value()).prop_map(|(k, v)| Op::Append(k, v)),
        1 => key().prop_map(Op::StrLen),
        6 => (key(), pairs()).prop_map(|(k, p)| Op::HSet(k, p)),
        1 => (key(), key()).prop_map(|(k, f)| Op::HGet(k, f)),
        2 => key().prop_map(Op::HGetAll),
        4 => (key(), vec(key(), 1..5)).prop_map(|(k, f)| Op::HDel(k, f)),
        1 => key().prop_map(Op::HLen),
        1 => (key(), key()).prop_map(|(k, f)| Op::HExists(k, f)),
        1 => (key(), vec(key(), 1..5)).prop_map(|(k, f)| Op::HMGet(k, f)),
        3 => (key(), key(), by()).prop_map(|(k, f, by)| Op::HIncrBy(k, f, by)),
        1 => key().prop_map(Op::Type),
        1 => Just(Op::DbSize),
        1 => Just(Op::Keys),
        1 => Just(Op::FlushAll),
    ]
}

pub fn name(number: u8) -> Vec<u8> {
    // Names of different lengths, the empty one among them.
    vec![b'k'; usize::from(number)]
}

pub fn names(numbers: &[u8]) -> Vec<Vec<u8>> {
    numbers.iter().map(|number| name(*number)).collect()
}

pub fn flat(pairs: &[(u8, Vec<u8>)]) -> Vec<Vec<u8>> {
    pairs.iter().flat_map(|(key, value)| [name(*key), value.clone()]).collect()
}

pub fn slices(list: &[Vec<u8>]) -> impl Iterator<Item = &[u8]> {
    list.iter().map(Vec::as_slice)
}

pub fn encode_op(op: &Op) -> Vec<u8> {
    encoded(|out| match op {
        Op::Noop => {}
        Op::Set(k, v, c, get) => {
            let condition = [Condition::Always, Condition::Absent, Condition::Present];
            encode::set(out, &name(*k), v, condition[usize::from(*c)], *get);
        }
        Op::Get(k) => encode::get(out, &name(*k)),
        Op::GetDel(k) => encode::get_del(out, &name(*k)),
        Op::MSet(pairs) => encode::m_set(out, slices(&flat(pairs))),
        Op::MGet(keys) => encode::m_get(out, slices(&names(keys))),
        Op::Del(keys) => encode::del(out, slices(&names(keys))),
        Op::Exists(keys) => encode::exists(out, slices(&names(keys))),
        Op::IncrBy(k, by) => encode::incr_by(out, &name(*k), *by),
        Op::Append(k, v) => encode::append(out, &name(*k), v),
        Op::StrLen(k) => encode::str_len(out, &name(*k)),
        Op::HSet(k, pairs) => encode::h_set(out, &name(*k), slices(&flat(pairs))),
        Op::HGet(k, f) => encode::h_get(out, &name(*k), &name(*f)),
        Op::HGetAll(k) => encode::h_get_all(out, &name(*k)),
        Op::HDel(k, fields) => encode::h_del(out, &name(*k), slices(&names(fields))),
        Op::HLen(k) => encode::h_len(out, &name(*k)),
        Op::HExists(k, f) => encode::h_exists(out, &name(*k), &name(*f)),
        Op::HMGet(k, fields) => encode::h_m_get(out, &name(*k), slices(&names(fields))),
        Op::HIncrBy(k, f, by) => encode::h_incr_by(out, &name(*k), &name(*f), *by),
        Op::Type(k) => encode::kind(out, &name(*k)),
        Op::DbSize => encode::db_size(out),
        Op::Keys => encode::keys(out, b"*"),
        Op::FlushAll => encode::flush_all(out),
    })
}
