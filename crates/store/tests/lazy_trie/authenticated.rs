//! Tests of authenticated stores: the root depends on the content only, and old versions keep
//! theirs.

use crate::model::live;
use crate::random::{
    Model, Random, assert_holds, assert_root, change, eight_more, root_of, small_options,
    write_some,
};
use quorate_merkle::{Leaf, MerkleMap};
use quorate_store::disk::{CrashDisk, Disk, FileDisk, MemoryDisk};
use quorate_store::lazy_trie::{Batch, Error, Hash, Options, Proofs, Store};
use quorate_store::merkle::{EMPTY_ROOT, value_digest};
use std::sync::Arc;

pub fn options() -> Options {
    Options { authenticated: true, ..small_options() }
}

/// Ways to have proofs.
pub const BOTH: [Proofs; 2] = [Proofs::EachCommit, Proofs::WhenAsked];

pub fn open(disk: &MemoryDisk, options: Options) -> Store {
    Store::open_on(Arc::new(disk.clone()), options).unwrap().0
}

#[test]
fn random_lives_have_the_roots_of_their_models() {
    for seed in 200..209 {
        let bucket_items = [1, 4, 64][seed as usize % 3];
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let kept_versions = seed % 4;
        // If versions are kept, each has its proofs.
        let proofs = if kept_versions == 0 { Proofs::WhenAsked } else { Proofs::EachCommit };
        let options = Options { bucket_items, kept_versions, proofs, ..options() };
        live(&disk, &options, seed, 900, [20, 200, 2000][seed as usize % 3]);
    }
    let folder = tempfile::tempdir().unwrap();
    let disk = FileDisk::open(folder.path()).unwrap();
    live(&(Arc::new(disk) as Arc<dyn Disk>), &options(), 300, 600, 300);
}

#[test]
fn each_commit_has_the_root_of_its_content() {
    for proofs in BOTH {
        let store = open(&MemoryDisk::new(), Options { proofs, ..options() });
        assert_eq!(store.root().unwrap(), EMPTY_ROOT);
        let (mut model, mut random) = (Model::new(), Random(41));
        for step in 0..1500 {
            // Few names, so that the tree becomes empty now and then.
            change(&store, &mut model, &mut random, if step % 200 < 100 { 4 } else { 90 }).unwrap();
            assert_root(&store, &model, "a commit");
        }
    }
}

/// Large batches, whose digests several threads compute: the files are identical for any number of
/// threads.
#[test]
fn threads_that_share_the_hashing_leave_no_trace() {
    for proofs in BOTH {
        let mut files = Vec::new();
        for hashing_threads in [1, 2, 40] {
            let disk = MemoryDisk::new();
            let store = open(&disk, Options { proofs, hashing_threads, ..options() });
            let (mut model, mut random) = (Model::new(), Random(71));
            for step in 0..12 {
                let mut batch = Batch::new();
                for _ in 0..[1500, 300, 130, 40][step % 4] {
                    let key = (random.below(3000) as u32).to_le_bytes();
                    if random.below(3) == 0 {
                        batch.delete(&key).unwrap();
                        model.remove(&Hash::of(&key));
                    } else {
                        let value = random.next().to_le_bytes();
                        batch.put(&key, &value).unwrap();
                        model.insert(Hash::of(&key), value.to_vec());
                    }
                }
                store.write(&batch).unwrap();
                assert_root(&store, &model, "a commit");
            }
            store.checkpoint().unwrap();
            assert_holds(&store, &model);
            drop(store);
            let names = disk.list().unwrap();
            files.push(names.iter().map(|name| disk.content(name).unwrap()).collect::<Vec<_>>());
        }
        assert!(files.iter().all(|other| *other == files[0]));
    }
}

/// A value of a map in memory.
#[derive(Clone)]
struct InMemory(Vec<u8>);

impl Leaf for InMemory {
    fn digest(&self) -> [u8; 32] {
        value_digest(&self.0)
    }
}

#[test]
fn the_root_is_a_function_of_the_content_alone() {
    let mut model = Model::new();
    let mut map = MerkleMap::new();
    for number in 0..700u32 {
        let (key, value) = (number.to_le_bytes(), vec![number as u8; number as usize % 90]);
        map.insert(Hash::of(&key).0, InMemory(value.clone()));
        model.insert(Hash::of(&key), value);
    }
    let mut batch = Batch::new();
    (0..700u32).for_each(|n| batch.put(&n.to_le_bytes(), &vec![n as u8; n as usize % 90]).unwrap());
    let at_once = open(&MemoryDisk::new(), options());
    at_once.write(&batch).unwrap();
    let wanders = open(&MemoryDisk::new(), Options { bucket_items: 64, ..options() });
    for number in (0..2000u32).rev() {
        wanders.put(&number.to_le_bytes(), b"something else").unwrap();
    }
    for hash in model.keys() {
        wanders.put(hash, &model[hash]).unwrap();
    }
    for number in 700..2000u32 {
        assert!(wanders.delete(&number.to_le_bytes()).unwrap());
    }
    let roots = [root_of(&model), map.root(), at_once.root().unwrap(), wanders.root().unwrap()];
    assert!(roots.iter().all(|root| *root == roots[0]), "{roots:?}");
    assert_holds(&wanders, &model);
}

#[test]
fn batches_of_any_size_have_the_root_of_their_content() {
    for proofs in BOTH {
        batches_of_any_size(proofs);
    }
}

fn batches_of_any_size(proofs: Proofs) {
    let large = Options {
        proofs,
        region_bytes: 1 << 20,
        checkpoint_bytes: 64 << 20,
        write_buffer_bytes: 128 << 20,
        limit_bytes: 256 << 20,
        ..options()
    };
    let disk = MemoryDisk::new();
    let store = open(&disk, large.clone());
    let mut model = Model::new();
    let (mut some, mut none) = (Batch::new(), Batch::new());
    for number in 0..20_000u32 {
        some.put(&number.to_le_bytes(), &number.to_be_bytes()).unwrap();
        model.insert(Hash::of(&number.to_le_bytes()), number.to_be_bytes().to_vec());
        none.delete(&number.to_le_bytes()).unwrap();
    }
    // The last change of an item counts.
    some.delete(&7u32.to_le_bytes()).unwrap();
    model.remove(&Hash::of(&7u32.to_le_bytes()));
    store.write(&some).unwrap();
    assert_holds(&store, &model);
    drop(store);
    let store = open(&disk, large.clone());
    assert_holds(&store, &model);
    // Only replacements of leaves: no block is added or removed, and many paths are followed
    // together.
    let mut again = Batch::new();
    for (hash, value) in &mut model {
        value.push(1);
        again.put(hash, value).unwrap();
    }
    store.write(&again).unwrap();
    assert_holds(&store, &model);
    store.write(&none).unwrap();
    assert_holds(&store, &Model::new());
    assert_eq!(store.root().unwrap(), EMPTY_ROOT);
    store.write(&some).unwrap();
    model.values_mut().for_each(|value| value.truncate(4));
    drop(store);
    // All four batches are replayed.
    let (store, recovered) = Store::open_on(Arc::new(disk), large).unwrap();
    assert_eq!(recovered.replayed_batches, 4);
    assert_holds(&store, &model);
}

#[test]
fn the_mode_is_fixed_when_the_store_is_created() {
    for authenticated in [false, true] {
        let disk = MemoryDisk::new();
        drop(open(&disk, Options { authenticated, ..small_options() }));
        let other = Options { authenticated: !authenticated, ..small_options() };
        let refused = Store::open_on(Arc::new(disk.clone()), other).map(|_| ());
        assert!(
            matches!(refused, Err(Error::Options { field: "authenticated", .. })),
            "{refused:?}"
        );
        let store = open(&disk, Options { authenticated, ..small_options() });
        assert_eq!(store.root().is_ok(), authenticated);
        let snapshot = store.snapshot().unwrap();
        let proof = snapshot.prove(b"key");
        assert!(proof.is_ok() || matches!(proof, Err(Error::NotAuthenticated)));
        assert_eq!(proof.is_ok(), authenticated);
    }
}

#[test]
fn old_versions_are_kept_as_long_as_was_asked() {
    let disk = MemoryDisk::new();
    let kept = Options { kept_versions: 5, ..options() };
    let store = open(&disk, kept.clone());
    assert_eq!(store.version(), 1);
    let (mut model, mut random) = (Model::new(), Random(77));
    let mut models = vec![(1, model.clone())];
    for step in 0..300 {
        change(&store, &mut model, &mut random, 50).unwrap();
        models.push((store.version(), model.clone()));
        assert_eq!(store.version(), step + 2);
        if step % 40 == 0 {
            store.checkpoint().unwrap();
        }
        for (version, then) in models.iter().rev().take(6) {
            let snapshot = store.snapshot_at(*version).unwrap();
            assert_eq!(snapshot.version().unwrap(), *version);
            assert_eq!(snapshot.root().unwrap(), root_of(then));
            let there: Model = snapshot
                .iter()
                .map(|item| item.map(|(hash, item)| (hash, item.value.to_vec())).unwrap())
                .collect();
            assert!(there == *then, "version {version}");
        }
        let newest = store.version();
        let oldest = newest.saturating_sub(5).max(1);
        for version in [0, oldest - 1, newest + 1] {
            let refused = store.snapshot_at(version).map(|_| ());
            let Err(Error::NotKept { version: of, oldest: from, newest: to }) = refused else {
                panic!("{refused:?}");
            };
            assert_eq!((of, from, to), (version, oldest, newest));
        }
    }
    // The snapshot of an old version stays readable after that version is dropped.
    let (version, then) = &models[models.len() - 6];
    let held = store.snapshot_at(*version).unwrap();
    for _ in 0..100 {
        change(&store, &mut model, &mut random, 50).unwrap();
    }
    store.checkpoint().unwrap();
    assert!(matches!(store.snapshot_at(*version), Err(Error::NotKept { .. })));
    assert_eq!(held.root().unwrap(), root_of(then));
    for (hash, value) in then {
        let (proof, found) = held.get_proved(hash).unwrap();
        assert_eq!(found, Some(value.as_slice()));
        proof.verify_value(&root_of(then), &hash.0, found).unwrap();
    }
    drop(held);
    assert_holds(&store, &model);
    drop(store);
    let store = open(&disk, kept);
    assert!(matches!(store.snapshot_at(store.version() - 1), Err(Error::NotKept { .. })));
    assert_eq!(store.snapshot_at(store.version()).unwrap().root().unwrap(), root_of(&model));
}

#[test]
fn space_of_old_versions_is_used_again() {
    let store = open(&MemoryDisk::new(), Options { kept_versions: 20, ..options() });
    let (mut model, mut random) = (Model::new(), Random(6));
    let mut most = 0;
    for round in 0..5000 {
        change(&store, &mut model, &mut random, 60).unwrap();
        if round == 1500 {
            most = store.statistics().space_bytes;
        }
    }
    let statistics = store.statistics();
    assert!(statistics.space_bytes <= most * 3 / 2, "{most} grew to {}", statistics.space_bytes);
    assert!(statistics.digest_slot_bytes > 0);
    assert_holds(&store, &model);
}

#[test]
fn readers_beside_a_writer_see_roots_of_what_they_read() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        authenticated: true,
        kept_versions: 3,
        durability: quorate_store::lazy_trie::Durability::Os,
        checkpoint_bytes: 64 << 10,
        write_buffer_bytes: 4 << 20,
        ..Options::default()
    };
    let (store, _) = Store::open(folder.path(), options).unwrap();
    let stopped = std::sync::atomic::AtomicBool::new(false);
    /// Stops the readers, however the writer ends.
    struct Stop<'a>(&'a std::sync::atomic::AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    }
    std::thread::scope(|scope| {
        for thread in 0..2u64 {
            let (store, stopped) = (&store, &stopped);
            scope.spawn(move || {
                let mut random = Random(thread);
                let mut last = 0;
                while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
                    let snapshot = match random.below(2) {
                        0 => store.snapshot().unwrap(),
                        _ => match store.snapshot_at(store.version().saturating_sub(1).max(1)) {
                            Err(Error::NotKept { .. }) => continue,
                            other => other.unwrap(),
                        },
                    };
                    let version = snapshot.version().unwrap();
                    assert!(version + 4 >= last);
                    last = version;
                    let key = random.below(400).to_le_bytes();
                    let (proof, value) = snapshot.get_proved(&key).unwrap();
                    let root = snapshot.root().unwrap();
                    proof.verify_value(&root, &Hash::of(&key).0, value).unwrap();
                    assert_eq!(value, snapshot.get_ref(&key).unwrap());
                }
            });
        }
        let _stop = Stop(&stopped);
        let mut random = Random(99);
        (0..400).for_each(|_| write_some(&store, &mut random, 400));
    });
    assert!(store.check().unwrap().damage.is_empty());
}

#[test]
fn what_is_aside_is_kept_and_not_under_the_root() {
    let disk = MemoryDisk::new();
    let store = open(&disk, options());
    let mut model = Model::new();
    for number in 0..300u32 {
        let key = (number / 2).to_le_bytes();
        let (hash, value) = (Hash::aside(u128::from(number % 40) << 60), vec![number as u8; 30]);
        assert!(hash.is_aside() && hash < Hash::FIRST_UNDER_ROOT);
        let mut batch = Batch::new();
        batch.put(&hash, &value).unwrap();
        if number % 2 == 0 {
            batch.put(&key, &value).unwrap();
            model.insert(Hash::of(&key), value.clone());
        } else if number % 7 == 0 {
            batch.delete(&key).unwrap();
            model.remove(&Hash::of(&key));
            batch.delete(&Hash::aside(5 << 60)).unwrap();
        }
        store.write(&batch).unwrap();
        assert_eq!(store.root().unwrap(), root_of(&model));
        assert_eq!(
            store.get(&hash).unwrap().is_some(),
            hash != Hash::aside(5 << 60) || number % 7 != 0
        );
    }
    let check = |store: &Store| {
        let checked = store.check().unwrap();
        assert_eq!(checked.damage, []);
        assert!(checked.items > model.len() as u64);
        let snapshot = store.snapshot().unwrap();
        assert_eq!(snapshot.iter_from(&Hash::FIRST_UNDER_ROOT).count(), model.len());
        assert!(snapshot.iter().next().unwrap().unwrap().0.is_aside());
        // It exists, but no set with proofs contains it.
        let (proof, proved) = snapshot.get_proved(&Hash::aside(1 << 60)).unwrap();
        assert_eq!(proof.verify(&store.root().unwrap(), &Hash::aside(1 << 60).0).unwrap(), None);
        assert_eq!(proved, None);
    };
    check(&store);
    drop(store);
    let store = open(&disk, options());
    assert_eq!(store.root().unwrap(), root_of(&model));
    check(&store);
}

#[test]
fn values_may_be_hashed_as_their_owner_says() {
    let by_length = |values: &[&[u8]], digests: &mut [[u8; 32]]| {
        let lengths = values.iter().map(|value| [value.len() as u8; 32]);
        digests.iter_mut().zip(lengths).for_each(|(digest, length)| *digest = length);
    };
    let options = Options { value_digest: Some(by_length), ..options() };
    let disk = MemoryDisk::new();
    let store = open(&disk, options.clone());
    store.put(b"one", b"abc").unwrap();
    store.put(b"two", b"abcd").unwrap();
    let root = store.root().unwrap();
    store.put(b"one", b"xyz").unwrap();
    assert_eq!(store.root().unwrap(), root);
    let proof = store.snapshot().unwrap().prove(b"two").unwrap();
    assert_eq!(proof.verify(&root, &Hash::of(b"two").0).unwrap(), Some([4; 32]));
    assert_eq!(store.check().unwrap().damage, []);
    drop(store);
    let stranger = Options { value_digest: None, ..options.clone() };
    let refused = Store::open_on(Arc::new(disk.clone()), stranger).err();
    assert!(matches!(refused, Some(Error::Options { field: "value_digest", .. })), "{refused:?}");
    assert_eq!(open(&disk, options).root().unwrap(), root);
}

#[test]
fn a_shared_snapshot_outlives_its_store() {
    let store = Arc::new(open(&MemoryDisk::new(), options()));
    store.put(b"key", b"before").unwrap();
    let snapshot = store.shared_snapshot().unwrap();
    store.put(b"key", b"after").unwrap();
    drop(store);
    let read = std::thread::spawn(move || snapshot.get(b"key").unwrap());
    assert_eq!(read.join().unwrap(), Some(b"before".to_vec()));
}

#[test]
fn a_batch_that_finds_no_room_leaves_the_root_as_it_was() {
    let store = open(&MemoryDisk::new(), Options { limit_bytes: 256 << 10, ..options() });
    let mut model = Model::new();
    let mut refused = 0;
    for number in 0..400u32 {
        let (batch, after) = eight_more(&model, number);
        match store.write(&batch) {
            Ok(()) => model = after,
            Err(Error::LimitReached { .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
        assert_root(&store, &model, "after a batch");
        if refused == 5 {
            break;
        }
    }
    assert_eq!(refused, 5);
    assert_holds(&store, &model);
}

/// A batch that is large enough for several threads: items are added, changed and removed, some
/// many times. Also returns the model after it.
fn large_batch(model: &Model, random: &mut Random, changes: u32, keys: u64) -> (Batch, Model) {
    let (mut batch, mut after) = (Batch::new(), model.clone());
    for _ in 0..changes {
        let key = random.below(keys).to_le_bytes();
        if random.below(3) == 0 {
            batch.delete(&key).unwrap();
            after.remove(&Hash::of(&key));
        } else {
            let value = vec![random.below(256) as u8; random.below(300) as usize];
            batch.put(&key, &value).unwrap();
            after.insert(Hash::of(&key), value);
        }
    }
    (batch, after)
}

#[test]
fn an_item_that_changes_many_times_in_a_batch_of_several_rounds_is_as_it_was_left() {
    for (seed, proofs) in (0..).zip(BOTH.into_iter().cycle()).take(6) {
        let options = Options {
            proofs,
            hashing_threads: 1 + seed / 2,
            write_buffer_bytes: 8 << 20,
            ..options()
        };
        let store = open(&MemoryDisk::new(), options);
        let (mut model, mut random) = (Model::new(), Random(800 + seed as u64));
        for keys in [500, 40, 3000, 500] {
            let (batch, after) = large_batch(&model, &mut random, 6000, keys);
            store.write(&batch).unwrap();
            model = after;
            assert_root(&store, &model, "after a batch");
        }
        assert_holds(&store, &model);
    }
}

#[test]
fn a_batch_that_several_threads_make_and_that_finds_no_room_leaves_the_root_as_it_was() {
    for (seed, proofs) in (0..).zip(BOTH.into_iter().cycle()).take(8) {
        let crash = CrashDisk::new();
        let disk: Arc<dyn Disk> = Arc::new(crash.clone());
        let options = Options {
            proofs,
            hashing_threads: 1 + seed / 2,
            log_commits: false,
            write_buffer_bytes: 64 << 20,
            ..options()
        };
        let (store, _) = Store::open_on(disk, options).unwrap();
        let (mut model, mut random) = (Model::new(), Random(900 + seed as u64));
        let mut refused = 0;
        for round in 0..20 {
            // After a few more operations of the disk.
            crash.fill_up(1 + random.below(6));
            for _ in 0..4 {
                let (batch, after) = large_batch(&model, &mut random, 400, 4000);
                match store.write(&batch) {
                    Ok(()) => model = after,
                    Err(error) if error.to_string().contains("injected full disk") => refused += 1,
                    Err(error) => panic!("{error}"),
                }
                assert_root(&store, &model, "after a batch");
            }
            crash.heal();
            if round % 3 == 0 {
                assert_holds(&store, &model);
            }
        }
        assert_holds(&store, &model);
        assert!(refused > 5, "{refused}");
    }
}

#[test]
fn what_best_effort_recovery_takes_has_its_root() {
    let disk = MemoryDisk::new();
    let log = Options { checkpoint_bytes: 8 << 20, ..options() };
    let store = open(&disk, log.clone());
    let (mut model, mut random) = (Model::new(), Random(31));
    let mut roots = vec![EMPTY_ROOT];
    for _ in 0..200 {
        change(&store, &mut model, &mut random, 60).unwrap();
        roots.push(root_of(&model));
    }
    drop(store);
    let name = disk.list().unwrap().into_iter().find(|name| name.ends_with("0.wal")).unwrap();
    disk.flip_bit(&name, 30_000, 3).unwrap();
    let salvaging = Options { recovery: quorate_store::lazy_trie::Recovery::BestEffort, ..log };
    let (store, recovered) = Store::open_on(Arc::new(disk), salvaging).unwrap();
    assert!(recovered.lost.is_some());
    let prefix = recovered.replayed_batches as usize;
    assert!((1..200).contains(&prefix), "{prefix}");
    assert_eq!(store.root().unwrap(), roots[prefix]);
    assert_eq!(store.check().unwrap().damage, []);
}
