//! The store on disk against the store in memory: replies, roots and snapshots, block for block.
#![allow(missing_docs)]

mod support;

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use quorate_app::kv::command::encode;
use quorate_app::kv::disk::Shelf;
use quorate_app::kv::{Condition, Disk, KeyValue, Scan};
use quorate_core::ledger::state_machine::{Checkpoint, Keeper, Restorer as _, StateMachine};
use support::folders::InMemory;
use support::ops::{Op, encode_op, op};
use support::{Owned, apply, apply_raw, chunks, encoded, one};

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

/// A checkpoint, finished.
fn checkpoint(store: &mut KeyValue<Disk>, note: &[u8]) -> Box<dyn Checkpoint> {
    let mut begun = keeper(store).begin_checkpoint(note).expect("a checkpoint");
    begun.finish().expect("it is finished");
    begun
}

/// What another process finds.
fn reopened(folders: &InMemory) -> (KeyValue<Disk>, Vec<u8>) {
    let mut disk = KeyValue::on_disk(&folders.shelf());
    let left = keeper(&mut disk).turn_back().unwrap().expect("a checkpoint");
    (disk, left.note.to_vec())
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
            keeper(&mut disk).check().unwrap();
            prop_assert_eq!(disk.root(), memory.root());
            prop_assert_eq!(chunks(&*disk.snapshot()), chunks(&*memory.snapshot()));
            match action {
                0 => held = Some((disk.snapshot(), chunks(&*memory.snapshot()))),
                1 => {
                    // Both have the store open, which one process at a time may.
                    held = None;
                    drop(checkpoint(&mut disk, &height.to_le_bytes()));
                    drop(disk);
                    let note;
                    (disk, note) = reopened(&folders);
                    prop_assert_eq!(&note, &height.to_le_bytes());
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
            keeper(&mut disk).check().unwrap();
        }
        let question = encode_op(&question);
        prop_assert_eq!(disk.query(&question), memory.query(&question));
    }
}

fn set(store: &mut dyn StateMachine, key: &[u8], value: &[u8]) -> Owned {
    one(store, |out| encode::set(out, key, value, Condition::Always, false))
}

/// A store with a key, and a checkpoint of that.
fn with_head(shelf: &Arc<Shelf>) -> KeyValue<Disk> {
    let mut disk = KeyValue::on_disk(shelf);
    set(&mut disk, b"k", b"v");
    drop(checkpoint(&mut disk, b"head"));
    disk
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
    drop(checkpoint(&mut disk, b"first"));
    assert_eq!(disk.root(), memory.root());
    let before = disk.snapshot();
    for store in [&mut disk as &mut dyn StateMachine, &mut memory] {
        let flush = encoded(encode::flush_all);
        let set = encoded(|out| encode::set(out, b"after", b"all", Condition::Always, false));
        assert_eq!(apply(store, &[&flush, &set]), [Owned::Ok, Owned::Ok]);
    }
    assert_eq!(folders.numbers(), [1]);
    // What was kept counts until there is a checkpoint of the other.
    keeper(&mut disk).check().unwrap();
    assert_eq!(folders.numbers(), [1, 2]);
    assert_eq!(disk.root(), memory.root());
    let mut second = keeper(&mut disk).begin_checkpoint(b"second").unwrap();
    assert_eq!(folders.numbers(), [1, 2]);
    second.finish().unwrap();
    assert_eq!(folders.numbers(), [2]);
    assert_eq!(disk.root(), memory.root());
    drop((disk, second));
    let (mut disk, note) = reopened(&folders);
    assert_eq!(note, b"second");
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
    let mut disk = with_head(&shelf);
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
    keeper(&mut disk).check().unwrap();
    assert_ne!(disk.root(), root);
}

#[test]
fn what_is_not_committed_is_no_snapshot() {
    let mut disk = KeyValue::on_disk(&InMemory::default().shelf());
    set(&mut disk, b"k", b"v");
    let early = disk.snapshot();
    assert_eq!(chunks(&*early), Vec::<bytes::Bytes>::new());
    let reason = early.failure().expect("the root was not computed").to_string();
    assert!(reason.contains("not committed"), "{reason}");
    disk.root();
    assert_eq!(chunks(&*disk.snapshot()).len(), 1);
}

#[test]
fn a_store_that_is_half_filled_goes_with_who_fills_it() {
    let folders = InMemory::default();
    let shelf = folders.shelf();
    drop(with_head(&shelf));
    let mut other = KeyValue::new();
    for key in 0..60u32 {
        set(&mut other, &key.to_be_bytes(), &[key as u8; 100_000]);
    }
    let (root, list) = (other.root(), chunks(&*other.snapshot()));
    assert!(list.len() > 4);
    let mut taken = KeyValue::on_disk(&shelf);
    taken.begin(Some(root)).unwrap();
    list[..3].iter().for_each(|chunk| taken.take(chunk.clone()).unwrap());
    assert_eq!(folders.numbers(), [1, 2]);
    // Out of order: given up.
    assert!(taken.take(list[4].clone()).is_err());
    // Begun again, it leaves nothing of before.
    taken.begin(Some(root)).unwrap();
    assert_eq!(folders.numbers(), [1, 3]);
    list.iter().for_each(|chunk| taken.take(chunk.clone()).unwrap());
    taken.finish().unwrap();
    assert_eq!((taken.root(), taken.len()), (root, 60));
    drop(taken);
    assert_eq!(folders.numbers(), [1]);
}

#[test]
fn a_store_that_a_crash_left_half_filled_goes_at_the_next_start() {
    let folders = InMemory::default();
    let shelf = folders.shelf();
    let disk = with_head(&shelf);
    let mut taken = KeyValue::on_disk(&shelf);
    taken.begin(None).unwrap();
    taken.take(chunks(&*disk.snapshot()).remove(0)).unwrap();
    assert_eq!(folders.numbers(), [1, 2]);
    std::mem::forget(taken);
    drop((disk, shelf));
    let (_, note) = reopened(&folders);
    assert_eq!((note.as_slice(), folders.numbers()), (&b"head"[..], vec![1]));
}

/// A store that is begun meanwhile would have the one that is being filled removed.
#[test]
fn a_state_is_not_taken_over_beside_a_newer_store() {
    let folders = InMemory::default();
    let shelf = folders.shelf();
    let mut disk = KeyValue::on_disk(&shelf);
    fill(&mut disk, 10_001);
    drop(checkpoint(&mut disk, b"head"));
    let list = chunks(&*disk.snapshot());
    let mut taken = KeyValue::on_disk(&shelf);
    taken.begin(Some(disk.root())).unwrap();
    one(&mut disk, encode::flush_all);
    drop(checkpoint(&mut disk, b"another"));
    let error = taken.take(list[0].clone()).unwrap_err().to_string();
    assert!(error.contains("begun meanwhile"), "{error}");
}

#[test]
fn damage_is_told_behind_the_block_and_where() {
    let folders = InMemory::default();
    let mut disk = KeyValue::on_disk(&folders.shelf());
    set(&mut disk, b"k", &[b'v'; 500]);
    // Those in front of it are read at the start.
    fill(&mut disk, 20);
    drop(checkpoint(&mut disk, b"head"));
    drop(disk);
    let memory = folders.0.lock().unwrap()[&1].clone();
    let name = "000000.space";
    let content = memory.content(name).unwrap();
    let at = content.windows(100).position(|bytes| bytes == [b'v'; 100]).unwrap();
    memory.flip_bit(name, at as u64, 3).unwrap();

    let (mut disk, _) = reopened(&folders);
    // The answer is not to be believed, and does not get far.
    one(&mut disk, |out| encode::get(out, b"k"));
    let error = keeper(&mut disk).check().unwrap_err().to_string();
    assert!(error.contains("state/000001") && error.contains(name), "{error}");
    assert!(error.contains("damaged at offset"), "{error}");
    assert!(keeper(&mut disk).begin_checkpoint(b"no more").is_err());
}

#[test]
fn a_checkpoint_can_be_read_until_another_is_finished() {
    let folders = InMemory::default();
    let mut disk = KeyValue::on_disk(&folders.shelf());
    let mut memory = KeyValue::new();
    let both = |disk: &mut KeyValue<Disk>, memory: &mut KeyValue, from: u32| {
        for key in from..from + 50 {
            set(disk, &key.to_be_bytes(), &[key as u8; 60]);
            set(memory, &key.to_be_bytes(), &[key as u8; 60]);
            keeper(disk).check().unwrap();
        }
    };
    both(&mut disk, &mut memory, 0);
    let first = checkpoint(&mut disk, b"first");
    let first_chunks = chunks(&*memory.snapshot());
    // Whatever is committed since, slots being used again.
    for round in 0..40 {
        both(&mut disk, &mut memory, round % 3 * 25);
    }
    assert_eq!(chunks(&*first.snapshot().unwrap()), first_chunks);
    let second = keeper(&mut disk).begin_checkpoint(b"second").unwrap();
    let second_chunks = chunks(&*memory.snapshot());
    assert_eq!(chunks(&*first.snapshot().unwrap()), first_chunks);
    let held = first.snapshot().unwrap();
    let mut second = second;
    second.finish().unwrap();
    for round in 0..40 {
        both(&mut disk, &mut memory, round % 5 * 25);
    }
    assert_eq!(chunks(&*held), first_chunks);
    assert!(first.snapshot().is_err());
    assert_eq!(chunks(&*second.snapshot().unwrap()), second_chunks);
    drop((disk, first, second, held));
    // Of what came behind the last checkpoint there is nothing.
    let (disk, note) = reopened(&folders);
    assert_eq!((note, chunks(&*disk.snapshot())), (b"second".to_vec(), second_chunks));
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
            keeper(&mut disk).check().unwrap();
            prop_assert_eq!(disk.root(), memory.root());
            prop_assert_eq!(disk.len(), memory.len());
        }
    }
}
