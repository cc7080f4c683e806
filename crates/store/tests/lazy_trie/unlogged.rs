//! Tests of stores without a log of commits: only the owner's checkpoints survive.

use crate::random::small_options;
use quorate_store::disk::MemoryDisk;
use quorate_store::lazy_trie::{Batch, Error, Options, Proofs, Store, WriteOut};
use std::sync::Arc;

fn options() -> Options {
    let (authenticated, proofs) = (true, Proofs::WhenAsked);
    Options { log_commits: false, authenticated, proofs, ..small_options() }
}

fn open(disk: &MemoryDisk, options: Options) -> Arc<Store> {
    Arc::new(Store::open_on(Arc::new(disk.clone()), options).unwrap().0)
}

fn put(store: &Store, number: u32) {
    store.put(b"number", &number.to_le_bytes()).unwrap();
}

fn number(store: &Store) -> Option<u32> {
    let value = store.get(b"number").unwrap()?;
    Some(u32::from_le_bytes(value.try_into().unwrap()))
}

#[test]
fn what_came_behind_the_last_checkpoint_is_gone() {
    let disk = MemoryDisk::new();
    let store = open(&disk, options());
    put(&store, 1);
    drop(store);
    let store = open(&disk, options());
    assert_eq!((number(&store), store.version()), (None, 1));
    put(&store, 2);
    let begun = store.begin_checkpoint().unwrap();
    put(&store, 3);
    begun.finish().unwrap();
    put(&store, 4);
    assert_eq!(number(&store), Some(4));
    drop(store);
    let store = open(&disk, options());
    assert_eq!(number(&store), Some(2));
    assert!(store.check().unwrap().damage.is_empty());
    // A later opening with a log continues from there.
    drop(store);
    let logged = Options { log_commits: true, ..options() };
    let store = open(&disk, logged.clone());
    put(&store, 5);
    drop(store);
    assert_eq!(number(&open(&disk, logged)), Some(5));
}

#[test]
fn the_checkpoint_that_counts_can_be_read_whatever_is_committed() {
    let disk = MemoryDisk::new();
    let store = open(&disk, options());
    let fill = |round: u32| {
        for from in (0..400u32).step_by(20) {
            let mut batch = Batch::new();
            for key in from..from + 20 {
                batch.put(&key.to_le_bytes()[..], &[round as u8; 40]).unwrap();
            }
            store.write(&batch).unwrap();
        }
    };
    fill(1);
    let root = store.root().unwrap();
    store.begin_checkpoint().unwrap().finish().unwrap();
    (2..30).for_each(fill);
    let holds = |view: &quorate_store::lazy_trie::Snapshot<'_>, round: u8| {
        let values: Vec<_> = view.iter().map(|item| item.unwrap().1.value.to_vec()).collect();
        assert_eq!(values, vec![vec![round; 40]; 400]);
    };
    let view = store.checkpointed().unwrap();
    holds(&view, 1);
    assert_eq!(view.root().unwrap(), root);
    let begun = store.begin_checkpoint().unwrap();
    (30..40).for_each(fill);
    holds(&store.checkpointed().unwrap(), 1);
    begun.finish().unwrap();
    (40..50).for_each(fill);
    // A reader keeps its view.
    holds(&view, 1);
    holds(&store.checkpointed().unwrap(), 29);
    assert!(store.check().unwrap().damage.is_empty());
}

#[test]
fn a_checkpoint_is_due_by_what_was_changed() {
    let disk = MemoryDisk::new();
    let store = open(&disk, Options { checkpoint_bytes: 1000, ..options() });
    assert!(!store.checkpoint_is_due());
    (0..20).for_each(|_| store.put(b"key", &[1; 60]).unwrap());
    assert!(store.checkpoint_is_due());
    // None is made unasked.
    assert_eq!(store.statistics().checkpoints, 0);
    store.begin_checkpoint().unwrap().finish().unwrap();
    assert!(!store.checkpoint_is_due());
}

#[test]
fn a_checkpoint_that_is_given_up_is_the_end_of_writing() {
    let disk = MemoryDisk::new();
    let store = open(&disk, options());
    put(&store, 1);
    store.begin_checkpoint().unwrap().finish().unwrap();
    put(&store, 2);
    drop(store.begin_checkpoint().unwrap());
    assert!(matches!(store.put(b"more", b"?"), Err(Error::Stopped { .. })));
    assert!(matches!(store.checkpoint(), Err(Error::Stopped { .. })));
    assert_eq!(number(&store), Some(2));
    drop(store);
    assert_eq!(number(&open(&disk, options())), Some(1));
}

/// There are more pages than memory: writers wait for the running checkpoint, and do not wait if
/// there is none.
#[test]
fn writers_wait_for_the_one_under_way_when_the_buffer_is_full() {
    let folder = tempfile::tempdir().unwrap();
    let write_out = WriteOut::Background;
    let options = Options { write_out, limit_bytes: 64 << 20, ..options() };
    let (store, _) = Store::open(folder.path(), options.clone()).unwrap();
    let store = Arc::new(store);
    let fill = |from: u32| {
        for number in from..from + 3000 {
            store.put(&number.to_le_bytes()[..], &[number as u8; 900]).unwrap();
        }
    };
    fill(0);
    assert!(store.checkpoint_is_due());
    assert_eq!(store.statistics().stalls, 0);
    let begun = store.begin_checkpoint().unwrap();
    let ended = std::thread::scope(|scope| {
        let writer = scope.spawn(|| fill(3000));
        while store.statistics().stalls == 0 {
            std::thread::yield_now();
        }
        // Enough time for all its writes, if it did not wait.
        std::thread::sleep(std::time::Duration::from_millis(100));
        let ended = writer.is_finished();
        begun.finish().unwrap();
        ended
    });
    assert!(!ended, "the buffer was full");
    store.begin_checkpoint().unwrap().finish().unwrap();
    drop(store);
    let (store, recovered) = Store::open(folder.path(), options).unwrap();
    assert_eq!((store.items(), recovered.replayed_batches), (6000, 0));
}
