//! Tests of proofs on request: each commit has its root, and requested proofs stay valid beside
//! later commits and checkpoints.

use crate::authenticated::{open, options};
use crate::random::{
    Model, Random, assert_holds, assert_root, change, eight_more, root_of, write_some,
};
use quorate_store::disk::MemoryDisk;
use quorate_store::lazy_trie::{Batch, Error, Hash, Options, Proofs, Snapshot, Store};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn when_asked() -> Options {
    Options { proofs: Proofs::WhenAsked, ..options() }
}

fn assert_proves(snapshot: &Snapshot<'_>, model: &Model) {
    assert!(snapshot.is_provable());
    let root = root_of(model);
    assert_eq!(snapshot.root().unwrap(), root);
    for hash in model.keys().copied().chain([Hash::of(b"not there")]) {
        let (proof, value) = snapshot.get_proved(&hash).unwrap();
        assert_eq!(value, model.get(&hash).map(Vec::as_slice));
        proof.verify_value(&root, &hash.0, value).unwrap();
    }
}

#[test]
fn a_version_has_proofs_if_they_were_asked_for() {
    let store = open(&MemoryDisk::new(), when_asked());
    store.put(b"key", b"value").unwrap();
    let alone = store.snapshot().unwrap();
    assert!(!alone.is_provable());
    assert!(matches!(alone.prove(b"key"), Err(Error::NoProofs)));
    let provable = store.provable_snapshot().unwrap();
    let model = Model::from([(Hash::of(b"key"), b"value".to_vec())]);
    assert_proves(&provable, &model);
    // It has the same version, and it stays as it is.
    assert_eq!(alone.root().unwrap(), provable.root().unwrap());
    assert_eq!(alone.version().unwrap(), provable.version().unwrap());
    assert!(matches!(alone.prove(b"key"), Err(Error::NoProofs)));
    // A checkpoint writes them too.
    store.put(b"key", b"other").unwrap();
    assert!(!store.snapshot().unwrap().is_provable());
    store.checkpoint().unwrap();
    assert!(store.snapshot().unwrap().is_provable());
    assert_proves(&provable, &model);
}

#[test]
fn versions_that_are_kept_have_proofs() {
    let options = Options { kept_versions: 1, ..when_asked() };
    let refused = Store::open_on(Arc::new(MemoryDisk::new()), options).map(|_| ());
    assert!(matches!(refused, Err(Error::Options { field: "proofs", .. })), "{refused:?}");
}

#[test]
fn proofs_asked_for_stay_through_commits_checkpoints_and_restarts() {
    let disk = MemoryDisk::new();
    let (mut model, mut random) = (Model::new(), Random(77));
    for round in 0..30 {
        let store = open(&disk, when_asked());
        // After a restart the store has the last checkpoint and the log.
        assert_holds(&store, &model);
        let mut held = Vec::new();
        for _ in 0..60 {
            change(&store, &mut model, &mut random, if round % 10 < 6 { 300 } else { 8 }).unwrap();
            assert_root(&store, &model, "a commit");
            match random.below(8) {
                0 => held.push((store.provable_snapshot().unwrap(), model.clone())),
                1 => store.checkpoint().unwrap(),
                2 => held.truncate(1),
                _ => {}
            }
        }
        for (snapshot, model) in &held {
            assert_proves(snapshot, model);
        }
        drop(held);
        assert_holds(&store, &model);
        // Held slots are free again.
        store.checkpoint().unwrap();
        assert_eq!(store.check().unwrap().damage, []);
    }
}

#[test]
fn what_waits_to_be_written_is_bounded() {
    // 20,000 blocks or so.
    let large = Options {
        digest_memory_bytes: 32 << 20,
        region_bytes: 16 << 20,
        slab_bytes: 64 << 10,
        checkpoint_bytes: 1 << 30,
        write_buffer_bytes: 1 << 30,
        limit_bytes: 1 << 30,
        bucket_items: 64,
        ..when_asked()
    };
    let store = open(&MemoryDisk::new(), large.clone());
    let other = open(&MemoryDisk::new(), Options { proofs: Proofs::EachCommit, ..large });
    // There are more blocks than may wait: they are written once on the way, and dropped.
    for from in (0..500_000u32).step_by(50_000) {
        let mut batch = Batch::new();
        for number in from..from + 50_000 {
            batch.put(&number.to_le_bytes(), b"value").unwrap();
        }
        store.write(&batch).unwrap();
        other.write(&batch).unwrap();
        assert_eq!(store.root().unwrap(), other.root().unwrap());
    }
    assert!(store.statistics().digest_slot_bytes > other.statistics().digest_slot_bytes / 2);
    let snapshot = store.provable_snapshot().unwrap();
    let root = snapshot.root().unwrap();
    for number in (0..500_000u32).step_by(997) {
        let (proof, value) = snapshot.get_proved(&number.to_le_bytes()).unwrap();
        proof.verify_value(&root, &Hash::of(&number.to_le_bytes()).0, value).unwrap();
    }
}

#[test]
fn a_space_without_room_for_what_waits_loses_nothing() {
    let disk = MemoryDisk::new();
    let store = open(&disk, Options { limit_bytes: 256 << 10, ..when_asked() });
    let mut model = Model::new();
    for number in 0.. {
        let (batch, after) = eight_more(&model, number);
        match store.write(&batch) {
            Ok(()) => model = after,
            // The error is of the batch itself, or of the next checkpoint, which needs room for
            // digests.
            Err(Error::LimitReached { .. }) => {
                if store.snapshot().unwrap().get(&batch_key(number)).unwrap().is_some() {
                    model = after;
                }
                break;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert_root(&store, &model, "what is read");
    drop(store);
    assert_holds(&open(&disk, Options { limit_bytes: 1 << 20, ..when_asked() }), &model);
}

fn batch_key(number: u32) -> Hash {
    Hash::of(&(number * 8).to_le_bytes())
}

#[test]
fn who_asks_for_proofs_beside_a_writer_gets_those_of_what_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        authenticated: true,
        proofs: Proofs::WhenAsked,
        durability: quorate_store::lazy_trie::Durability::Os,
        checkpoint_bytes: 64 << 10,
        write_buffer_bytes: 4 << 20,
        ..Options::default()
    };
    let (store, _) = Store::open(folder.path(), options).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2u64 {
            let (store, done) = (&store, &done);
            scope.spawn(move || {
                let mut random = Random(thread);
                let mut last = 0;
                while !done.load(Ordering::Relaxed) {
                    let snapshot = store.provable_snapshot().unwrap();
                    let version = snapshot.version().unwrap();
                    assert!(version >= last);
                    last = version;
                    let root = snapshot.root().unwrap();
                    for _ in 0..20 {
                        let key = random.below(400).to_le_bytes();
                        let (proof, value) = snapshot.get_proved(&key).unwrap();
                        proof.verify_value(&root, &Hash::of(&key).0, value).unwrap();
                        assert_eq!(value, snapshot.get_ref(&key).unwrap());
                    }
                }
            });
        }
        let mut random = Random(99);
        (0..400).for_each(|_| write_some(&store, &mut random, 400));
        done.store(true, Ordering::Relaxed);
    });
    assert!(store.check().unwrap().damage.is_empty());
}
