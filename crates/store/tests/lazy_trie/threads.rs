//! Tests of readers beside writers, on mapped files with the checkpointing thread.

use crate::random::{Random, small_options};
use quorate_store::lazy_trie::{Batch, Durability, Options, Store, WriteOut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Items that every batch changes together.
const ITEMS: u64 = 40;

fn options(durability: Durability) -> Options {
    Options {
        durability,
        write_out: WriteOut::Background,
        write_buffer_bytes: 256 << 10,
        checkpoint_bytes: 64 << 10,
        ..small_options()
    }
}

/// A value that contains its round, of varying length.
fn value(round: u64, item: u64) -> Vec<u8> {
    let length = 8 + (round * 7 + item * 13) % 300;
    let mut value = round.to_le_bytes().to_vec();
    value.resize(length as usize, round as u8);
    value
}

#[test]
fn readers_see_whole_batches_while_writers_write() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = Store::open(folder.path(), options(Durability::Os)).unwrap();
    let stop = AtomicBool::new(false);
    let reads = AtomicU64::new(0);
    let put_round = |round: u64| {
        let mut batch = Batch::new();
        for item in 0..ITEMS {
            batch.put(&item.to_le_bytes(), &value(round, item)).unwrap();
        }
        store.write(&batch).unwrap();
    };
    put_round(0);
    std::thread::scope(|scope| {
        for reader in 0..3 {
            let (store, stop, reads) = (&store, &stop, &reads);
            scope.spawn(move || {
                let mut random = Random(reader);
                let mut newest = 0;
                while !stop.load(Ordering::Relaxed) {
                    let snapshot = store.snapshot().unwrap();
                    let first = snapshot.get_ref(&0u64.to_le_bytes()).unwrap().unwrap();
                    let round = u64::from_le_bytes(first[..8].try_into().unwrap());
                    assert!(round >= newest, "time went back");
                    newest = round;
                    // Slowly, so that many batches are committed meanwhile.
                    for _ in 0..200 {
                        let item = random.below(ITEMS);
                        let there = snapshot.get_ref(&item.to_le_bytes()).unwrap().unwrap();
                        assert!(there == value(round, item), "round {round}, item {item}");
                    }
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for round in 1..3000 {
            put_round(round);
        }
        while reads.load(Ordering::Relaxed) < 100 {
            std::thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(store.statistics().checkpoints > 2);
    assert_eq!(store.check().unwrap().damage, []);
}

#[test]
fn writers_share_syncs_and_lose_no_change() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = Store::open(folder.path(), options(Durability::Sync)).unwrap();
    let add = |name: u64| {
        store
            .merge(&name.to_le_bytes(), |there| {
                let count = there.map_or(0, |b| u64::from_le_bytes(b.try_into().unwrap()));
                Some((count + 1).to_le_bytes().to_vec())
            })
            .unwrap();
    };
    std::thread::scope(|scope| {
        for writer in 0..4 {
            scope.spawn(move || (0..100).for_each(|n| add(n % (3 + writer))));
        }
    });
    let total = |store: &Store| {
        let snapshot = store.snapshot().unwrap();
        let counts = snapshot
            .iter()
            .map(|item| u64::from_le_bytes(item.unwrap().1.value.try_into().unwrap()));
        counts.sum::<u64>()
    };
    assert_eq!(total(&store), 400);
    assert_eq!(store.statistics().commits, 400);
    drop(store);
    let (store, _) = Store::open(folder.path(), options(Durability::Sync)).unwrap();
    assert_eq!(total(&store), 400);
}

#[test]
fn there_is_a_limit_to_snapshots_and_an_error_beyond() {
    use quorate_store::lazy_trie::Error;
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = Store::open(folder.path(), options(Durability::Os)).unwrap();
    store.put(b"a", b"1").unwrap();
    let mut held = Vec::new();
    let error = loop {
        match store.snapshot() {
            Ok(snapshot) => held.push(snapshot),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::TooManySnapshots { limit } if limit == held.len()));
    store.put(b"a", b"2").unwrap();
    assert!(held.iter().all(|snapshot| snapshot.get_ref(b"a").unwrap() == Some(b"1")));
    held.pop();
    assert_eq!(store.get(b"a").unwrap(), Some(b"2".to_vec()));
}

/// If slabs that are being filled take the whole write buffer, a checkpoint makes no room, and each
/// write waits for one. It must wait for a later one, not for one that ended between the question
/// and the wait. (On busy processors it once waited without end.)
#[test]
fn a_writer_waits_for_no_checkpoint_that_has_ended() {
    let options = Options { write_buffer_bytes: 8 * 4096, ..options(Durability::Os) };
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = Store::open(folder.path(), options).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        for number in 0..300usize {
            // A slab of each size is being filled.
            store.put(&(number % 24).to_le_bytes(), &vec![1; number % 24 * 40]).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(store.statistics().stalls > 200, "{}", store.statistics().stalls);
}
