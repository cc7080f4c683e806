//! The store on disk against the store in memory: replies, roots and snapshots, block for block.
#![allow(missing_docs)]

mod support;

use proptest::collection::vec;
use proptest::prelude::*;
use quorate_app::kv::command::encode;
use quorate_app::kv::{Condition, Disk, KeyValue, Scan};
use quorate_core::state_machine::{Beside, Committed, Keeper, StateMachine};
use quorate_store::disk::Disk as _;
use support::folders::InMemory;
use support::ops::{Op, encode_op, op};
use support::{Owned, apply_raw, chunks, encoded, one};

fn encoded_block(ops: &[Op]) -> Vec<Vec<u8>> {
    let mut commands: Vec<_> = ops.iter().map(encode_op).collect();
    // In the order of the places, which both must share.
    for (cursor, count) in [(0, 3), (1 << 63, 5)] {
        let scan = Scan { cursor, count, kind: None, pattern: None };
        commands.push(encoded(|out| encode::scan(out, &scan)));
    }
    commands
}

fn keeper(store: &mut KeyValue<Disk>) -> &mut dyn Keeper {
    store.keeper().expect("a store on disk keeps its state")
}

fn commit(store: &mut KeyValue<Disk>, note: &[u8]) {
    let beside = Beside { note: Some(note), ..Beside::default() };
    kept(store, &beside);
}

/// Commits, all of it being kept.
fn kept(store: &mut KeyValue<Disk>, beside: &Beside<'_>) {
    let committed = keeper(store).commit(beside).expect("a commit");
    assert!(matches!(committed, Committed::Whole { .. }), "{committed:?}");
}

fn trail(store: &mut KeyValue<Disk>) -> Vec<Vec<u8>> {
    let mut trail = Vec::new();
    let read = keeper(store).trail(&mut |entry| {
        trail.push(entry.to_vec());
        true
    });
    read.expect("a trail");
    trail
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn both_do_the_same(blocks in vec((vec(op(), 0..12), 0u8..4), 1..12)) {
        let folders = InMemory::default();
        let mut disk = KeyValue::on_disk(&folders.shelf());
        let mut memory = KeyValue::new();
        let mut held = None;
        for (height, (ops, action)) in blocks.iter().enumerate() {
            let height = height as u64;
            let commands = encoded_block(ops);
            let commands: Vec<_> = commands.iter().map(Vec::as_slice).collect();
            let replies = apply_raw(&mut memory, height, &commands);
            prop_assert_eq!(&apply_raw(&mut disk, height, &commands), &replies);
            prop_assert_eq!(disk.len(), memory.len());
            // Before the commit as well as behind it.
            prop_assert_eq!(chunks(&*disk.snapshot()), chunks(&*memory.snapshot()));
            commit(&mut disk, &height.to_le_bytes());
            prop_assert_eq!(disk.root(), memory.root());
            match action {
                0 => held = Some((disk.snapshot(), chunks(&*memory.snapshot()))),
                1 => {
                    // Both have the store open, which one process at a time may.
                    held = None;
                    drop(disk);
                    disk = KeyValue::on_disk(&folders.shelf());
                    prop_assert!(keeper(&mut disk).turn_back().unwrap());
                    let note = keeper(&mut disk).note().unwrap();
                    prop_assert_eq!(note.as_deref(), Some(&height.to_le_bytes()[..]));
                    prop_assert_eq!(disk.root(), memory.root());
                    prop_assert_eq!(disk.len(), memory.len());
                }
                2 => {
                    // Each takes over what the other has.
                    let (mine, theirs) = (disk.snapshot(), memory.snapshot());
                    memory = KeyValue::new();
                    memory.restore(&mut chunks(&*mine).into_iter()).unwrap();
                    disk = KeyValue::on_disk(&folders.shelf());
                    disk.restore(&mut chunks(&*theirs).into_iter()).unwrap();
                    prop_assert_eq!(disk.root(), memory.root());
                }
                _ => {}
            }
            if let Some((frozen, expected)) = &held {
                prop_assert_eq!(&chunks(&**frozen), expected);
                prop_assert_eq!(frozen.failure(), None);
            }
        }
        prop_assert_eq!(chunks(&*disk.snapshot()), chunks(&*memory.snapshot()));
    }

    #[test]
    fn queries_are_answered_alike(writes in vec(op(), 0..30), question in op(), commit: bool) {
        let mut disk = KeyValue::on_disk(&InMemory::default().shelf());
        let mut memory = KeyValue::new();
        for op in &writes {
            apply_raw(&mut disk, 1, &[&encode_op(op)]);
            apply_raw(&mut memory, 1, &[&encode_op(op)]);
        }
        if commit {
            let _ = keeper(&mut disk).commit(&Beside::default()).unwrap();
        }
        let question = encode_op(&question);
        prop_assert_eq!(disk.query(&question), memory.query(&question));
    }
}

fn set(store: &mut dyn StateMachine, key: &[u8], value: &[u8]) -> Owned {
    one(store, |out| encode::set(out, key, value, Condition::Always, false))
}

fn fill(store: &mut dyn StateMachine, keys: u32) {
    let pairs: Vec<_> = (0..2 * keys).map(|n| (n / 2 * 7 + n % 2).to_be_bytes()).collect();
    for some in pairs.chunks(2000) {
        let some = some.iter().map(<[u8; 4]>::as_slice);
        assert_eq!(one(store, |out| encode::m_set(out, some)), Owned::Ok);
    }
}

#[test]
fn removing_very_many_keys_begins_another_store() {
    let folders = InMemory::default();
    let (mut disk, mut memory) = (KeyValue::on_disk(&folders.shelf()), KeyValue::new());
    fill(&mut disk, 10_001);
    fill(&mut memory, 10_001);
    let first = Beside {
        note: Some(b"first"),
        entries: &[&[b"of the ", b"first"]],
        begins: true,
        turns: true,
    };
    kept(&mut disk, &first);
    assert_eq!(disk.root(), memory.root());
    let before = disk.snapshot();
    for store in [&mut disk as &mut dyn StateMachine, &mut memory] {
        assert_eq!(one(store, encode::flush_all), Owned::Ok);
        assert_eq!(set(store, b"after", b"all"), Owned::Ok);
    }
    assert_eq!(folders.numbers(), [1]);
    // The trail does not come along: what was kept counts until another is begun.
    let second = Beside { note: Some(b"second"), entries: &[&[b"lost"]], ..Beside::default() };
    assert_eq!(keeper(&mut disk).commit(&second), Ok(Committed::Anew));
    assert_eq!(folders.numbers(), [1, 2]);
    assert_eq!(disk.root(), memory.root());
    assert_eq!(keeper(&mut disk).commit(&second), Ok(Committed::Anew));
    assert_eq!(keeper(&mut disk).note(), Ok(None));
    let begins = Beside { entries: &[&[b"of the second"]], begins: true, ..Beside::default() };
    kept(&mut disk, &begins);
    assert_eq!(folders.numbers(), [1, 2]);
    let turns = Beside { note: Some(b"second"), turns: true, ..Beside::default() };
    kept(&mut disk, &turns);
    assert_eq!(folders.numbers(), [2]);
    assert_eq!(disk.root(), memory.root());
    drop(disk);
    let mut disk = KeyValue::on_disk(&folders.shelf());
    assert!(keeper(&mut disk).turn_back().unwrap());
    assert_eq!(keeper(&mut disk).note().unwrap().as_deref(), Some(&b"second"[..]));
    assert_eq!(trail(&mut disk), [b"of the second"]);
    assert_eq!((disk.len(), disk.root()), (1, memory.root()));
    // Who holds the old state has it still.
    let mut past = KeyValue::new();
    past.restore(&mut chunks(&*before).into_iter()).unwrap();
    assert_eq!(past.len(), 10_001);
}

#[test]
fn what_cannot_be_taken_over_leaves_what_is_there() {
    let folders = InMemory::default();
    let shelf = folders.shelf();
    let mut disk = KeyValue::on_disk(&shelf);
    set(&mut disk, b"k", b"v");
    commit(&mut disk, b"head");
    let root = disk.root();
    let mut other = KeyValue::new();
    fill(&mut other, 3000);
    let mut cut = chunks(&*other.snapshot());
    let last = cut.pop().unwrap();
    cut.push(last.slice(..last.len() - 1));
    let mut taken = KeyValue::on_disk(&shelf);
    assert!(taken.restore(&mut cut.into_iter()).is_err());
    assert_eq!(folders.numbers(), [1, 2]);
    drop(taken);
    assert_eq!(folders.numbers(), [1]);
    // Nor does one that was whole, and was not gone on from.
    let mut taken = KeyValue::on_disk(&shelf);
    taken.restore(&mut chunks(&*other.snapshot()).into_iter()).unwrap();
    assert_eq!(taken.root(), other.root());
    drop(taken);
    assert_eq!(folders.numbers(), [1]);
    set(&mut disk, b"k2", b"v");
    let _ = keeper(&mut disk).commit(&Beside::default()).unwrap();
    assert_ne!(disk.root(), root);
}

#[test]
fn damage_is_told_at_the_commit_and_where() {
    let folders = InMemory::default();
    let mut disk = KeyValue::on_disk(&folders.shelf());
    set(&mut disk, b"k", &[b'v'; 500]);
    // Those in front of it are read at the start.
    fill(&mut disk, 20);
    commit(&mut disk, b"head");
    drop(disk);
    // The newest commit is in the log; another opening writes it out, and the third one reads it there.
    let memory = folders.0.lock().unwrap()[&1].clone();
    let options = support::folders::small();
    let options = quorate_store::lazy_trie::Options {
        authenticated: true,
        value_digest: Some(|_, digests| digests.fill([1; 32])),
        ..options
    };
    let open = || {
        quorate_store::lazy_trie::Store::open_on(
            std::sync::Arc::new(memory.clone()),
            options.clone(),
        )
    };
    open().unwrap().0.checkpoint().unwrap();
    let name = "000000.space";
    let content = memory.content(name).unwrap();
    let at = content.windows(100).position(|bytes| bytes == [b'v'; 100]).unwrap();
    memory.flip_bit(name, at as u64, 3).unwrap();
    assert!(memory.list().unwrap().contains(&name.to_owned()));

    let mut disk = KeyValue::on_disk(&folders.shelf());
    assert!(keeper(&mut disk).turn_back().unwrap());
    // The answer is not to be believed, and does not get far.
    one(&mut disk, |out| encode::get(out, b"k"));
    let error = keeper(&mut disk).commit(&Beside::default()).unwrap_err().to_string();
    assert!(error.contains("state/000001") && error.contains(name), "{error}");
    assert!(error.contains("damaged at offset"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    /// Longer than what is read ahead of being executed.
    #[test]
    fn both_do_the_same_with_long_blocks(blocks in vec(vec(op(), 60..200), 1..4)) {
        let folders = InMemory::default();
        let mut disk = KeyValue::on_disk(&folders.shelf());
        let mut memory = KeyValue::new();
        for (height, ops) in blocks.iter().enumerate() {
            let height = height as u64;
            let commands = encoded_block(ops);
            let commands: Vec<_> = commands.iter().map(Vec::as_slice).collect();
            let replies = apply_raw(&mut memory, height, &commands);
            prop_assert_eq!(apply_raw(&mut disk, height, &commands), replies);
            commit(&mut disk, &height.to_le_bytes());
            prop_assert_eq!(disk.root(), memory.root());
            prop_assert_eq!(disk.len(), memory.len());
        }
    }
}
