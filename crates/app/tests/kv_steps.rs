//! What commands and queries may cost: steps are billed before they are taken.
#![allow(missing_docs)]

mod support;

use proptest::collection::vec;
use proptest::prelude::*;
use quorate_app::kv::command::encode;
use quorate_app::kv::{
    BLOCK_STEPS, COMMAND_STEPS, Condition, KeyValue, MAX_VALUE_BYTES, Pattern, Reply, Scan,
};
use quorate_core::ledger::state_machine::StateMachine;
use support::folders::InMemory;
use support::{Owned, apply, encoded, one, owned};

fn assert_error(reply: &Owned, part: &str) {
    match reply {
        Owned::Error(message) => assert!(message.contains(part), "{message}"),
        other => panic!("{other:?} instead of an error with {part:?}"),
    }
}

fn set(store: &mut dyn StateMachine, key: &[u8], value: &[u8]) {
    let reply = one(store, |out| encode::set(out, key, value, Condition::Always, false));
    assert_eq!(reply, Owned::Ok);
}

/// Keys of 64 KiB that no pattern of [`HARD`] matches, however hard it tries.
fn long_keys(store: &mut dyn StateMachine, count: u16) {
    for number in 0..count {
        let mut key = number.to_be_bytes().to_vec();
        key.resize(64 << 10, b'a');
        set(store, &key, b"");
    }
}

/// Half the longest pattern: each look at a long key takes as many steps as the product of the
/// lengths.
fn hard() -> Vec<u8> {
    [b"*".to_vec(), vec![b'a'; 500], b"b".to_vec()].concat()
}

/// An independent count of the looks of a pattern without classes at a text.
fn looks(pattern: &[u8], text: &[u8]) -> u64 {
    let (mut at, mut byte_at, mut retry, mut count) = (0, 0, None, 0);
    while byte_at < text.len() {
        count += 1;
        if pattern.get(at) == Some(&b'*') {
            while pattern.get(at) == Some(&b'*') {
                at += 1;
            }
            if at == pattern.len() {
                return count;
            }
            retry = Some((at, byte_at));
        } else if pattern.get(at).is_some_and(|part| *part == b'?' || *part == text[byte_at]) {
            (at, byte_at) = (at + 1, byte_at + 1);
        } else {
            let Some((behind, given)) = retry else { return count };
            (at, byte_at, retry) = (behind, given + 1, Some((behind, given + 1)));
        }
    }
    count
}

proptest! {
    #[test]
    fn a_pattern_takes_as_many_steps_as_it_looks(
        pattern in vec(prop::sample::select(b"aab*?".to_vec()), 0..40),
        text in vec(prop::sample::select(b"aaab".to_vec()), 0..200),
        budget in 0u64..2000,
    ) {
        let read = Pattern::new(&pattern);
        let needed = looks(&pattern, &text);
        prop_assert!(needed <= (pattern.len() as u64 + 1) * (text.len() as u64 + 1));
        let mut steps = u64::MAX;
        let matches = read.matches(&text, &mut steps);
        prop_assert_eq!(u64::MAX - steps, needed);
        let mut steps = budget;
        let within = read.matches(&text, &mut steps);
        prop_assert_eq!(within, if budget < needed { None } else { matches });
        prop_assert_eq!(steps, budget.saturating_sub(needed));
    }

    /// What KEYS is billed is at least the looks it made and the bytes it copied.
    #[test]
    fn keys_are_billed_for_what_is_done(
        keys in prop::collection::btree_set(vec(prop::sample::select(b"ab".to_vec()), 0..60), 0..40),
        pattern in vec(prop::sample::select(b"aab*?".to_vec()), 0..12),
    ) {
        let mut store = KeyValue::new();
        for key in &keys {
            set(&mut store, key, b"");
        }
        let (answer, steps) = store.billed_query(&encoded(|out| encode::keys(out, &pattern)));
        let work: u64 = keys.iter().map(|key| looks(&pattern, key)).sum();
        prop_assert!(steps >= work + answer.len() as u64 - 5, "{} steps for {}", steps, work);
        prop_assert!(steps <= work + 100 * (keys.len() as u64 + 1), "{} steps for {}", steps, work);
    }
}

#[test]
fn keys_under_a_hard_pattern_are_refused() {
    let mut store = KeyValue::new();
    long_keys(&mut store, 8);
    let keys = encoded(|out| encode::keys(out, &hard()));
    let (answer, steps) = store.billed_query(&keys);
    assert_error(&owned(&Reply::decode(&answer).unwrap()), "too many keys for KEYS: use SCAN");
    assert!(steps <= COMMAND_STEPS);
    // Ordered, as many as a block has steps for are begun.
    let replies = apply(&mut store, &[&keys[..]; 1000]);
    let refused =
        replies.iter().filter(|reply| matches!(reply, Owned::Error(m) if m.contains("TRYAGAIN")));
    assert!(refused.count() >= 1000 - 2 * (BLOCK_STEPS / COMMAND_STEPS) as usize);
}

#[test]
fn a_scan_that_runs_out_of_steps_returns_its_cursor_and_misses_nothing() {
    let mut store = KeyValue::new();
    long_keys(&mut store, 12);
    let short = [vec![b'a'; 60], b"b".to_vec()].concat();
    set(&mut store, &short, b"");
    // Matches the short key alone. Of the long ones four can be looked at in one call.
    let pattern = [b"*", &short[..]].concat();
    let (mut cursor, mut calls, mut found) = (0, 0, Vec::new());
    loop {
        let wanted = Scan { cursor, count: 1000, kind: None, pattern: Some(&pattern) };
        let (answer, steps) = store.billed_query(&encoded(|out| encode::scan(out, &wanted)));
        assert!(steps <= COMMAND_STEPS);
        let Owned::Array(parts) = owned(&Reply::decode(&answer).unwrap()) else {
            panic!("no array")
        };
        let [Owned::Bulk(next), Owned::Array(keys)] = &parts[..] else { panic!("{parts:?}") };
        found.extend(keys.clone());
        calls += 1;
        cursor = String::from_utf8_lossy(next).parse().unwrap();
        if cursor == 0 {
            break;
        }
    }
    assert_eq!((calls, found), (3, vec![Owned::Bulk(short)]));
}

#[test]
fn a_key_that_takes_more_than_a_whole_call_is_told() {
    let mut store = KeyValue::new();
    long_keys(&mut store, 1);
    let wanted = Scan { cursor: 0, count: 10, kind: None, pattern: Some(&hard()) };
    let (answer, _) = store.billed_query(&encoded(|out| encode::scan(out, &wanted)));
    assert_error(&owned(&Reply::decode(&answer).unwrap()), "too much work");
}

/// The most costly block of each command: none does more than a block's steps, also if each is
/// refused for another reason.
#[test]
fn work_that_ends_in_a_refusal_is_billed_too() {
    let mut store = KeyValue::new();
    set(&mut store, b"big", &vec![0; MAX_VALUE_BYTES]);
    let m_get = encoded(|out| encode::m_get(out, [&b"big"[..]; 5]));
    let replies = apply(&mut store, &vec![&m_get[..]; 100]);
    let too_long =
        replies.iter().filter(|reply| matches!(reply, Owned::Error(m) if m.contains("exceed")));
    let each = 3 * MAX_VALUE_BYTES as u64;
    assert_eq!(too_long.count() as u64, BLOCK_STEPS / each);
    assert_error(replies.last().unwrap(), "TRYAGAIN");
}

/// A hash of a megabyte is read, written and hashed as a whole by the store on disk, for a command
/// of few bytes.
#[test]
fn changes_to_many_large_values_share_the_steps_of_a_block() {
    let folders = InMemory::default();
    let (mut memory, mut disk) = (KeyValue::new(), KeyValue::on_disk(&folders.roomy_shelf()));
    let field = vec![7; 1000];
    for store in [&mut memory as &mut dyn StateMachine, &mut disk] {
        for number in 0..40u8 {
            let fields: Vec<[u8; 2]> = (0..1000u16).map(u16::to_be_bytes).collect();
            let pairs = fields.iter().flat_map(|name| [&name[..], &field]);
            one(store, |out| encode::h_set(out, &[number], pairs));
        }
        let changes: Vec<_> = (0..40u8)
            .map(|number| encoded(|out| encode::h_incr_by(out, &[number], b"n", 1)))
            .collect();
        let changes: Vec<_> = changes.iter().map(Vec::as_slice).collect();
        let replies = apply(store, &changes);
        let done = replies.iter().filter(|reply| **reply == Owned::Integer(1)).count();
        assert_eq!(done, 8, "each takes eight million steps");
        assert_error(&replies[39], "TRYAGAIN");
        // The same hash again costs nothing: it is at hand.
        let again = vec![changes[39]; 100];
        assert_eq!(apply(store, &again).last(), Some(&Owned::Integer(100)));
    }
    assert_eq!(memory.root(), disk.root());
}

/// The store on disk looks at every key that the block wrote.
#[test]
fn counting_the_keys_behind_many_writes_is_billed() {
    let mut store = KeyValue::new();
    let count = encoded(encode::db_size);
    let names: Vec<_> = (0..20_000u32).map(u32::to_be_bytes).collect();
    let pairs = names.iter().flat_map(|name| [&name[..], b""]);
    let write = encoded(|out| encode::m_set(out, pairs));
    let commands: Vec<&[u8]> = std::iter::once(&write[..]).chain(vec![&count[..]; 1000]).collect();
    let replies = apply(&mut store, &commands);
    assert_eq!(replies[1], Owned::Integer(20_000));
    assert_error(&replies[1000], "TRYAGAIN");
}
