//! Random runs against a `BTreeMap`.

use crate::random::{Model, Random, assert_holds, change, content, name, small_options, value};
use quorate_store::disk::{Disk, MemoryDisk};
use quorate_store::lazy_trie::{Batch, Hash, Options, Store};
use std::sync::Arc;

/// A run with restarts, checkpoints, and snapshots that are held for a while.
pub fn live(disk: &Arc<dyn Disk>, options: &Options, seed: u64, steps: u64, names: u64) {
    let mut random = Random(seed);
    let mut model = Model::new();
    let mut left = steps;
    while left > 0 {
        let (store, recovered) = Store::open_on(Arc::clone(disk), options.clone()).unwrap();
        assert_eq!(recovered.lost, None);
        assert_holds(&store, &model);
        let mut held = Vec::new();
        for _ in 0..left.min(1 + random.below(steps / 3)) {
            left -= 1;
            change(&store, &mut model, &mut random, names).unwrap();
            let asked = name(&mut random, names);
            let expected = model.get(&asked.hash());
            assert_eq!(store.get(asked.name()).unwrap().as_ref(), expected);
            match random.below(60) {
                0 => store.checkpoint().unwrap(),
                1 => held.push((store.snapshot().unwrap(), model.clone())),
                2 if !held.is_empty() => {
                    let (snapshot, then) =
                        held.swap_remove(random.below(held.len() as u64) as usize);
                    let there: Model = snapshot
                        .iter()
                        .map(|item| item.map(|(hash, item)| (hash, item.value.to_vec())).unwrap())
                        .collect();
                    assert!(there == then, "a snapshot changed");
                    let from = Hash([random.next() as u8; 32]);
                    let behind: Vec<Hash> =
                        snapshot.iter_from(&from).map(|item| item.unwrap().0).collect();
                    assert_eq!(
                        behind,
                        then.range(from..).map(|(hash, _)| *hash).collect::<Vec<_>>()
                    );
                }
                3 => assert_holds(&store, &model),
                _ => {}
            }
        }
        drop(held);
        assert_holds(&store, &model);
    }
}

#[test]
fn random_lives_agree_with_a_map() {
    for seed in 0..12 {
        let bucket_items = [1, 2, 4, 64][seed as usize % 4];
        let options = Options { bucket_items, ..small_options() };
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        live(&disk, &options, seed, 900, [20, 200, 2000][seed as usize % 3]);
    }
}

#[test]
fn random_lives_in_mapped_files_agree_with_a_map() {
    for seed in 100..104 {
        let folder = tempfile::tempdir().unwrap();
        let disk = quorate_store::disk::FileDisk::open(folder.path()).unwrap();
        live(&(Arc::new(disk) as Arc<dyn Disk>), &small_options(), seed, 600, 300);
    }
}

#[test]
fn space_is_used_again() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let (store, _) = Store::open_on(disk, small_options()).unwrap();
    let mut random = Random(5);
    let mut model = Model::new();
    let mut most = 0;
    for round in 0..6000 {
        let (name, value) = (name(&mut random, 150), value(&mut random));
        store.put(name.name(), &value).unwrap();
        model.insert(name.hash(), value);
        if round == 2000 {
            most = store.statistics().space_bytes;
        }
    }
    let statistics = store.statistics();
    assert!(statistics.space_bytes <= most * 3 / 2, "{most} grew to {}", statistics.space_bytes);
    assert_holds(&store, &model);
    for hash in model.keys() {
        assert!(store.delete(hash).unwrap());
    }
    model.clear();
    store.checkpoint().unwrap();
    store.checkpoint().unwrap();
    assert_holds(&store, &model);
    let statistics = store.statistics();
    let taken =
        statistics.item_slot_bytes + statistics.bucket_slot_bytes + statistics.node_slot_bytes;
    // Only the ledger.
    assert!(taken < 32 << 10, "{statistics:?}");
}

#[test]
fn a_batch_longer_than_a_record_is_whole_after_a_restart() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let mut model = Model::new();
    let mut random = Random(9);
    let mut batch = Batch::new();
    for number in 0..400u32 {
        let bytes = value(&mut random);
        batch.put(&number.to_le_bytes(), &bytes).unwrap();
        model.insert(Hash::of(&number.to_le_bytes()), bytes);
    }
    let options =
        Options { checkpoint_bytes: 8 << 20, write_buffer_bytes: 16 << 20, ..small_options() };
    let (store, _) = Store::open_on(Arc::clone(&disk), options.clone()).unwrap();
    store.write(&batch).unwrap();
    drop(store);
    let (store, recovered) = Store::open_on(disk, options).unwrap();
    assert_eq!(recovered.replayed_batches, 1);
    assert!(content(&store).unwrap() == model);
}

#[test]
fn limits_are_errors_and_change_nothing() {
    use quorate_store::lazy_trie::{Error, KEY_LIMIT_BYTES, VALUE_LIMIT_BYTES};
    let options = Options { limit_bytes: 256 << 10, ..small_options() };
    let (store, _) = Store::open_on(Arc::new(MemoryDisk::new()), options).unwrap();
    let long = vec![0; KEY_LIMIT_BYTES + 1];
    assert!(matches!(store.put(&long, b""), Err(Error::TooLarge { what: "a key", .. })));
    let long = vec![0; VALUE_LIMIT_BYTES + 1];
    assert!(matches!(store.put(b"k", &long), Err(Error::TooLarge { what: "a value", .. })));
    // More than a region of this store can hold.
    assert!(matches!(
        store.put(b"k", &long[..100_000]),
        Err(Error::TooLarge { what: "an item", .. })
    ));
    let mut model = Model::new();
    let mut refused = 0;
    for number in 0..2000u32 {
        let key = number.to_le_bytes();
        match store.put(&key, &[7; 300]) {
            Ok(()) => {
                model.insert(Hash::of(&key), vec![7; 300]);
            }
            Err(Error::LimitReached { .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
        if refused == 5 {
            break;
        }
    }
    assert_eq!(refused, 5);
    assert_holds(&store, &model);
}

/// Pools prefer many holes, but must not take the last region: the ledger of the next checkpoint
/// cannot use holes.
#[test]
fn a_store_near_its_limit_goes_on_in_its_holes() {
    let options = Options { limit_bytes: 1408 << 10, authenticated: true, ..small_options() };
    let options = Options { bucket_items: 64, ..options };
    let (store, _) = Store::open_on(Arc::new(MemoryDisk::new()), options).unwrap();
    let mut random = Random(5);
    for number in 0..3000u64 {
        store.put(&number.to_le_bytes(), &[1; 150]).unwrap();
    }
    for step in 0..10_000u64 {
        let key = random.below(3000).to_le_bytes();
        let put = store.put(&key, &[step as u8; 150]);
        put.unwrap_or_else(|error| panic!("change {step}: {error}"));
    }
    assert_eq!(store.check().unwrap().damage, []);
}
