//! Tests of states between two steps of a commit, while other threads continue.

use super::super::batch::{Batch, encode};
use super::super::item::Name;
use super::super::log_side::append;
use super::super::options::{Options, WriteOut};
use super::super::slab::SlotUse;
use super::super::space::Gone;
use super::super::writer::hashed;
use super::{Error, Store, lock};
use crate::disk::{CrashDisk, Fate};
use crate::wal::Durability;
use std::sync::Arc;

fn options() -> Options {
    Options {
        identity: Some([7; 16]),
        durability: Durability::Sync,
        write_out: WriteOut::Inline,
        segment_bytes: 64 << 10,
        slab_bytes: 4096,
        region_bytes: 64 << 10,
        ..Options::default()
    }
}

/// The first half of [`Store::write`], without the write to the log.
fn apply(store: &Store, key: &[u8]) -> u64 {
    let mut batch = Batch::new();
    batch.put(key, b"value").unwrap();
    let changes = hashed(batch.bytes(), None).unwrap();
    let mut writer = store.shared.writer().unwrap();
    store.shared.apply(&mut writer, &changes).unwrap();
    store.shared.queue(&writer, |bytes| bytes.extend_from_slice(batch.bytes()));
    writer.version
}

#[test]
fn what_another_brought_to_the_log_unsynced_is_synced_before_it_is_acknowledged() {
    let disk = CrashDisk::new();
    let (store, _) = Store::open_on(Arc::new(disk.clone()), options()).unwrap();
    let version = apply(&store, b"key");
    // Like a checkpoint that begins now, or a request for proofs.
    let mut log = lock(&store.shared.log);
    let mut writer = store.shared.writer().unwrap();
    store.shared.flush(&mut log, &mut writer, Durability::Os).unwrap();
    drop((log, writer));
    store.shared.settle(version, 8).unwrap();

    let left = disk.materialise(disk.operations(), Fate::Lost);
    let (store, _) = Store::open_on(Arc::new(left), options()).unwrap();
    assert_eq!(store.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
}

#[test]
fn a_checkpoint_is_due_when_the_log_has_grown() {
    let options = Options { checkpoint_bytes: 32 << 10, ..options() };
    let (store, _) = Store::open_on(Arc::new(CrashDisk::new()), options).unwrap();
    assert!(!store.checkpoint_is_due());
    for key in 0..1000u32 {
        apply(&store, &key.to_le_bytes());
    }
    assert!(!store.checkpoint_is_due(), "the log has nothing yet");
    store.sync().unwrap();
    assert!(store.checkpoint_is_due());
    store.checkpoint().unwrap();
    assert!(!store.checkpoint_is_due());
}

#[test]
fn a_commit_that_was_lost_on_the_way_to_the_log_is_not_taken_for_synced() {
    let disk = CrashDisk::new();
    let (store, _) = Store::open_on(Arc::new(disk), options()).unwrap();
    let lost = apply(&store, b"lost");
    // The thread that took it panicked before the write.
    lock(&store.shared.queue).move_to(&mut lock(&store.shared.log).taken);
    assert!(matches!(store.sync(), Err(Error::Stopped { .. })));
    assert!(matches!(store.shared.settle(lost, 8), Err(Error::Stopped { .. })));
    assert_eq!(store.get(b"lost").unwrap(), None);
}

#[test]
fn a_commit_behind_one_that_was_lost_on_the_way_to_the_log_is_refused() {
    let disk = CrashDisk::new();
    let (store, _) = Store::open_on(Arc::new(disk.clone()), options()).unwrap();
    store.put(b"first", b"value").unwrap();
    let lost = apply(&store, b"lost");
    // The thread that took it panicked before the write.
    lock(&store.shared.queue).move_to(&mut lock(&store.shared.log).taken);
    let behind = apply(&store, b"behind");
    assert!(matches!(store.shared.settle(behind, 8), Err(Error::Stopped { .. })));
    assert!(matches!(store.shared.settle(lost, 8), Err(Error::Stopped { .. })));
    assert!(matches!(store.put(b"later", b"value"), Err(Error::Stopped { .. })));

    let left = disk.materialise(disk.operations(), Fate::Kept);
    let (store, _) = Store::open_on(Arc::new(left), options()).unwrap();
    assert_eq!((store.items(), store.get(b"first").unwrap().is_some()), (1, true));
}

/// A store whose tree is divided.
fn divided(disk: &CrashDisk) -> Store {
    let options = Options { durability: Durability::Os, ..options() };
    let (store, _) = Store::open_on(Arc::new(disk.clone()), options).unwrap();
    for key in 0..500u32 {
        store.put(&key.to_le_bytes(), b"value").unwrap();
    }
    assert!(store.shared.is_divided());
    store
}

/// What another writer does.
type Other = fn(&Store) -> Result<(), Error>;

/// Whether the record of the panicked commit is in the log is not known. So another of its version
/// must not follow.
#[test]
fn a_writer_side_by_side_that_panics_in_the_log_stops_the_others() {
    let others: [Other; 5] = [
        |store| store.put(b"another", b"value"),
        |store| store.write(&Batch::new()),
        Store::sync,
        Store::checkpoint,
        |store| lock(&store.shared.log).sync(),
    ];
    for (number, other) in others.iter().enumerate() {
        let disk = CrashDisk::new();
        let store = divided(&disk);
        {
            let mut log = lock(&store.shared.log);
            let (mut change, version) = (Vec::new(), log.settled + 1);
            encode(&mut change, &Name::Key(b"lost"), Some(b"value"));
            log.writing = true;
            append(&mut log.log, version, &change).unwrap();
        }
        assert!(matches!(other(&store), Err(Error::Stopped { .. })), "{number}");
        for _ in 0..2 {
            let put = store.put(b"later", b"value");
            assert!(matches!(put, Err(Error::Stopped { .. })), "{number}");
        }

        let left = disk.materialise(disk.operations(), Fate::Kept);
        let (store, _) = Store::open_on(Arc::new(left), options()).unwrap();
        assert_eq!(store.items(), 500, "{number}");
    }
}

/// A slot that was let go is in use until its release, but no lane is about to tell of it.
#[test]
fn a_slot_that_a_lane_frees_twice_is_damage_at_once() {
    let store = divided(&CrashDisk::new());
    let mut writer = store.shared.united_writer().unwrap();
    let space = &mut writer.space;
    let address = space.take_ahead(SlotUse::Item, 0).unwrap();
    let gone = Gone { version: u64::MAX, address, usage: SlotUse::Item };
    // Another lane frees it before the one that has filled it tells so.
    space.take_over(&[], &[gone]).unwrap();
    space.take_over(&[address], &[]).unwrap();
    assert!(space.take_over(&[], &[gone]).is_err());
}
