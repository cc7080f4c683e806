//! Limits, refusals, SCAN, snapshots that are not whole.
#![allow(missing_docs)]

mod support;

use std::collections::BTreeSet;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use quorate_app::kv::command::encode;
use quorate_app::kv::{
    BLOCK_STEPS, Condition, FRAME_REPLY_BYTES, KeyValue, MAX_KEY_BYTES, MAX_KEYS_LISTED,
    MAX_REPLY_BYTES, MAX_VALUE_BYTES, Scan, ValueKind,
};
use quorate_core::Digest;
use quorate_core::ledger::frame::MAX_COMMANDS;
use quorate_core::ledger::state_machine::{MAX_CHUNK_BYTES, Restorer as _, StateMachine};
use support::{Owned, apply, apply_raw, chunks, encoded, one, wrong_type};

fn set(store: &mut KeyValue, key: &[u8], value: &[u8]) -> Owned {
    one(store, |out| encode::set(out, key, value, Condition::Always, false))
}

fn assert_error(reply: &Owned, part: &str) {
    match reply {
        Owned::Error(message) => assert!(message.contains(part), "{message}"),
        other => panic!("{other:?} instead of an error with {part:?}"),
    }
}

#[test]
fn the_longest_key_and_value_are_taken_and_longer_ones_refused() {
    let mut store = KeyValue::new();
    let (key, value) = (vec![1; MAX_KEY_BYTES], vec![2; MAX_VALUE_BYTES]);
    assert_eq!(set(&mut store, &key, &value), Owned::Ok);
    assert_eq!(one(&mut store, |out| encode::get(out, &key)), Owned::Bulk(value.clone()));
    let root = store.root();

    let long_key = vec![1; MAX_KEY_BYTES + 1];
    assert_error(&set(&mut store, &long_key, b"v"), "key is 65537, above the cap of 65536");
    let long_value = vec![1; MAX_VALUE_BYTES + 1];
    assert_error(&set(&mut store, b"k", &long_value), "value is 1048577, above the cap of 1048576");
    let append = one(&mut store, |out| encode::append(out, &key, b"x"));
    assert_error(&append, "string exceeds maximum allowed size");
    assert_eq!(one(&mut store, |out| encode::append(out, &key, b"")), Owned::Integer(1 << 20));
    // One bad element, and none of them is set.
    let m_set = one(&mut store, |out| {
        encode::m_set(out, [&b"a"[..], b"1", &long_key, b"2"]);
    });
    assert_error(&m_set, "key is 65537");
    assert_eq!(store.root(), root);
}

#[test]
fn a_hash_stays_within_its_limit_and_a_refused_write_has_no_effect() {
    let mut store = KeyValue::new();
    let half = vec![3; MAX_VALUE_BYTES / 2 - 8 - 1];
    assert_eq!(one(&mut store, |out| encode::h_set(out, b"h", [b"a", &half[..]])), int(1));
    assert_eq!(one(&mut store, |out| encode::h_set(out, b"h", [b"b", &half[..]])), int(1));
    let root = store.root();
    let more = one(&mut store, |out| encode::h_set(out, b"h", [&b"c"[..], b""]));
    assert_error(&more, "hash exceeds maximum allowed size");
    let more = one(&mut store, |out| encode::h_incr_by(out, b"h", b"n", 1));
    assert_error(&more, "hash exceeds maximum allowed size");
    let fresh = vec![4; MAX_VALUE_BYTES - 8];
    let more = one(&mut store, |out| encode::h_set(out, b"new", [b"c", &fresh[..]]));
    assert_error(&more, "hash exceeds maximum allowed size");
    assert_eq!(store.root(), root);
    assert_eq!(store.len(), 1);
    // Shrunk twice by one command, then grown by another: still counted right.
    let shrunk = one(&mut store, |out| encode::h_set(out, b"h", [&b"a"[..], b"", b"a", b"x"]));
    assert_eq!(shrunk, int(0));
    assert_eq!(
        one(&mut store, |out| encode::h_set(out, b"h", [b"c", &half[..half.len() - 10]])),
        int(1)
    );
    assert_error(
        &one(&mut store, |out| encode::h_set(out, b"h", [&b"d"[..], b"12"])),
        "hash exceeds",
    );
}

fn int(number: i64) -> Owned {
    Owned::Integer(number)
}

#[test]
fn wrong_types_are_refused() {
    let mut store = KeyValue::new();
    set(&mut store, b"s", b"1");
    one(&mut store, |out| encode::h_set(out, b"h", [&b"f"[..], b"v"]));
    let root = store.root();
    type Write = fn(&mut Vec<u8>);
    let refused: [Write; 15] = [
        |out| encode::get(out, b"h"),
        |out| encode::get_del(out, b"h"),
        |out| encode::str_len(out, b"h"),
        |out| encode::append(out, b"h", b"x"),
        |out| encode::incr_by(out, b"h", 1),
        |out| encode::set(out, b"h", b"x", Condition::Always, true),
        |out| encode::set(out, b"h", b"x", Condition::Absent, true),
        |out| encode::h_get(out, b"s", b"f"),
        |out| encode::h_get_all(out, b"s"),
        |out| encode::h_set(out, b"s", [&b"f"[..], b"v"]),
        |out| encode::h_del(out, b"s", [&b"f"[..]]),
        |out| encode::h_len(out, b"s"),
        |out| encode::h_exists(out, b"s", b"f"),
        |out| encode::h_m_get(out, b"s", [&b"f"[..]]),
        |out| encode::h_incr_by(out, b"s", b"f", 1),
    ];
    for write in refused {
        assert_eq!(one(&mut store, write), wrong_type());
    }
    assert_eq!(store.root(), root);
    assert_eq!(set(&mut store, b"h", b"now a string"), Owned::Ok);
    assert_eq!(one(&mut store, |out| encode::kind(out, b"h")), Owned::Status("string".into()));
}

#[test]
fn the_costly_commands_of_a_block_share_its_steps() {
    let mut store = KeyValue::new();
    set(&mut store, b"big", &vec![0; MAX_VALUE_BYTES]);
    let get = encoded(|out| encode::get(out, b"big"));
    let swap = encoded(|out| encode::set(out, b"big", b"small", Condition::Always, true));
    let write = encoded(|out| encode::incr_by(out, b"n", 1));
    let of_block = BLOCK_STEPS as usize / MAX_VALUE_BYTES;
    // So far apart that no frame can hold two of them; one more than there are steps for.
    let spread: Vec<&[u8]> = std::iter::once(&get[..])
        .chain(vec![&write[..]; MAX_COMMANDS - 1])
        .cycle()
        .take((of_block - 1) * MAX_COMMANDS)
        .chain([&get[..], &get, &swap, &write])
        .collect();
    let replies = apply(&mut store, &spread);
    let bulks = replies.iter().filter(|reply| matches!(reply, Owned::Bulk(_))).count();
    let [.., get_reply, swap_reply, write_reply] = &replies[..] else { panic!("three replies") };
    assert_eq!(bulks, of_block);
    assert_error(get_reply, "TRYAGAIN");
    assert_error(swap_reply, "TRYAGAIN");
    assert!(matches!(write_reply, Owned::Integer(_)), "what is cheap goes on");
    // The next block begins afresh, and what was refused had no effect.
    assert_eq!(apply(&mut store, &[&get]), [Owned::Bulk(vec![0; MAX_VALUE_BYTES])]);

    let m_get = one(&mut store, |out| encode::m_get(out, [&b"big"[..]; 5]));
    assert_error(&m_get, "ask for fewer values");
    let most = MAX_REPLY_BYTES / MAX_VALUE_BYTES - 1;
    let m_get = one(&mut store, |out| encode::m_get(out, vec![&b"big"[..]; most]));
    assert_eq!(m_get, Owned::Array(vec![Owned::Bulk(vec![0; MAX_VALUE_BYTES]); most]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn the_replies_to_a_frame_always_fit_one_message(
        runs in vec((0usize..4, 1usize..3000), 1..8),
    ) {
        let mut store = KeyValue::new();
        let sizes = [100, 240, 9000, MAX_VALUE_BYTES];
        for (at, bytes) in sizes.iter().enumerate() {
            set(&mut store, &[at as u8], &vec![0; *bytes]);
        }
        let gets: Vec<_> = (0..4u8).map(|at| encoded(|out| encode::get(out, &[at]))).collect();
        let commands: Vec<&[u8]> =
            runs.iter().flat_map(|(at, count)| vec![&gets[*at][..]; *count]).collect();
        let lengths: Vec<_> = apply_raw(&mut store, 1, &commands).iter().map(|r| r.len() + 4).collect();
        let most = lengths.windows(MAX_COMMANDS.min(lengths.len())).map(|run| run.iter().sum::<usize>());
        prop_assert!(most.max() <= Some(FRAME_REPLY_BYTES));
        // What is refused is refused for a reason: it would not have fitted, or nearly so.
        let wanted: usize = runs.iter().map(|(at, count)| (sizes[*at] + 9) * count).sum();
        let refused = lengths.iter().any(|length| *length < 104);
        prop_assert!(!refused || wanted > FRAME_REPLY_BYTES / 2);
    }
}

#[test]
fn keys_says_when_to_use_scan() {
    let mut store = KeyValue::new();
    let keys: Vec<String> = (0..=MAX_KEYS_LISTED).map(|number| format!("key:{number}")).collect();
    let pairs = keys.iter().flat_map(|key| [key.as_bytes(), b""]);
    assert_eq!(one(&mut store, |out| encode::m_set(out, pairs)), Owned::Ok);
    assert_error(&one(&mut store, |out| encode::keys(out, b"key:7")), "use SCAN");
    assert_eq!(one(&mut store, |out| encode::del(out, [&b"key:8"[..]])), int(1));
    let found = one(&mut store, |out| encode::keys(out, b"key:7"));
    assert_eq!(found, Owned::Array(vec![Owned::Bulk(b"key:7".to_vec())]));
}

fn scan(store: &mut KeyValue, scan: &Scan<'_>) -> (u64, Vec<Vec<u8>>) {
    let Owned::Array(mut parts) = one(store, |out| encode::scan(out, scan)) else {
        panic!("no array")
    };
    let (Some(Owned::Array(keys)), Some(Owned::Bulk(cursor))) = (parts.pop(), parts.pop()) else {
        panic!("no cursor and keys")
    };
    let cursor = String::from_utf8(cursor).expect("digits").parse().expect("a number");
    let keys = keys.into_iter().map(|key| match key {
        Owned::Bulk(key) => key,
        other => panic!("{other:?}"),
    });
    (cursor, keys.collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_scan_returns_what_is_there_throughout(
        kept in 0u32..300,
        count in 0u32..40,
        churn in vec((any::<u16>(), any::<bool>()), 0..400),
    ) {
        let mut store = KeyValue::new();
        let stay: BTreeSet<Vec<u8>> = (0..kept).map(|n| format!("stay:{n}").into_bytes()).collect();
        for key in &stay {
            set(&mut store, key, b"");
        }
        let (mut cursor, mut seen, mut churn) = (0, Vec::new(), churn.into_iter());
        loop {
            let wanted = Scan { cursor, count, kind: None, pattern: None };
            let (next, keys) = scan(&mut store, &wanted);
            prop_assert!(keys.len() <= count.max(1) as usize);
            seen.extend(keys);
            if next == 0 {
                break;
            }
            prop_assert!(next > cursor);
            cursor = next;
            for (key, insert) in churn.by_ref().take(10) {
                let key = format!("come and go:{key}").into_bytes();
                match insert {
                    true => set(&mut store, &key, b""),
                    false => one(&mut store, |out| encode::del(out, [&key[..]])),
                };
            }
        }
        let distinct: BTreeSet<Vec<u8>> = seen.iter().cloned().collect();
        prop_assert_eq!(distinct.len(), seen.len(), "a key came twice");
        let missing: Vec<_> = stay.difference(&distinct).collect();
        prop_assert!(missing.is_empty(), "{:?}", missing);
    }
}

#[test]
fn a_scan_filters_by_pattern_and_kind() {
    let mut store = KeyValue::new();
    for number in 0..50 {
        set(&mut store, format!("s:{number}").as_bytes(), b"");
        let key = format!("h:{number}");
        one(&mut store, |out| encode::h_set(out, key.as_bytes(), [&b"f"[..], b"v"]));
    }
    let all = Scan { cursor: 0, count: 1000, kind: None, pattern: None };
    assert_eq!(scan(&mut store, &all).1.len(), 100);
    let kind = Some(ValueKind::Hash);
    let (end, hashes) = scan(&mut store, &Scan { kind, ..all });
    assert!(end == 0 && hashes.len() == 50 && hashes.iter().all(|key| key.starts_with(b"h:")));
    let (_, some) = scan(&mut store, &Scan { pattern: Some(b"?:1?"), ..all });
    assert_eq!(some.len(), 20);
    assert_eq!(scan(&mut store, &Scan { kind, pattern: Some(b"s:*"), ..all }).1.len(), 0);
}

fn large_store() -> KeyValue {
    let mut store = KeyValue::new();
    for number in 0..7u8 {
        set(&mut store, &[number], &vec![number; MAX_VALUE_BYTES - 1000]);
        let value = vec![number; 400_000];
        one(&mut store, |out| {
            encode::h_set(out, &[b'h', number], [b"1", &value[..], b"2", &value])
        });
    }
    store
}

#[test]
fn a_large_snapshot_restores_and_its_chunks_are_stable() {
    let mut store = large_store();
    let snapshot = store.snapshot();
    let root = store.root();
    one(&mut store, encode::flush_all);
    assert!(store.is_empty() && store.root() != root);
    let list = chunks(&*snapshot);
    assert!(list.len() > 10);
    assert!(list.iter().all(|chunk| chunk.len() <= MAX_CHUNK_BYTES));
    store.restore(&mut list.clone().into_iter()).expect("a snapshot");
    assert_eq!(store.root(), root);
    assert_eq!(chunks(&*store.snapshot()), list);

    let mut handed_out = 0;
    snapshot.chunks(&mut |_| {
        handed_out += 1;
        handed_out < 3
    });
    assert_eq!(handed_out, 3, "it stops when told to");
}

#[test]
fn a_snapshot_that_is_not_whole_is_refused_and_says_where() {
    let list = chunks(&*large_store().snapshot());
    let refuse = |list: Vec<Bytes>| {
        let error = KeyValue::new().restore(&mut list.into_iter()).expect_err("no snapshot");
        (error.chunk, error.reason)
    };
    let without_last = list[..list.len() - 1].to_vec();
    assert_eq!(refuse(without_last), (list.len() - 1, "the state ends early".into()));
    let mut longer = list.clone();
    longer.push(Bytes::from_static(b"x"));
    assert_eq!(refuse(longer), (list.len(), "the state was whole before".into()));
    let mut swapped = list.clone();
    swapped.swap(1, 2);
    assert_eq!(refuse(swapped).0, 1);
    assert_eq!(refuse(vec![]), (0, "the state ends early".into()));
    assert_eq!(refuse(vec![Bytes::new()]), (0, "it ends early".into()));
    let of_before = Bytes::from([&b"quorate kv 00002"[..], &[0; 36]].concat());
    assert!(refuse(vec![of_before]).1.contains("version 2, and this program reads 3"));
}

/// Entries of many kinds in some chunks.
fn small_chunks() -> (Digest, Vec<Bytes>) {
    let mut store = KeyValue::new();
    for number in 0..40u32 {
        let value = vec![number as u8; 100_000];
        set(&mut store, &number.to_be_bytes(), &value);
        one(&mut store, |out| encode::h_set(out, &[b'h', number as u8], [&b"a"[..], b"b"]));
    }
    (store.root(), chunks(&*store.snapshot()))
}

/// Takes the chunks one by one, up to one that is refused: which, and why.
fn refused(root: Digest, list: &[Bytes]) -> Option<(usize, String)> {
    let mut store = KeyValue::new();
    store.begin(Some(root)).expect("in memory");
    let taken = list.iter().try_for_each(|chunk| store.take(chunk.clone()));
    taken.and_then(|()| store.finish()).err().map(|error| (error.chunk, error.reason))
}

/// A peer is found out by the first chunk that it changed, whatever it changed there.
#[test]
fn a_forged_chunk_is_refused_when_it_comes() {
    let (root, list) = small_chunks();
    assert_eq!(refused(root, &list), None);
    assert_eq!(refused(Digest([7; 32]), &list).map(|(chunk, _)| chunk), Some(0));
    let mut seed = 1u64;
    for at in 0..list.len() {
        // What stands at its ends, and bytes anywhere.
        let ends = (0..60).chain(list[at].len() - 900..list[at].len());
        let anywhere = (0..60).map(|_| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 20) as usize % list[at].len()
        });
        for byte in ends.chain(anywhere.collect::<Vec<_>>()).step_by(7) {
            let mut forged = list.clone();
            let mut bytes = list[at].to_vec();
            bytes[byte] ^= 1 << (byte % 8);
            forged[at] = bytes.into();
            let (chunk, _) = refused(root, &forged).expect("forged");
            assert_eq!(chunk, at, "byte {byte} of chunk {at}");
        }
        let mut cut = list.clone();
        cut.remove(at);
        let last = at + 1 == list.len();
        let reason = refused(root, &cut).expect("a chunk is missing");
        assert_eq!((reason.0, last), (at, reason.1 == "the state ends early"));
    }
}

/// A peer that sends a state one entry at a time, each with its proof, does not keep others from
/// being asked.
#[test]
fn chunks_that_could_be_fuller_are_refused() {
    let mut two = KeyValue::new();
    for key in [b"a", b"b"] {
        set(&mut two, key, b"1");
    }
    let whole = chunks(&*two.snapshot()).remove(0);
    // Head 88, count 4; entries of 11 bytes, with their lengths.
    let (head, first, second) = (&whole[..88], &whole[92..103], &whole[103..114]);
    let proof_of = |entry: &[u8]| {
        let mut prover = two.prover().expect("it proves");
        let content = prover.prove(&entry[8..9]).expect("it is there");
        // Behind the root 32, the feed's head 40, the mark 1 and the value behind its length 4, 2;
        // the proof's length.
        content.slice(32 + 40 + 1 + 4 + 2 + 4..)
    };
    let crumb = |entry: &[u8]| [&1u32.to_le_bytes()[..], entry, &proof_of(entry)].concat();
    let crumbs = [Bytes::from([head, &crumb(first)].concat()), Bytes::from(crumb(second))];
    let again = [head, &2u32.to_le_bytes(), first, second, &proof_of(second)].concat();
    let root = two.root();
    assert_eq!(refused(root, &[Bytes::from(again)]), None, "the same, in one chunk");
    let (chunk, reason) = refused(root, &crumbs).expect("crumbs");
    assert_eq!((chunk, reason.as_str()), (1, "the chunk before it had room for more"));
}

/// The chunks of another state under the head of this one, of which each by itself is as it should
/// be.
#[test]
fn chunks_of_another_state_are_refused() {
    let (root, list) = small_chunks();
    let mut store = KeyValue::new();
    store.restore(&mut list.clone().into_iter()).expect("a snapshot");
    // In the middle: those below it stay as they were, and their proof does not.
    set(&mut store, &20u32.to_be_bytes(), b"something else");
    assert_ne!(store.root(), root);
    let other = chunks(&*store.snapshot());
    assert_eq!(refused(root, &other).map(|(chunk, _)| chunk), Some(0));
    let mixed: Vec<Bytes> = list[..1].iter().chain(&other[1..]).cloned().collect();
    assert_eq!(refused(root, &mixed).map(|(chunk, _)| chunk), Some(1));
}

#[test]
fn an_empty_state_is_one_chunk() {
    let mut store = KeyValue::new();
    let list = chunks(&*store.snapshot());
    assert_eq!(list.len(), 1);
    assert_eq!(refused(store.root(), &list), None);
    let more = [list[0].clone(), list[0].clone()];
    assert_eq!(refused(store.root(), &more).map(|(chunk, _)| chunk), Some(1));
}

#[test]
fn a_value_of_a_kind_that_there_is_not_is_refused() {
    let mut store = KeyValue::new();
    one(&mut store, |out| encode::h_set(out, b"h", [&b"a"[..], b"b"]));
    let list = chunks(&*store.snapshot());
    let mut bytes = list[0].to_vec();
    // Head 88, count 4, length 4, length of the key 4, key 1: the digest of the value does not tell
    // 2 from 3.
    assert_eq!(bytes[101], 2);
    bytes[101] = 3;
    let (chunk, reason) = refused(store.root(), &[bytes.into()]).expect("no kind");
    assert_eq!((chunk, reason.as_str()), (0, "a value of an unknown kind"));
}
