//! Tests of damaged files: every error names the file, and no wrong data is ever returned.

use crate::random::{Model, Random, change, content, small_options};
use quorate_store::disk::{Disk, FileDisk, MemoryDisk};
use quorate_store::lazy_trie::{Durability, Error, Hash, Options, Recovery, Store, WriteOut};
use std::sync::Arc;

/// A store of some hundred items, with its last commits only in the log, and its content.
fn grown(steps: u64, checkpoints: bool) -> (MemoryDisk, Model) {
    let (disk, model, _) = grown_twice(steps, checkpoints);
    (disk, model)
}

/// The same, with the content before the last commit.
fn grown_twice(steps: u64, checkpoints: bool) -> (MemoryDisk, Model, Model) {
    let disk = MemoryDisk::new();
    let mut model = Model::new();
    let mut before = Model::new();
    let mut random = Random(3);
    let checkpoint_bytes = if checkpoints { 24 << 10 } else { 8 << 20 };
    let options = Options { checkpoint_bytes, ..small_options() };
    let (store, _) = Store::open_on(Arc::new(disk.clone()), options).unwrap();
    for step in 0..steps {
        if checkpoints && step + 30 == steps {
            store.checkpoint().unwrap();
        }
        before.clone_from(&model);
        change(&store, &mut model, &mut random, 300).unwrap();
    }
    (disk, model, before)
}

fn open(disk: &MemoryDisk) -> Result<Store, Error> {
    Store::open_on(Arc::new(disk.clone()), small_options()).map(|(store, _)| store)
}

fn refusal(disk: &MemoryDisk) -> Error {
    match open(disk) {
        Ok(_) => panic!("it opened"),
        Err(error) => error,
    }
}

/// Whether an error of damage names a file.
fn names_a_file(error: &Error) -> bool {
    let text = error.to_string();
    [".space", ".wal", "store.head", "the write-ahead log"].iter().any(|name| text.contains(name))
}

#[test]
fn no_flipped_bit_is_ever_believed() {
    let (disk, model, before) = grown_twice(400, true);
    let mut random = Random(17);
    let (mut refused, mut found, mut harmless) = (0, 0, 0);
    let names: Vec<String> =
        disk.list().unwrap().into_iter().filter(|name| !name.ends_with(".spare")).collect();
    for _ in 0..1500 {
        let rotten = disk.fork();
        let name = &names[random.below(names.len() as u64) as usize];
        let size = rotten.content(name).unwrap().len() as u64;
        let offset = random.below(size);
        rotten.flip_bit(name, offset, random.below(8) as u32).unwrap();
        let store = match open(&rotten) {
            Ok(store) => store,
            Err(error) => {
                assert!(names_a_file(&error), "{error}");
                refused += 1;
                continue;
            }
        };
        // Bit rot in the record of the very last commit looks like a torn write.
        let last_lost =
            name.ends_with(".wal") && content(&store).is_ok_and(|there| there == before);
        let mut errors = 0;
        for (hash, value) in if last_lost { &before } else { &model } {
            match store.get(hash) {
                Ok(there) => assert!(there.as_ref() == Some(value), "{name} at {offset}"),
                Err(error) => {
                    assert!(
                        matches!(error, Error::Damaged { .. }) && names_a_file(&error),
                        "{error}"
                    );
                    errors += 1;
                }
            }
        }
        let damage = store.check().unwrap().damage;
        assert_eq!(damage.is_empty(), errors == 0, "{name} at {offset}: {damage:?}");
        if errors > 0 { found += 1 } else { harmless += 1 }
    }
    assert!(refused > 20 && found > 100 && harmless > 100, "{refused} {found} {harmless}");
}

/// One damaged item affects no other, wherever it is: an iteration reports it and returns all the
/// rest in order.
#[test]
fn iterating_passes_over_a_damaged_item_alone() {
    let disk = MemoryDisk::new();
    let options = Options { bucket_items: 64, ..small_options() };
    let (store, _) = Store::open_on(Arc::new(disk.clone()), options.clone()).unwrap();
    for item in 1..=50_u8 {
        store.put(&[item; 8], &[item; 40]).unwrap();
    }
    store.checkpoint().unwrap();
    drop(store);
    let region = disk.content("000000.space").unwrap();
    for item in 1..=50_u8 {
        let rotten = disk.fork();
        let value = [item; 48];
        let at = region.windows(48).position(|window| window == value).expect("key and value");
        rotten.flip_bit("000000.space", at as u64 + 20, 1).unwrap();
        let (store, _) = Store::open_on(Arc::new(rotten), options.clone()).unwrap();
        let snapshot = store.snapshot().unwrap();
        let (found, errors): (Vec<_>, Vec<_>) = snapshot.iter().partition(Result::is_ok);
        assert_eq!((found.len(), errors.len()), (49, 1), "item {item}");
        assert!(found.iter().is_sorted_by_key(|item| item.as_ref().ok().map(|(hash, _)| *hash)));
    }
}

#[test]
fn zeroed_sectors_are_found() {
    let (disk, model) = grown(400, true);
    let content = disk.content("000000.space").unwrap();
    let mut hit = 0;
    for sector in 8..content.len() / 512 {
        let mut zeroed = content.clone();
        zeroed[sector * 512..][..512].fill(0);
        let rotten = disk.fork();
        rotten.put("000000.space", zeroed);
        let Ok(store) = open(&rotten) else {
            hit += 1;
            continue;
        };
        for (hash, value) in &model {
            match store.get(hash) {
                Ok(there) => assert!(there.as_ref() == Some(value), "sector {sector}"),
                Err(error) => {
                    assert!(names_a_file(&error), "{error}");
                    hit += 1;
                    break;
                }
            }
        }
    }
    assert!(hit > 20, "{hit}");
}

#[test]
fn what_is_no_store_of_this_version_is_refused() {
    let (disk, _) = grown(300, true);
    let edit = |name: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let copy = disk.fork();
        let mut bytes = copy.content(name).unwrap();
        change(&mut bytes);
        copy.put(name, bytes);
        refusal(&copy)
    };
    for name in ["store.head", "000000.space"] {
        let foreign = edit(name, &|bytes| bytes[..8].copy_from_slice(b"SQLite f"));
        assert!(matches!(&foreign, Error::Foreign { file, .. } if file == name), "{foreign}");
        let version = edit(name, &|bytes| bytes[8] = 9);
        assert!(
            matches!(&version, Error::Version { file, found: 9, .. } if file == name),
            "{version}"
        );
        let empty = edit(name, &|bytes| bytes.clear());
        assert!(empty.to_string().contains(name), "{empty}");
        let cut = edit(name, &|bytes| bytes.truncate(5000));
        assert!(cut.to_string().contains(name), "{cut}");
    }
    for name in ["store.head", "000000.space"] {
        let copy = disk.fork();
        copy.remove(name).unwrap();
        let missing = refusal(&copy);
        assert!(matches!(&missing, Error::Missing { file, .. } if file == name), "{missing}");
    }
    let copy = disk.fork();
    for name in copy.list().unwrap().iter().filter(|name| name.ends_with(".wal")) {
        copy.remove(name).unwrap();
    }
    let missing = refusal(&copy);
    assert!(matches!(&missing, Error::Missing { file, .. } if file.contains("log")), "{missing}");
}

#[test]
fn the_older_of_two_checkpoints_is_only_taken_while_it_counts() {
    let newest = |bytes: &[u8]| {
        let number =
            |page: usize| u64::from_le_bytes(bytes[page * 4096 + 8..][..8].try_into().unwrap());
        if number(1) > number(2) { 1 } else { 2 }
    };
    let (mut opened, mut refused) = (0, 0);
    for steps in 250..310 {
        let (disk, model) = grown(steps, true);
        let mut bytes = disk.content("store.head").unwrap();
        let at = newest(&bytes) * 4096 + 30;
        bytes[at] ^= 1;
        disk.put("store.head", bytes);
        match open(&disk) {
            Ok(store) => {
                assert!(content(&store).unwrap() == model);
                assert!(store.check().unwrap().damage.is_empty());
                opened += 1;
            }
            Err(error) => {
                assert!(error.to_string().contains("store.head"), "{error}");
                refused += 1;
            }
        }
    }
    assert!(opened > 0 && refused > 0, "{opened} {refused}");
}

#[test]
fn a_region_of_another_store_is_refused() {
    let (disk, _) = grown(300, true);
    let other = MemoryDisk::new();
    let options = Options { identity: Some([9; 16]), ..small_options() };
    let (store, _) = Store::open_on(Arc::new(other.clone()), options).unwrap();
    store.put(b"a", b"b").unwrap();
    store.checkpoint().unwrap();
    drop(store);
    disk.put("000000.space", other.content("000000.space").unwrap());
    let error = refusal(&disk);
    assert!(matches!(&error, Error::Foreign { file, .. } if file == "000000.space"), "{error}");
}

#[test]
fn best_effort_recovery_takes_what_can_be_read() {
    let (disk, model) = grown(120, false);
    let mut wholes = Vec::new();
    // All intermediate models, to compare a prefix with.
    {
        let scratch = MemoryDisk::new();
        let options = Options { checkpoint_bytes: 8 << 20, ..small_options() };
        let (store, _) = Store::open_on(Arc::new(scratch), options).unwrap();
        let (mut model, mut random) = (Model::new(), Random(3));
        wholes.push(model.clone());
        for _ in 0..120 {
            change(&store, &mut model, &mut random, 300).unwrap();
            wholes.push(model.clone());
        }
    }
    assert!(wholes.last() == Some(&model));
    let logs: Vec<String> =
        disk.list().unwrap().into_iter().filter(|name| name.ends_with(".wal")).collect();
    assert!(logs.len() > 2);
    let best = || Options { recovery: Recovery::BestEffort, ..small_options() };
    for (index, log) in logs.iter().enumerate() {
        for gone in [false, true] {
            let rotten = disk.fork();
            if gone {
                rotten.remove(log).unwrap();
            } else {
                rotten.flip_bit(log, 25_000, 3).unwrap();
            }
            if index + 1 < logs.len() {
                assert!(open(&rotten).is_err());
            }
            let disk: Arc<dyn Disk> = Arc::new(rotten.clone());
            let (store, recovered) = Store::open_on(Arc::clone(&disk), best()).unwrap();
            let there = content(&store).unwrap();
            let prefix = wholes.iter().position(|whole| *whole == there);
            assert!(prefix.is_some(), "{log} {gone}: not a prefix");
            if index + 1 < logs.len() {
                let lost = recovered.lost.unwrap();
                assert!(lost.contains(".wal") || lost.contains("write-ahead log"), "{lost}");
                assert!(there != model);
            }
            store.put(b"after", b"it").unwrap();
            drop(store);
            // From now on it is a normal store.
            let store = open(&rotten).unwrap();
            assert_eq!(content(&store).unwrap().len(), there.len() + 1);
            assert!(store.check().unwrap().damage.is_empty());
        }
    }
    let rotten = disk.fork();
    logs.iter().for_each(|log| rotten.remove(log).unwrap());
    let (store, recovered) = Store::open_on(Arc::new(rotten), best()).unwrap();
    assert!(content(&store).unwrap().is_empty() && recovered.lost.is_some());
}

#[test]
fn a_full_disk_is_an_error_and_loses_nothing() {
    use quorate_store::disk::CrashDisk;
    for room in 1..60 {
        let crash = CrashDisk::new();
        let disk: Arc<dyn Disk> = Arc::new(crash.clone());
        let (store, _) = Store::open_on(Arc::clone(&disk), small_options()).unwrap();
        let mut model = Model::new();
        crash.fill_up(room);
        let refused = (0..4000u32).find_map(|number| {
            let value = vec![number as u8; 200];
            match store.put(&number.to_le_bytes(), &value) {
                Ok(()) => {
                    model.insert(Hash::of(&number.to_le_bytes()), value);
                    None
                }
                Err(error) => Some(error),
            }
        });
        let text = refused.unwrap().to_string();
        assert!(text.contains("injected full disk"), "{text}");
        // Commits are still readable, and exist after a restart with room.
        for (hash, value) in &model {
            assert_eq!(store.get(hash).unwrap().as_ref(), Some(value));
        }
        drop(store);
        crash.heal();
        let (store, _) = Store::open_on(disk, small_options()).unwrap();
        let there = content(&store).unwrap();
        assert!(model.iter().all(|(hash, value)| there.get(hash) == Some(value)));
        assert!(there.len() <= model.len() + 1);
    }
}

#[test]
fn a_sync_that_fails_stops_writing() {
    use quorate_store::disk::CrashDisk;
    let crash = CrashDisk::new();
    let options = Options { durability: Durability::Sync, ..small_options() };
    let (store, _) = Store::open_on(Arc::new(crash.clone()), options).unwrap();
    store.put(b"a", b"1").unwrap();
    crash.fail_sync(1);
    assert!(matches!(store.put(b"a", b"2"), Err(Error::Log(_))));
    let stopped = store.put(b"a", b"3");
    assert!(
        matches!(&stopped, Err(Error::Stopped { reason }) if reason.contains("injected sync error"))
    );
    assert!(matches!(store.checkpoint(), Err(Error::Stopped { .. })));
    // Readers still see earlier commits.
    assert_eq!(store.get(b"a").unwrap(), Some(b"1".to_vec()));
}

#[test]
fn files_cut_short_and_folders_in_use_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let options = || Options { write_out: WriteOut::Background, ..small_options() };
    let (store, _) = Store::open(folder.path(), options()).unwrap();
    for number in 0..500u32 {
        store.put(&number.to_le_bytes(), &[1; 100]).unwrap();
    }
    store.checkpoint().unwrap();
    match Store::open(folder.path(), options()) {
        Err(Error::Lock(error)) => {
            assert!(error.to_string().contains(&std::process::id().to_string()), "{error}");
        }
        other => panic!("{:?}", other.map(|(_, recovered)| recovered)),
    }
    drop(store);
    let region = folder.path().join("000000.space");
    let file = std::fs::OpenOptions::new().write(true).open(&region).unwrap();
    file.set_len(20_000).unwrap();
    match Store::open(folder.path(), options()) {
        Err(Error::Damaged { file, offset: 20_000, .. }) => assert_eq!(file, "000000.space"),
        other => panic!("{:?}", other.map(|(_, recovered)| recovered)),
    }
    let disk = FileDisk::open(folder.path()).unwrap();
    assert!(disk.open("000000.space").unwrap().map(64 << 10).is_err(), "a map beyond the end");
}
