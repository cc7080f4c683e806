//! The limit of what the state may take.
#![allow(missing_docs)]

mod support;

use proptest::collection::vec;
use proptest::prelude::*;
use quorate_app::kv::command::encode;
use quorate_app::kv::{Condition, FIELD_BYTES, KEY_BYTES, KeyValue};
use quorate_core::ledger::state_machine::{Keeper, StateMachine, Usage};
use support::folders::InMemory;
use support::ops::{encode_op, op};
use support::{Owned, apply, apply_raw, chunks, encoded, one};

fn set(store: &mut dyn StateMachine, key: &[u8], value: &[u8]) -> Owned {
    one(store, |out| encode::set(out, key, value, Condition::Always, false))
}

fn full(reply: &Owned) -> bool {
    matches!(reply, Owned::Error(message) if message.starts_with("OOM command not allowed"))
}

fn used(store: &dyn StateMachine) -> u64 {
    store.usage().expect("it counts").used_bytes
}

/// Both storages with the same limit.
fn each(limit: u64, test: impl Fn(&mut dyn StateMachine)) {
    test(&mut KeyValue::new().limited_to(limit));
    let folders = InMemory::default();
    test(&mut KeyValue::on_disk(&folders.shelf()).limited_to(limit));
}

const ENTRY: u64 = KEY_BYTES as u64 + 1;

#[test]
fn at_the_limit_is_allowed_and_one_byte_above_is_not() {
    each(2 * ENTRY + 10, |store| {
        assert_eq!(set(store, b"a", b""), Owned::Ok);
        assert!(full(&set(store, b"b", b"12345678901")), "one above");
        assert_eq!(set(store, b"b", b"1234567890"), Owned::Ok);
        let root = store.root();
        assert_eq!(used(store), 2 * ENTRY + 10);
        for write in [
            encoded(|out| encode::set(out, b"c", b"", Condition::Always, false)),
            encoded(|out| encode::set(out, b"a", b"x", Condition::Present, false)),
            encoded(|out| encode::m_set(out, [&b"a"[..], b"x"])),
            encoded(|out| encode::append(out, b"a", b"x")),
            encoded(|out| encode::incr_by(out, b"n", 1)),
            encoded(|out| encode::h_set(out, b"h", [&b"f"[..], b""])),
            encoded(|out| encode::h_incr_by(out, b"h", b"f", 1)),
        ] {
            assert!(full(&apply(store, &[&write])[0]), "{write:?}");
        }
        assert_eq!(store.root(), root, "what is refused has no effect");
        // What does not write goes on.
        assert_eq!(one(store, |out| encode::get(out, b"a")), Owned::Bulk(vec![]));
        let absent = one(store, |out| encode::set(out, b"a", b"x", Condition::Absent, false));
        assert_eq!(absent, Owned::Nil);
        // What removes makes room for the next block.
        let delete = encoded(|out| encode::del(out, [&b"b"[..]]));
        let again = encoded(|out| encode::set(out, b"c", b"1234567890", Condition::Always, false));
        let replies = apply(store, &[&delete, &again]);
        assert!(replies[0] == Owned::Integer(1) && full(&replies[1]), "{replies:?}");
        assert_eq!(apply(store, &[&again]), [Owned::Ok]);
        // To remove all makes room at once.
        let flush = encoded(encode::flush_all);
        assert_eq!(apply(store, &[&flush, &again]), [Owned::Ok, Owned::Ok]);
        store.root();
        assert_eq!(used(store), ENTRY + 10);
    });
}

#[test]
fn fields_count_and_deleting_them_works_at_the_limit() {
    let field = FIELD_BYTES as u64 + 2;
    each(ENTRY + 2 * field, |store| {
        let two = [&b"f"[..], b"1", b"g", b"2"];
        assert_eq!(one(store, |out| encode::h_set(out, b"h", two)), Owned::Integer(2));
        assert!(full(&one(store, |out| encode::h_set(out, b"h", [&b"i"[..], b""]))));
        assert_eq!(one(store, |out| encode::h_del(out, b"h", [&b"f"[..]])), Owned::Integer(1));
        store.root();
        assert_eq!(used(store), ENTRY + field);
        assert_eq!(
            one(store, |out| encode::h_set(out, b"h", [&b"i"[..], b"3"])),
            Owned::Integer(1)
        );
        assert_eq!(one(store, |out| encode::get_del(out, b"none")), Owned::Nil);
    });
}

#[test]
fn a_block_writes_no_more_than_there_was_room_for_before_it() {
    each(10 * ENTRY, |store| {
        let write = encoded(|out| encode::set(out, b"a", b"", Condition::Always, false));
        let replies = apply(store, &[&write[..]; 12]);
        let written = replies.iter().filter(|reply| **reply == Owned::Ok).count();
        assert_eq!(written, 10, "overwriting counts as writing, within a block");
        assert_eq!(apply(store, &[&write[..]; 9]), vec![Owned::Ok; 9]);
    });
}

#[test]
fn a_checkpoint_knows_what_its_entries_take() {
    let folders = InMemory::default();
    let mut disk = KeyValue::on_disk(&folders.shelf());
    set(&mut disk, b"a", b"some");
    one(&mut disk, |out| encode::h_set(out, b"h", [&b"f"[..], b"v"]));
    disk.root();
    let usage = disk.usage();
    let keeper = disk.keeper().expect("it keeps");
    keeper.begin_checkpoint(b"note").and_then(|mut begun| begun.finish()).expect("kept");
    assert_eq!(disk.len(), 2);
    drop(disk);
    let mut again = KeyValue::on_disk(&folders.shelf());
    assert!(Keeper::turn_back(again.keeper().expect("it keeps")).expect("read").is_some());
    assert_eq!((again.usage(), again.len()), (usage, 2));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Whatever is done: both storages count the same, as does one that was built of the content
    /// alone, and never more than the limit.
    #[test]
    fn use_is_a_function_of_the_state(
        blocks in vec(vec(op(), 1..12), 1..8),
        limit in 0u64..6000,
    ) {
        let folders = InMemory::default();
        let mut memory = KeyValue::new().limited_to(limit);
        let mut disk = KeyValue::on_disk(&folders.shelf()).limited_to(limit);
        for (height, ops) in blocks.iter().enumerate() {
            let commands: Vec<_> = ops.iter().map(encode_op).collect();
            let commands: Vec<_> = commands.iter().map(Vec::as_slice).collect();
            let replies = apply_raw(&mut memory, height as u64, &commands);
            prop_assert_eq!(apply_raw(&mut disk, height as u64, &commands), replies);
            prop_assert_eq!(memory.root(), disk.root());
            prop_assert_eq!(memory.usage(), disk.usage());
            let Some(Usage { used_bytes, limit_bytes }) = memory.usage() else { panic!("it counts") };
            prop_assert!(used_bytes <= limit_bytes && limit_bytes == limit);
            let mut built = KeyValue::new();
            built.restore(&mut chunks(&*memory.snapshot()).into_iter()).expect("a snapshot");
            prop_assert_eq!(used(&built), used_bytes);
        }
    }
}
