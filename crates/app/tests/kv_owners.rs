//! Quotas of stored bytes: who owns an entry, and what a key may own.
#![allow(missing_docs)]

mod support;

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use quorate_app::kv::command::encode;
use quorate_app::kv::quotas::{MAX_KEYS_ASKED, answer, question};
use quorate_app::kv::{Condition, Disk, FIELD_BYTES, KEY_BYTES, KeyValue, Reply};
use quorate_core::base::crypto::PublicKey;
use quorate_core::ledger::clients::Grant;
use quorate_core::ledger::state_machine::{Caller, Decided, Keeper, Replies, StateMachine};
use quorate_core::{Height, View};
use support::folders::InMemory;
use support::ops::{Op, encode_op, op};
use support::{Owned, chunks, encoded, owned};

/// A client: its key is its letter; the quota, if it has one.
type Client = (u8, Option<u64>);

/// One entry with an empty value under a key of one byte.
const ENTRY: u64 = KEY_BYTES as u64 + 1;
const FIELD: u64 = FIELD_BYTES as u64 + 1;

/// Executes a block; each command is of a client.
fn apply(store: &mut dyn StateMachine, height: u64, commands: &[(Client, Vec<u8>)]) -> Vec<Owned> {
    let texts: Vec<&[u8]> = commands.iter().map(|(_, command)| command.as_slice()).collect();
    let keys: Vec<_> = commands.iter().map(|((letter, _), _)| PublicKey([*letter; 32])).collect();
    let grant = |quota: Option<u64>| Grant {
        stored_bytes: quota.and_then(NonZeroU64::new),
        ..Grant::default()
    };
    let grants: Vec<_> = commands.iter().map(|((_, quota), _)| grant(*quota)).collect();
    let callers: Vec<_> =
        keys.iter().zip(&grants).map(|(key, grant)| Caller { key, grant: Some(grant) }).collect();
    let mut replies = Replies::default();
    let (height, view) = (Height(height), View(height));
    let block = Decided { height, view, rules: 1, commands: &texts, callers: &callers };
    store.apply(&block, &mut replies);
    replies.iter().map(|reply| owned(&Reply::decode(reply).expect("a reply"))).collect()
}

fn one(store: &mut dyn StateMachine, client: Client, command: Vec<u8>) -> Owned {
    apply(store, 1, &[(client, command)]).remove(0)
}

fn set(key: &str, bytes: usize) -> Vec<u8> {
    encoded(|out| encode::set(out, key.as_bytes(), &vec![b'x'; bytes], Condition::Always, false))
}

fn del(key: &str) -> Vec<u8> {
    encoded(|out| encode::del(out, [key.as_bytes()]))
}

fn is_refused(reply: &Owned) -> bool {
    matches!(reply, Owned::Error(text) if text.contains("bytes of its quota of"))
}

/// Either storage.
fn each(test: impl Fn(&mut dyn StateMachine)) {
    test(&mut KeyValue::new());
    test(&mut KeyValue::on_disk(&InMemory::default().shelf()));
}

/// What each key owns, read off the snapshot: it is nowhere else.
fn owned_bytes(store: &dyn StateMachine) -> BTreeMap<u8, u64> {
    let mut sums = BTreeMap::new();
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
    for (number, chunk) in chunks(&*store.snapshot()).iter().enumerate() {
        let mut rest = &chunk[if number == 0 { 16 + 32 + 40 } else { 0 }..];
        let count = word(rest);
        rest = &rest[4..];
        for _ in 0..count {
            let entry = &rest[4..4 + word(rest)];
            rest = &rest[4 + entry.len()..];
            let (key, written) = entry[4..].split_at(word(entry));
            let body = match written[0] {
                1 | 2 => continue,
                _ => &written[33..],
            };
            let fields = |body: &[u8]| {
                let (mut count, mut at) = (0, 0);
                while at < body.len() {
                    at += 4 + word(&body[at..]);
                    at += 4 + word(&body[at..]);
                    count += 1;
                }
                count * (FIELD_BYTES as u64 - 8)
            };
            let beside = if written[0] == 4 { fields(body) } else { 0 };
            let used = (KEY_BYTES + key.len() + body.len()) as u64 + beside;
            *sums.entry(written[1]).or_default() += used;
        }
    }
    sums
}

#[test]
fn what_a_key_stores_ends_at_its_quota_and_what_it_removes_is_free_at_once() {
    each(|store| {
        let client = (b'A', Some(2 * ENTRY + 10));
        assert_eq!(one(store, client, set("a", 10)), Owned::Ok);
        assert_eq!(one(store, client, set("b", 0)), Owned::Ok, "to the last byte");
        store.root();
        let before = support::map_root(store);
        let refused = one(store, client, set("c", 0));
        let (stored, quota) = (2 * ENTRY + 10, 2 * ENTRY + 10);
        let expected = format!(
            "OOM command not allowed: this client stores {stored} bytes of its quota of {quota}; \
             remove keys that it wrote first"
        );
        assert_eq!(refused, Owned::Error(expected));
        for write in [
            set("a", 11),
            encoded(|out| encode::append(out, b"b", b"x")),
            encoded(|out| encode::incr_by(out, b"n", 1)),
            encoded(|out| encode::m_set(out, [&b"a"[..], b"0123456789", b"b", b"x"])),
            encoded(|out| encode::h_set(out, b"h", [&b"f"[..], b""])),
            encoded(|out| encode::h_incr_by(out, b"h", b"f", 1)),
        ] {
            assert!(is_refused(&one(store, client, write.clone())), "{write:?}");
        }
        assert_eq!(one(store, (b'N', None), set("z", 100)), Owned::Ok, "others go on");
        one(store, (b'N', None), del("z"));
        // A value may be replaced where there is no room for a second one.
        assert_eq!(one(store, client, set("a", 10)), Owned::Ok);
        store.root();
        assert_eq!(support::map_root(store), before, "what is refused has no effect");
        let freed = [(client, del("a")), (client, set("c", 10)), (client, set("d", 0))];
        let replies = apply(store, 2, &freed);
        assert_eq!(replies[..2], [Owned::Integer(1), Owned::Ok], "in the same block");
        assert!(is_refused(&replies[2]));
        let get_del = encoded(|out| encode::get_del(out, b"b"));
        assert_eq!(one(store, client, get_del), Owned::Bulk(Vec::new()));
        assert_eq!(one(store, client, set("d", 0)), Owned::Ok);
        store.root();
        assert_eq!(owned_bytes(store), BTreeMap::from([(b'A', quota)]));
    });
}

#[test]
fn an_entry_belongs_to_the_key_that_wrote_it_last() {
    each(|store| {
        let (a, b, nobody) = ((b'A', Some(1000)), (b'B', Some(1000)), (b'N', None));
        one(store, a, set("k", 600));
        assert!(is_refused(&one(store, a, set("l", 600))));
        // B takes it over with one byte, and pays for the whole.
        let append = encoded(|out| encode::append(out, b"k", b"x"));
        assert_eq!(one(store, b, append.clone()), Owned::Integer(601));
        assert!(is_refused(&one(store, b, set("l", 600))));
        assert_eq!(one(store, a, set("l", 600)), Owned::Ok, "A has room again");
        // It has none for both.
        assert!(is_refused(&one(store, a, append.clone())), "601 + 600");
        // Who has no quota owns nothing.
        assert_eq!(one(store, nobody, append), Owned::Integer(602));
        store.root();
        assert_eq!(owned_bytes(store), BTreeMap::from([(b'A', ENTRY + 600)]));
        assert_eq!(one(store, b, set("m", 600)), Owned::Ok);
        // What others remove is free from the next block on.
        let replies = apply(store, 2, &[(nobody, del("m")), (b, set("n", 600))]);
        assert!(is_refused(&replies[1]), "{replies:?}");
        assert_eq!(one(store, b, set("n", 600)), Owned::Ok);
        // To remove all is free at once.
        let flush = encoded(encode::flush_all);
        let replies = apply(store, 3, &[(nobody, flush), (b, set("n", 600)), (a, set("l", 600))]);
        assert_eq!(replies, [Owned::Ok, Owned::Ok, Owned::Ok]);
    });
}

#[test]
fn a_hash_belongs_to_who_set_a_field_last_and_keeps_its_owner_when_it_loses_some() {
    each(|store| {
        let h_set = |fields: &[&[u8]]| encoded(|out| encode::h_set(out, b"h", fields.to_vec()));
        let (a, b) = ((b'A', Some(ENTRY + 2 * FIELD)), (b'B', Some(ENTRY + 3 * FIELD)));
        assert_eq!(one(store, a, h_set(&[b"f", b"", b"g", b""])), Owned::Integer(2));
        assert!(is_refused(&one(store, a, h_set(&[b"i", b""]))));
        assert_eq!(one(store, a, h_set(&[b"f", b""])), Owned::Integer(0), "nothing is added");
        assert!(is_refused(&one(store, a, encoded(|out| encode::h_incr_by(out, b"h", b"n", 1)))));
        assert_eq!(one(store, b, h_set(&[b"i", b""])), Owned::Integer(1));
        store.root();
        assert_eq!(owned_bytes(store), BTreeMap::from([(b'B', ENTRY + 3 * FIELD)]));
        let h_del = |fields: &[&[u8]]| encoded(|out| encode::h_del(out, b"h", fields.to_vec()));
        assert_eq!(one(store, a, h_del(&[b"f", b"g"])), Owned::Integer(2));
        store.root();
        assert_eq!(owned_bytes(store), BTreeMap::from([(b'B', ENTRY + FIELD)]));
        assert_eq!(one(store, b, h_del(&[b"i"])), Owned::Integer(1));
        let all = [&b"f"[..], b"g", b"i"].map(|name| [name, b""]).concat();
        assert_eq!(one(store, b, h_set(&all)), Owned::Integer(3), "the key went with its fields");
    });
}

/// The same, as a replica tells it: from the state, and from one that was frozen.
fn told_bytes(store: &dyn StateMachine) -> BTreeMap<u8, u64> {
    let letters = b"ABCN";
    let question = question(&letters.map(|letter| PublicKey([letter; 32])));
    let told = store.query(&question);
    let frozen = store.reader().expect("a frozen state").answer(&question).expect("an answer");
    assert_eq!(told, frozen);
    let told = answer(&told, letters.len()).expect("a figure for each key");
    letters.iter().copied().zip(told).filter(|(_, bytes)| *bytes > 0).collect()
}

/// Only as a question: an ordered one is answered as releases without it do.
#[test]
fn what_keys_have_stored_is_told_to_anybody_who_asks() {
    each(|store| {
        one(store, (b'A', Some(1000)), set("k", 5));
        let keys = [b'A', b'B'].map(|letter| PublicKey([letter; 32]));
        store.root();
        let told = |store: &dyn StateMachine, keys: &[PublicKey]| {
            answer(&store.query(&question(keys)), keys.len())
        };
        assert_eq!(told(store, &keys), Some(vec![ENTRY + 5, 0]));
        assert_eq!(told(store, &[]), Some(Vec::new()));
        assert!(told(store, &vec![keys[0]; MAX_KEYS_ASKED]).is_some());
        assert_eq!(told(store, &vec![keys[0]; MAX_KEYS_ASKED + 1]), None);
        let cut = &question(&keys)[..40];
        let refused = owned(&Reply::decode(&store.query(cut)).expect("a reply"));
        assert!(matches!(refused, Owned::Error(_)), "{refused:?}");
        let ordered = one(store, (b'N', None), question(&keys));
        assert_eq!(ordered, Owned::Error("ERR malformed command: invalid opcode".to_owned()));
    });
}

/// Blocks of commands, each by one of four clients; what happens behind the block.
fn blocks() -> impl Strategy<Value = Vec<(Vec<(usize, Op)>, u8)>> {
    vec((vec((0..4usize, op()), 0..12), 0u8..4), 1..12)
}

const CLIENTS: [Client; 4] =
    [(b'A', Some(700)), (b'B', Some(1500)), (b'C', Some(1_000_000)), (b'N', None)];

fn keeper(store: &mut KeyValue<Disk>) -> &mut dyn Keeper {
    store.keeper().expect("a store on disk keeps its state")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Nobody ever owns more than its quota. Both storages do the same, restarts from checkpoints
    /// and states taken over from each other included.
    #[test]
    fn no_key_owns_more_than_its_quota_and_both_storages_agree(blocks in blocks()) {
        let folders = InMemory::default();
        let mut disk = KeyValue::on_disk(&folders.shelf());
        let mut memory = KeyValue::new();
        for (height, (ops, action)) in blocks.iter().enumerate() {
            let height = height as u64;
            let commands: Vec<_> =
                ops.iter().map(|(client, op)| (CLIENTS[*client], encode_op(op))).collect();
            let replies = apply(&mut memory, height, &commands);
            prop_assert_eq!(&apply(&mut disk, height, &commands), &replies);
            keeper(&mut disk).check().unwrap();
            prop_assert_eq!(disk.root(), memory.root());
            prop_assert_eq!(chunks(&*disk.snapshot()), chunks(&*memory.snapshot()));
            prop_assert_eq!(told_bytes(&memory), owned_bytes(&memory));
            prop_assert_eq!(told_bytes(&disk), owned_bytes(&memory));
            for (owner, bytes) in owned_bytes(&memory) {
                let quota = CLIENTS.iter().find(|(letter, _)| *letter == owner).unwrap().1;
                prop_assert!(quota.is_some_and(|quota| bytes <= quota), "{owner}: {bytes}");
            }
            match action {
                0 => {
                    let mut begun = keeper(&mut disk).begin_checkpoint(b"note").unwrap();
                    begun.finish().unwrap();
                    drop(begun);
                    drop(disk);
                    disk = KeyValue::on_disk(&folders.shelf());
                    drop(keeper(&mut disk).turn_back().unwrap().expect("a checkpoint"));
                }
                1 => {
                    let (mine, theirs) = (disk.snapshot(), memory.snapshot());
                    memory = KeyValue::new();
                    memory.restore(&mut chunks(&*mine).into_iter()).unwrap();
                    disk = KeyValue::on_disk(&folders.shelf());
                    disk.restore(&mut chunks(&*theirs).into_iter()).unwrap();
                }
                _ => {}
            }
        }
    }
}

/// A chunk whose owner was changed is refused: the root covers owners.
#[test]
fn the_root_covers_who_owns_an_entry() {
    let mut store = KeyValue::new();
    one(&mut store, (b'A', Some(1000)), set("k", 5));
    let mut same = KeyValue::new();
    one(&mut same, (b'B', Some(1000)), set("k", 5));
    assert_ne!(support::map_root(&store), support::map_root(&same));
    let snapshot = chunks(&*store.snapshot());
    let forged: Vec<u8> =
        snapshot[0].iter().map(|byte| byte ^ (u8::from(*byte == b'A') * 3)).collect();
    assert_ne!(snapshot[0], forged);
    let mut taken = KeyValue::new();
    assert!(taken.restore(&mut [Bytes::from(forged)].into_iter()).is_err());
    assert!(taken.restore(&mut snapshot.into_iter()).is_ok());
    let more = one(&mut taken, (b'A', Some(300)), set("l", 0));
    assert!(is_refused(&more), "what was taken over counts: {more:?}");
}
