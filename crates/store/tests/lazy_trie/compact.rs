//! Tests of compaction: the same items in less room, and one whole store after any interruption.

use crate::crash_life::fates;
use crate::random::{Model, Random, assert_holds, change, small_options};
use quorate_store::disk::{CrashDisk, Disk, Fate, MemoryDisk};
use quorate_store::lazy_trie::{Error, Hash, Options, Store, WriteOut};
use std::sync::Arc;

/// A store that was larger before, with commits that are only in the log.
fn shrunk(seed: u64, peak: u64, rest: u64) -> (MemoryDisk, Model) {
    let disk = MemoryDisk::new();
    let (store, _) = Store::open_on(Arc::new(disk.clone()), small_options()).unwrap();
    let mut model = Model::new();
    let mut random = Random(seed);
    for item in 0..peak {
        let (name, value) = (item.to_be_bytes(), vec![item as u8; 400]);
        store.put(&name, &value).unwrap();
        model.insert(Hash::of(&name), value);
    }
    for item in rest..peak {
        let name = item.to_be_bytes();
        assert!(store.delete(&name).unwrap());
        model.remove(&Hash::of(&name));
    }
    store.checkpoint().unwrap();
    for _ in 0..10 {
        change(&store, &mut model, &mut random, 60).unwrap();
    }
    (disk, model)
}

/// Checks that a folder's content is the model, also after further changes and another start.
fn check(disk: &MemoryDisk, model: &Model, goes_on: bool, what: &str) {
    let open = || Store::open_on(Arc::new(disk.clone()), small_options());
    let (store, recovered) = open().unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(!recovered.created, "{what}");
    assert_holds(&store, model);
    let left = disk.list().unwrap();
    assert!(
        !left.iter().any(|name| name.ends_with(".compact") || name.ends_with(".swap")),
        "{what}: {left:?}"
    );
    if goes_on {
        let mut model = model.clone();
        let mut random = Random(model.len() as u64);
        (0..10).for_each(|_| change(&store, &mut model, &mut random, 60).unwrap());
        drop(store);
        assert_holds(&open().unwrap().0, &model);
    }
}

#[test]
fn a_compact_store_holds_the_same_in_less_room() {
    let (disk, model) = shrunk(1, 2000, 300);
    let compacted = Store::compact_on(Arc::new(disk.clone()), small_options()).unwrap();
    assert_eq!(compacted.items, model.len() as u64);
    assert!(compacted.bytes_after * 3 < compacted.bytes_before, "{compacted:?}");
    let names = disk.list().unwrap();
    let sizes = names.iter().map(|name| disk.content(name).unwrap().len() as u64);
    assert_eq!(sizes.sum::<u64>(), compacted.bytes_after, "{names:?}");
    assert!(names.iter().all(|name| name == "store.head" || name.ends_with(".space")), "{names:?}");
    check(&disk.fork(), &model, true, "compact");
    // Once more, with a log present.
    drop(Store::open_on(Arc::new(disk.clone()), small_options()).unwrap());
    let again = Store::compact_on(Arc::new(disk.clone()), small_options()).unwrap();
    assert_eq!(again.items, model.len() as u64);
}

#[test]
fn an_empty_store_and_no_store() {
    let disk = MemoryDisk::new();
    let missing = Store::compact_on(Arc::new(disk.clone()), small_options());
    assert!(matches!(missing, Err(Error::Missing { .. })));
    assert_eq!(disk.list().unwrap(), Vec::<String>::new(), "nothing is begun");
    drop(Store::open_on(Arc::new(disk.clone()), small_options()).unwrap());
    let compacted = Store::compact_on(Arc::new(disk.clone()), small_options()).unwrap();
    assert_eq!(compacted.items, 0);
    check(&disk, &Model::new(), true, "empty");
}

#[test]
fn a_real_folder_is_compacted_under_its_lock() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("nowhere");
    assert!(matches!(Store::compact(&nowhere, small_options()), Err(Error::Missing { .. })));
    assert!(!nowhere.exists());
    let options = Options { write_out: WriteOut::Background, ..small_options() };
    let (store, _) = Store::open(folder.path(), options.clone()).unwrap();
    let mut model = Model::new();
    let mut random = Random(8);
    (0..600).for_each(|_| change(&store, &mut model, &mut random, 200).unwrap());
    let held = Store::compact(folder.path(), options.clone());
    assert!(matches!(held, Err(Error::Lock(_))));
    drop(store);
    let compacted = Store::compact(folder.path(), options.clone()).unwrap();
    assert_eq!(compacted.items, model.len() as u64);
    assert_holds(&Store::open(folder.path(), options).unwrap().0, &model);
}

/// Every crash state of a compaction, and of the start after it, is one whole store.
#[test]
fn no_crash_on_the_way_loses_anything() {
    let (start, model) = shrunk(5, 260, 40);
    let crash = CrashDisk::over(&start).unwrap();
    Store::compact_on(Arc::new(crash.clone()), small_options()).unwrap();
    let operations = crash.operations();
    let mut states = 0;
    for cut in 0..=operations {
        for fate in fates(&crash, cut, 3) {
            let what = format!("cut {cut} of {operations}, {fate:?}");
            let left = crash.materialise(cut, fate);
            let again = (states % 17 == 0 || cut + 16 > operations).then(|| left.fork());
            check(&left, &model, states % 31 == 0, &what);
            states += 1;
            let Some(again) = again else { continue };
            let second = CrashDisk::over(&again).unwrap();
            drop(Store::open_on(Arc::new(second.clone()), small_options()).unwrap());
            for cut in 0..=second.operations() {
                for fate in [Fate::Lost, Fate::NamesLost, Fate::Mixed { seed: cut as u64 }] {
                    let what = format!("{what}, then cut {cut}, {fate:?}");
                    check(&second.materialise(cut, fate), &model, false, &what);
                    states += 1;
                }
            }
        }
    }
    assert!(states > 1000, "{states}");
}

#[test]
fn a_full_or_failing_disk_leaves_the_store() {
    let (start, model) = shrunk(6, 260, 40);
    let measure = CrashDisk::over(&start).unwrap();
    Store::compact_on(Arc::new(measure.clone()), small_options()).unwrap();
    let (operations, syncs) = (measure.operations() as u64, measure.syncs() as u64);
    let mut refused = 0;
    for write in 1..operations {
        let crash = CrashDisk::over(&start).unwrap();
        crash.fill_up(write);
        let Err(error) = Store::compact_on(Arc::new(crash.clone()), small_options()) else {
            continue;
        };
        assert!(error.to_string().contains("injected full disk"), "{error}");
        refused += 1;
        crash.heal();
        check(&crash.materialise(usize::MAX, Fate::Kept), &model, false, "full");
    }
    for sync in 1..=syncs {
        let crash = CrashDisk::over(&start).unwrap();
        crash.fail_sync(sync);
        assert!(Store::compact_on(Arc::new(crash.clone()), small_options()).is_err());
        for fate in [Fate::Kept, Fate::Lost, Fate::Mixed { seed: sync }] {
            check(&crash.materialise(usize::MAX, fate), &model, false, &format!("sync {sync}"));
        }
    }
    assert!(refused > 20, "{refused}");
}

/// An unreadable item is not omitted silently.
#[test]
fn a_damaged_store_is_not_compacted() {
    let (disk, model) = shrunk(7, 300, 200);
    drop(Store::open_on(Arc::new(disk.clone()), small_options()).unwrap());
    let before = disk.fork();
    // One bit of the value of item 70, wherever it is.
    let found = disk.list().unwrap().into_iter().find_map(|name| {
        let content = disk.content(&name).ok().filter(|_| name.ends_with(".space"))?;
        let at = content.windows(400).position(|window| window == [70; 400])?;
        Some((name, at as u64))
    });
    let (region, at) = found.expect("item 70");
    disk.flip_bit(&region, at + 200, 3).unwrap();
    match Store::compact_on(Arc::new(disk.clone()), small_options()) {
        Err(Error::Damaged { file, offset, .. }) => {
            assert_eq!(file, region);
            assert!(offset <= at && at - offset < 32, "{offset} {at}");
        }
        other => panic!("{other:?}"),
    }
    assert!(!disk.list().unwrap().iter().any(|name| name.ends_with(".compact")));
    check(&before, &model, false, "undamaged");
}

#[test]
fn an_authenticated_store_keeps_its_root() {
    let disk = MemoryDisk::new();
    let options = || Options { authenticated: true, ..small_options() };
    let (store, _) = Store::open_on(Arc::new(disk.clone()), options()).unwrap();
    let mut model = Model::new();
    let mut random = Random(7);
    (0..30).for_each(|_| change(&store, &mut model, &mut random, 60).unwrap());
    let root = store.root().unwrap();
    drop(store);
    Store::compact_on(Arc::new(disk.clone()), options()).unwrap();
    let (store, _) = Store::open_on(Arc::new(disk), options()).unwrap();
    assert_eq!(store.root().unwrap(), root);
    assert_eq!(store.check().unwrap().damage, []);
    assert_holds(&store, &model);
}
