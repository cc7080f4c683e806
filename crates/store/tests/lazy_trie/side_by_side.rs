//! Tests of writers side by side: commits of one item, each of which takes only its part of the
//! tree.

use crate::random::{Model, Random, assert_holds, change, content, small_options};
use quorate_store::disk::{CrashDisk, Disk, MemoryDisk};
use quorate_store::lazy_trie::{Batch, Durability, Error, Hash, Options, Store, WriteOut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Commits are not synced, because only such ones are made side by side.
fn options() -> Options {
    Options { durability: Durability::Os, ..small_options() }
}

/// The same with a thread that makes checkpoints, and many of them.
fn busy_options() -> Options {
    Options {
        write_out: WriteOut::Background,
        write_buffer_bytes: 256 << 10,
        checkpoint_bytes: 64 << 10,
        ..options()
    }
}

fn number_of(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().unwrap())
}

/// Enough items that each part of the tree has some.
fn fill(store: &Store, model: &mut Model, count: u32) {
    for number in 0..count {
        store.put(&number.to_le_bytes(), b"first").unwrap();
        model.insert(Hash::of(&number.to_le_bytes()), b"first".to_vec());
    }
}

#[test]
fn random_lives_agree_with_a_map() {
    for seed in 0..12 {
        let bucket_items = [1, 2, 4, 64][seed as usize % 4];
        let options = Options { bucket_items, ..options() };
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        crate::model::live(&disk, &options, seed, 900, [60, 200, 2000][seed as usize % 3]);
    }
}

#[test]
fn random_lives_in_mapped_files_agree_with_a_map() {
    for seed in 200..204 {
        let folder = tempfile::tempdir().unwrap();
        let disk = quorate_store::disk::FileDisk::open(folder.path()).unwrap();
        crate::model::live(&(Arc::new(disk) as Arc<dyn Disk>), &options(), seed, 600, 300);
    }
}

#[test]
fn threads_lose_no_change_and_no_item() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Store::open(folder.path(), busy_options()).unwrap().0;
    let store = open();
    let mut model = Model::new();
    fill(&store, &mut model, 500);
    let counter = |number: u64| (1 << 50 | number).to_le_bytes();
    std::thread::scope(|scope| {
        for writer in 0..4u64 {
            let store = &store;
            scope.spawn(move || {
                let mut random = Random(writer);
                for round in 0..3000u64 {
                    // Counters of all writers, ...
                    let add = |there: Option<&[u8]>| {
                        Some((there.map_or(0, number_of) + 1).to_le_bytes().to_vec())
                    };
                    store.merge(&counter(round % 7), add).unwrap();
                    // ... items that come and go, of one slab and of several, ...
                    let own = (writer << 32 | random.below(200)).to_le_bytes();
                    match random.below(40) {
                        0 => store.put(&own, &vec![7; 9000]).unwrap(),
                        1..10 => drop(store.delete(&own).unwrap()),
                        _ => store.put(&own, &round.to_le_bytes()).unwrap(),
                    }
                    // ... and now and then a batch, for which the tree is united.
                    if round % 211 == 0 {
                        let mut batch = Batch::new();
                        (0..9u64).for_each(|item| {
                            let name = writer << 32 | (1000 + item);
                            batch.put(&name.to_le_bytes(), &round.to_le_bytes()).unwrap();
                        });
                        store.write(&batch).unwrap();
                    }
                }
                for item in 0..200u64 {
                    store.put(&(writer << 32 | item).to_le_bytes(), &item.to_le_bytes()).unwrap();
                }
            });
        }
    });
    for writer in 0..4u64 {
        for item in (0..200u64).chain(1000..1009) {
            let value = if item < 1000 { item } else { 2954 };
            let key = (writer << 32 | item).to_le_bytes();
            model.insert(Hash::of(&key), value.to_le_bytes().to_vec());
        }
    }
    let counts: u64 = (0..7)
        .map(|number| {
            let count = store.get(&counter(number)).unwrap().unwrap();
            model.insert(Hash::of(&counter(number)), count.clone());
            number_of(&count)
        })
        .sum();
    assert_eq!(counts, 4 * 3000);
    assert!(store.statistics().checkpoints > 2);
    assert_holds(&store, &model);
    drop(store);
    assert_holds(&open(), &model);
}

/// Each writer puts the same number into two items, one after the other. So a snapshot has the
/// same in both, or the second is one behind.
#[test]
fn a_snapshot_has_the_commits_up_to_one_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = Store::open(folder.path(), busy_options()).unwrap();
    fill(&store, &mut Model::new(), 500);
    let stop = AtomicBool::new(false);
    let key = |writer: u64, item: u64| (1 << 40 | writer << 8 | item).to_le_bytes();
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (store, stop) = (&store, &stop);
            scope.spawn(move || {
                for round in 0u64.. {
                    for item in 0..8 {
                        store.put(&key(writer, item), &round.to_le_bytes()).unwrap();
                    }
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        let mut newest = [0; 2];
        for _ in 0..20_000 {
            let snapshot = store.snapshot().unwrap();
            for (writer, newest) in (0..2).zip(&mut newest) {
                let item = |item| {
                    let value = snapshot.get_ref(&key(writer, item)).unwrap();
                    value.map_or(0, |value| number_of(value) + 1)
                };
                // From the last to the first: in the order of an unsound reader they would agree.
                let rounds: Vec<u64> = (0..8).rev().map(item).collect();
                assert!(rounds.is_sorted(), "{rounds:?}");
                assert!(rounds[7] - rounds[0] <= 1, "{rounds:?}");
                assert!(rounds[0] >= *newest, "time went back");
                *newest = rounds[0];
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(store.check().unwrap().damage, []);
}

/// Every state of the disk after a crash has the commits up to one of them, although their slots
/// come from lanes.
#[test]
fn a_crash_leaves_the_commits_up_to_one_of_them() {
    let crash = CrashDisk::over(&MemoryDisk::new()).unwrap();
    let options = Options { checkpoint_bytes: 3 << 10, ..options() };
    let (store, _) = Store::open_on(Arc::new(crash.clone()), options.clone()).unwrap();
    let mut models = vec![Model::new()];
    let mut random = Random(3);
    for number in 0..400u32 {
        let mut model = models.last().unwrap().clone();
        let key = (random.below(150) as u32).to_le_bytes();
        store.put(&key, &number.to_le_bytes()).unwrap();
        model.insert(Hash::of(&key), number.to_le_bytes().to_vec());
        models.push(model);
    }
    assert!(store.statistics().checkpoints > 2);
    for cut in (0..=crash.operations()).step_by(7) {
        for fate in crate::crash_life::fates(&crash, cut, 2) {
            let left = crash.materialise(cut, fate);
            let Ok((store, _)) = Store::open_on(Arc::new(left), options.clone()) else {
                // Before the store was created.
                assert!(cut < 20, "{cut} {fate:?}");
                continue;
            };
            let found = content(&store).unwrap();
            assert!(models.contains(&found), "{cut} {fate:?}");
            assert_eq!(store.check().unwrap().damage, [], "{cut} {fate:?}");
        }
    }
}

#[test]
fn a_full_space_is_an_error_and_changes_nothing() {
    let options = Options { limit_bytes: 512 << 10, ..options() };
    let (store, _) = Store::open_on(Arc::new(MemoryDisk::new()), options).unwrap();
    let (mut model, mut random, mut refused) = (Model::new(), Random(1), 0);
    for step in 0..4000 {
        match change(&store, &mut model, &mut random, 1500) {
            Ok(()) => {}
            Err(Error::LimitReached { .. }) => refused += 1,
            Err(Error::Stopped { .. }) => break,
            Err(error) => panic!("{step}: {error}"),
        }
    }
    assert!(refused > 0);
    assert!(content(&store).unwrap() == model);
    assert_eq!(store.check().unwrap().damage, []);
}

/// A change that panics leaves its part, its lane and its place to others.
#[test]
fn a_change_that_panics_holds_nothing() {
    let (store, _) = Store::open_on(Arc::new(MemoryDisk::new()), options()).unwrap();
    let mut model = Model::new();
    fill(&store, &mut model, 500);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        store.merge(&7u32.to_le_bytes(), |_| panic!("a bug in the owner's program"))
    }));
    assert!(panicked.is_err());
    assert_eq!(store.statistics().snapshots, 0);
    store.put(&7u32.to_le_bytes(), b"second").unwrap();
    model.insert(Hash::of(&7u32.to_le_bytes()), b"second".to_vec());
    assert_holds(&store, &model);
}

#[test]
fn a_held_snapshot_of_a_divided_tree_stays() {
    let (store, _) = Store::open_on(Arc::new(MemoryDisk::new()), options()).unwrap();
    let mut model = Model::new();
    fill(&store, &mut model, 500);
    let held = store.snapshot().unwrap();
    for number in 0..500u32 {
        store.put(&number.to_le_bytes(), b"second").unwrap();
    }
    for number in 0..250u32 {
        store.delete(&number.to_le_bytes()).unwrap();
    }
    let there: Model = held
        .iter()
        .map(|item| item.map(|(hash, item)| (hash, item.value.to_vec())).unwrap())
        .collect();
    assert!(there == model);
    let from = Hash([0x33; 32]);
    let behind: Vec<Hash> = held.iter_from(&from).map(|item| item.unwrap().0).collect();
    assert_eq!(behind, model.range(from..).map(|(hash, _)| *hash).collect::<Vec<_>>());
    held.look_ahead(model.keys().copied());
    assert!(model.keys().all(|hash| held.get_ref(hash).unwrap() == Some(b"first")));
    assert_eq!(store.items(), 250);
}
