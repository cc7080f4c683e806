//! Tests of what lanes and a divided tree leave to checkpoints, checks and other lanes.

use crate::random::{Model, content, small_options};
use quorate_store::disk::{CrashDisk, Disk, MemoryDisk};
use quorate_store::lazy_trie::{Batch, Durability, Error, Hash, Options, Store};
use std::sync::Arc;

/// Commits are not synced, because only such ones are made side by side.
fn options() -> Options {
    Options { durability: Durability::Os, ..small_options() }
}

/// A store of so many items that its tree is divided.
fn divided(options: &Options) -> Arc<Store> {
    let (store, _) = Store::open_on(Arc::new(MemoryDisk::new()), options.clone()).unwrap();
    for number in 0..500u32 {
        store.put(&number.to_le_bytes(), b"first").unwrap();
    }
    Arc::new(store)
}

/// Each commit makes a checkpoint, so each second one divides the tree, and a checkpoint knows its
/// root. Two checkpoints of one version then follow each other, and a reader has the first.
#[test]
fn a_reader_of_a_checkpoint_keeps_its_root_when_the_tree_is_divided() {
    for puts in 0..2u32 {
        let store = divided(&Options { checkpoint_bytes: 1, ..options() });
        for number in 0..puts {
            store.put(&number.to_le_bytes(), b"first").unwrap();
        }
        let before = content(&store).unwrap();
        let held = store.checkpointed().unwrap();
        store.checkpoint().unwrap();
        for number in 0..500u32 {
            store.put(&number.to_le_bytes(), b"second").unwrap();
        }
        let there: Model = held
            .iter()
            .map(|item| item.map(|(hash, item)| (hash, item.value.to_vec())).unwrap())
            .collect();
        assert!(there == before);
        assert_eq!(store.check().unwrap().damage, []);
    }
}

#[test]
fn a_batch_that_fails_in_a_divided_tree_leaves_nothing_that_a_check_finds() {
    let store = divided(&options());
    let before = content(&store).unwrap();
    let mut batch = Batch::new();
    // Longer than a region.
    batch.put(b"too long", &vec![1; 70_000]).unwrap();
    assert!(matches!(store.write(&batch), Err(Error::TooLarge { .. })));
    assert_eq!(store.check().unwrap().damage, []);
    assert!(content(&store).unwrap() == before);
    store.put(b"next", b"one").unwrap();
    assert_eq!(store.check().unwrap().damage, []);
}

/// What lanes have at hand is a small part of the write buffer, whatever the size of items.
#[test]
fn slots_at_hand_do_not_use_up_the_write_buffer() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        slab_bytes: 16 << 10,
        region_bytes: 256 << 10,
        checkpoint_bytes: 4 << 20,
        ..options()
    };
    let (store, _) = Store::open(folder.path(), options.clone()).unwrap();
    for number in 0..500u32 {
        store.put(&number.to_le_bytes(), b"first").unwrap();
    }
    store.checkpoint().unwrap();
    store.put(b"divides", b"the tree").unwrap();
    let before = store.statistics();
    for number in 0..12u32 {
        // Two or three of them fill a slab.
        store.put(&number.to_le_bytes(), &vec![1; 4000 + 300 * number as usize]).unwrap();
    }
    let after = store.statistics();
    assert_eq!(after.checkpoints, before.checkpoints, "the write buffer was full");
}

/// There is room as long as any lane has some.
#[test]
fn a_full_space_has_no_free_slots_in_other_lanes() {
    let options = Options { limit_bytes: 256 << 10, checkpoint_bytes: 4 << 20, ..options() };
    let store = divided(&options);
    let value = [7; 500];
    std::thread::scope(|scope| {
        // The slots that it takes ahead stay in its lane.
        scope.spawn(|| store.put(b"another", &value).unwrap());
    });
    let mut put = 0u64..;
    let full = put.find_map(|number| store.put(&number.to_le_bytes(), &value).err()).unwrap();
    assert!(matches!(full, Error::LimitReached { .. }), "{full}");
    // All lanes give their slots back.
    let items = store.items();
    let still = store.put(&u64::MAX.to_le_bytes(), &value);
    assert!(matches!(still, Err(Error::LimitReached { .. })), "there was room for {items} and one");
    assert_eq!(store.check().unwrap().damage, []);
}

/// Commits of several lanes before, during and after a checkpoint. Each is made by a thread of its
/// own, one after the other, so there is one order of operations.
#[test]
fn a_crash_around_a_checkpoint_leaves_the_commits_of_all_lanes() {
    let crash = CrashDisk::over(&MemoryDisk::new()).unwrap();
    let options = Options { checkpoint_bytes: 4 << 20, ..options() };
    let open = |disk: Arc<dyn Disk>| Store::open_on(disk, options.clone());
    let store = Arc::new(open(Arc::new(crash.clone())).unwrap().0);
    let mut models = vec![Model::new()];
    let mut commit = |store: &Store, number: u32, value: Option<u32>| {
        let key = number.to_le_bytes();
        let mut model = models.last().unwrap().clone();
        match value {
            Some(value) => model.insert(Hash::of(&key), value.to_le_bytes().to_vec()),
            None => model.remove(&Hash::of(&key)),
        };
        models.push(model);
        let commit = || match value {
            Some(value) => store.put(&key, &value.to_le_bytes()).unwrap(),
            None => drop(store.delete(&key).unwrap()),
        };
        std::thread::scope(|scope| drop(scope.spawn(commit)));
    };
    (0..100).for_each(|number| commit(&store, number, Some(0)));
    store.checkpoint().unwrap();
    let from = crash.operations();
    let mut round = 0;
    for _ in 0..3 {
        let mut some = |store: &Store, count: u32| {
            for _ in 0..count {
                round += 1;
                // What one lane has filled, another frees.
                commit(store, round * 37 % 100, (round % 5 > 0).then_some(round));
            }
        };
        some(&store, 20);
        let begun = store.begin_checkpoint().unwrap();
        some(&store, 20);
        begun.finish().unwrap();
        some(&store, 5);
    }
    for cut in (from..=crash.operations()).step_by(3) {
        for fate in crate::crash_life::fates(&crash, cut, 1) {
            let left = crash.materialise(cut, fate);
            let (store, _) = open(Arc::new(left)).unwrap();
            let found = content(&store).unwrap();
            assert!(models.contains(&found), "{cut} {fate:?}");
            assert_eq!(store.check().unwrap().damage, [], "{cut} {fate:?}");
        }
    }
}
