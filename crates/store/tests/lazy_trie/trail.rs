//! The trail: what batches leave in the log alone, through restarts, checkpoints and losses of power.

use crate::crash_life::fates;
use crate::random::small_options;
use quorate_store::disk::{CrashDisk, Disk, Fate, MemoryDisk};
use quorate_store::lazy_trie::{
    Batch, Durability, Error, Options, Recovery, Store, VALUE_LIMIT_BYTES, WriteOut,
};
use std::sync::Arc;

fn options() -> Options {
    Options { checkpoint_bytes: 6 << 10, ..small_options() }
}

fn open(disk: &MemoryDisk) -> Store {
    Store::open_on(Arc::new(disk.clone()), options()).unwrap().0
}

fn trail(store: &Store) -> Vec<Vec<u8>> {
    let mut trail = Vec::new();
    store
        .trail(|entry| {
            trail.push(entry.to_vec());
            true
        })
        .unwrap();
    trail
}

/// Commits an entry, and the changes it goes with.
fn leave(store: &Store, number: u64, mark: impl FnOnce(&mut Batch)) {
    let mut batch = Batch::new();
    batch.put(b"number", &number.to_le_bytes()).unwrap();
    batch.entry(&[b"entry ", number.to_string().as_bytes()]).unwrap();
    mark(&mut batch);
    store.write(&batch).unwrap();
}

fn entries(numbers: impl Iterator<Item = u64>) -> Vec<Vec<u8>> {
    numbers.map(|number| format!("entry {number}").into_bytes()).collect()
}

#[test]
fn a_trail_is_kept_from_where_it_begins_until_another_counts() {
    let disk = MemoryDisk::new();
    let store = open(&disk);
    leave(&store, 0, |_| {});
    assert_eq!((store.has_trail(), trail(&store)), (false, vec![]));
    leave(&store, 1, |batch| {
        batch.begin_trail();
        batch.turn_trail();
    });
    leave(&store, 2, |_| {});
    store.checkpoint().unwrap();
    leave(&store, 3, Batch::begin_trail);
    leave(&store, 4, |_| {});
    // The one that was begun is not the one that counts.
    assert_eq!(trail(&store), entries(1..=4));
    drop(store);
    let store = open(&disk);
    assert_eq!(trail(&store), entries(1..=4));
    leave(&store, 5, Batch::begin_trail);
    store.checkpoint().unwrap();
    leave(&store, 6, Batch::turn_trail);
    assert_eq!(trail(&store), entries(5..=6));
    drop(store);
    let store = open(&disk);
    assert_eq!(trail(&store), entries(5..=6));
    assert_eq!(store.get(b"number").unwrap(), Some(6u64.to_le_bytes().to_vec()));
    // Nobody has begun another since it was opened: it begins where it is turned to.
    leave(&store, 7, Batch::turn_trail);
    leave(&store, 8, |_| {});
    assert_eq!(trail(&store), entries(7..=8));
    let mut first = Vec::new();
    store
        .trail(|entry| {
            first.push(entry.to_vec());
            false
        })
        .unwrap();
    assert_eq!(first, entries(7..=7));
}

#[test]
fn the_log_of_a_trail_stays_and_that_of_a_former_one_goes() {
    let disk = MemoryDisk::new();
    let store = open(&disk);
    let segments = || disk.list().unwrap().iter().filter(|name| name.ends_with(".wal")).count();
    let long = vec![7; 20_000];
    let leave = |mark: &dyn Fn(&mut Batch)| {
        let mut batch = Batch::new();
        batch.entry(&[&long]).unwrap();
        mark(&mut batch);
        store.write(&batch).unwrap();
    };
    leave(&Batch::turn_trail);
    (0..30).for_each(|_| leave(&|_| {}));
    store.checkpoint().unwrap();
    assert_eq!(trail(&store), vec![long.clone(); 31]);
    let kept = segments();
    assert!(kept >= 9, "{kept} segments of 64 KiB for 620,000 bytes");
    leave(&Batch::turn_trail);
    store.checkpoint().unwrap();
    assert!(segments() <= 2, "{} segments", segments());
    assert_eq!(trail(&store), vec![long.clone(); 1]);
    // Longer than a record of the log, and than a segment.
    let longest = vec![8; 200_000];
    let mut batch = Batch::new();
    batch.put(b"beside", b"it").unwrap();
    batch.entry(&[&longest, b"!"]).unwrap();
    batch.turn_trail();
    store.write(&batch).unwrap();
    drop(store);
    let store = open(&disk);
    assert_eq!(trail(&store), [[longest.as_slice(), b"!"].concat()]);
}

#[test]
fn what_a_trail_does_not_allow_is_said() {
    let disk = MemoryDisk::new();
    let store = open(&disk);
    let mut batch = Batch::new();
    let error = batch.entry(&[&vec![0; VALUE_LIMIT_BYTES], b"!"]).unwrap_err().to_string();
    assert_eq!(error, "an entry of the trail has 16777217 bytes, the limit is 16777216");
    leave(&store, 1, Batch::turn_trail);
    drop(store);
    // The log, in which alone it is, would go.
    let compacted = Store::compact_on(Arc::new(disk.clone()), options());
    assert!(matches!(compacted, Err(Error::HasTrail)), "{compacted:?}");
    assert_eq!(trail(&open(&disk)), entries(1..=1));
}

#[test]
fn a_trail_is_measured_with_the_changes_beside_it() {
    let disk = MemoryDisk::new();
    let store = open(&disk);
    store.put(b"before", &[1; 5000]).unwrap();
    assert_eq!(store.trail_bytes(), 0);
    leave(&store, 1, Batch::turn_trail);
    let begun = store.trail_bytes();
    assert!((1..200).contains(&begun), "{begun}");
    store.put(b"beside", &[1; 5000]).unwrap();
    store.checkpoint().unwrap();
    assert!((begun + 5000..begun + 5200).contains(&store.trail_bytes()), "{}", store.trail_bytes());
    leave(&store, 2, Batch::turn_trail);
    assert!((1..200).contains(&store.trail_bytes()));
}

/// A checkpoint that was captured before a turn, and is finished behind it, lets go of the log that its own head still needs.
#[test]
fn trails_turn_while_checkpoints_are_written_beside() {
    let folder = tempfile::tempdir().unwrap();
    let options = || Options {
        durability: Durability::Os,
        write_out: WriteOut::Background,
        checkpoint_bytes: 24 << 10,
        ..options()
    };
    for round in 0..20u64 {
        let (store, _) = Store::open(folder.path(), options()).unwrap();
        if round > 0 {
            let last = round * 100 - 1;
            assert_eq!(trail(&store), entries(last - last % 10..=last), "round {round}");
        }
        for number in round * 100..(round + 1) * 100 {
            leave(&store, number, |batch| {
                batch.put(&(number % 7).to_le_bytes(), &[1; 3000]).unwrap();
                if number % 10 == 0 {
                    batch.turn_trail();
                }
            });
        }
    }
}

#[test]
fn a_trail_goes_with_a_log_that_was_given_up() {
    let disk = MemoryDisk::new();
    let store = open(&disk);
    leave(&store, 1, Batch::turn_trail);
    store.checkpoint().unwrap();
    leave(&store, 2, |_| {});
    drop(store);
    let log = disk.list().unwrap().into_iter().find(|name| name.ends_with(".wal")).unwrap();
    disk.remove(&log).unwrap();
    let options = Options { recovery: Recovery::BestEffort, ..options() };
    let (store, recovered) = Store::open_on(Arc::new(disk.clone()), options).unwrap();
    assert!(recovered.lost.is_some());
    assert_eq!(store.get(b"number").unwrap(), Some(1u64.to_le_bytes().to_vec()));
    assert_eq!((store.has_trail(), trail(&store)), (false, vec![]));
}

/// What the trail that counts has behind each commit.
struct Life {
    crash: CrashDisk,
    trails: Vec<Vec<Vec<u8>>>,
    /// Operations of the disk when a commit had returned.
    done: Vec<usize>,
}

/// Commits with an entry each; every eighth begins a trail, that counts two commits later.
fn live(durability: Durability, steps: u64) -> Life {
    let crash = CrashDisk::over(&MemoryDisk::new()).unwrap();
    let options = Options { durability, checkpoint_bytes: 20 << 10, ..options() };
    let (store, _) = Store::open_on(Arc::new(crash.clone()), options).unwrap();
    let mut life = Life { crash, trails: vec![vec![]], done: Vec::new() };
    life.done.push(life.crash.operations());
    for number in 1..=steps {
        leave(&store, number, |batch| {
            batch.put(&(number % 5).to_le_bytes(), &[1; 6000]).unwrap();
            match number % 8 {
                1 => batch.begin_trail(),
                3 => batch.turn_trail(),
                _ => {}
            }
        });
        let begun = (number + 5) / 8 * 8;
        let from = (number >= 3).then(|| begun - 7);
        life.trails.push(from.map_or(vec![], |from| entries(from..=number)));
        life.done.push(life.crash.operations());
    }
    life
}

#[test]
fn after_a_crash_the_trail_is_that_of_the_commit_that_is_there() {
    for durability in [Durability::Sync, Durability::Os] {
        let life = live(durability, 40);
        let mut found = 0;
        for cut in life.done[0]..=life.crash.operations() {
            for fate in fates(&life.crash, cut, 2) {
                let left = life.crash.materialise(cut, fate);
                let store = open(&left);
                let number = store.get(b"number").unwrap();
                let number = number.map_or(0, |n| u64::from_le_bytes(n.try_into().unwrap()));
                let what = format!("{durability:?}, cut {cut}, {fate:?}: commit {number}");
                assert_eq!(trail(&store), life.trails[number as usize], "{what}");
                let returned = life.done.partition_point(|done| *done <= cut) - 1;
                let promised = fate == Fate::Kept || durability == Durability::Sync;
                assert!(!promised || number as usize >= returned, "{what}: {returned} returned");
                // It goes on.
                leave(&store, number + 1, |_| {});
                drop(store);
                let mut expected = life.trails[number as usize].clone();
                if !expected.is_empty() {
                    expected.extend(entries(number + 1..=number + 1));
                }
                assert_eq!(trail(&open(&left)), expected, "{what}, and another");
                found += usize::from(number > 3);
            }
        }
        assert!(found > 300, "{found}");
    }
}
