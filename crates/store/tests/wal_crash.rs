//! Tests of power cuts at every operation of a long run, with unsynced operations kept, lost, torn
//! or mixed.

mod common;

use common::{History, Point, Record, live, open, replay};
use quorate_store::disk::{CrashDisk, Disk, Fate, MemoryDisk};
use quorate_store::wal::{Durability, Log, Position};
use std::sync::Arc;

/// All fates that are worth a test after the first `cut` operations.
fn fates(crash: &CrashDisk, cut: usize) -> Vec<Fate> {
    let mut fates = vec![Fate::Kept, Fate::Lost, Fate::ContentLost, Fate::NamesLost];
    fates.extend((0..4).map(|n| Fate::Mixed { seed: (cut as u64) << 8 | n }));
    if let Some(sectors) = cut.checked_sub(1).and_then(|last| crash.sectors(last)) {
        fates.extend((0..sectors).map(|sectors| Fate::Torn { sectors }));
        fates.extend((0..sectors).map(|sector| Fate::Hole { sector }));
    }
    fates
}

/// Checks any folder after a crash. Returns the records found.
fn check(
    disk: &MemoryDisk,
    history: &History,
    point: Point,
    kept: bool,
    what: &str,
) -> (Vec<Record>, Option<Vec<u8>>) {
    let (log, recovered) = open(disk).unwrap_or_else(|error| panic!("{what}: {error}"));
    let records = replay(&log).unwrap_or_else(|error| panic!("{what}: {error}"));
    let (acknowledged, slots) =
        if kept { (point.os, point.os_slots) } else { (point.durable, point.durable_slots) };
    // A contiguous part of the appended records, from at most the retired position to at least the
    // last acknowledged record.
    let start = history.records.partition_point(|record| record.position < log.first_position());
    let end = start + records.len();
    assert!(end >= acknowledged, "{what}: {end} records of {acknowledged} acknowledged");
    assert_eq!(history.records.get(start..end), Some(&records[..]), "{what}");
    if let Some(first) = history.records[..start].last() {
        assert!(
            first.position < point.retired,
            "{what}: {} is gone, retired is {}",
            first.position,
            point.retired
        );
    }
    let newest = match &recovered.slot {
        None => 0,
        Some(slot) => 1 + history.slots.iter().position(|given| given == slot).expect(what),
    };
    assert!(newest >= slots, "{what}: safety record {newest}, {slots} were acknowledged");
    assert!(
        !recovered.created || point.operations == 0,
        "{what}: a log that existed was begun again"
    );
    (records, recovered.slot)
}

/// The log continues: added records are found, and nothing else.
fn check_goes_on(disk: &MemoryDisk, mut records: Vec<Record>, slot: Option<Vec<u8>>, what: &str) {
    let (mut log, recovered) = open(disk).unwrap();
    assert_eq!(recovered.slot, slot, "{what}: the second recovery found another safety record");
    assert_eq!(recovered.cut, None, "{what}: the second recovery cut again");
    assert!(!recovered.repaired, "{what}: the second recovery repaired again");
    for size in [1, 2000] {
        let payload = vec![0xee; size];
        let position = log.append(9, &[&payload]).unwrap();
        assert!(records.last().is_none_or(|last| last.position < position), "{what}");
        records.push(Record { position, kind: 9, payload });
        log.commit(Some(&[size as u8; 30]), Durability::Sync).unwrap();
    }
    drop(log);
    let (log, recovered) = open(disk).unwrap();
    assert_eq!(recovered.slot, Some(vec![2000u32 as u8; 30]), "{what}");
    let found = replay(&log).unwrap();
    let gone = records.partition_point(|record| record.position < log.first_position());
    assert_eq!(found, records[gone..], "{what}");
    for record in &found {
        assert_eq!(
            log.read(record.position).unwrap(),
            (record.kind, record.payload.clone()),
            "{what}"
        );
    }
}

#[test]
fn a_power_cut_after_any_operation_loses_nothing_acknowledged() {
    for seed in 0..3 {
        let crash = CrashDisk::new();
        let history = live(&crash, seed, 60);
        let last = history.points.last().unwrap();
        assert!(last.retired > Position(0), "nothing was retired");
        for cut in 0..=crash.operations() {
            let point = history.at(cut);
            for fate in fates(&crash, cut) {
                let what = format!("seed {seed}, cut {cut}, {fate:?}");
                let disk = crash.materialise(cut, fate);
                let (records, slot) = check(&disk, &history, point, fate == Fate::Kept, &what);
                check_goes_on(&disk, records, slot, &what);
            }
        }
    }
}

#[test]
fn a_power_cut_during_recovery_from_a_power_cut_loses_nothing_acknowledged() {
    let crash = CrashDisk::new();
    let history = live(&crash, 77, 40);
    for cut in 0..=crash.operations() {
        let point = history.at(cut);
        for first in
            [Fate::Kept, Fate::Mixed { seed: cut as u64 }, Fate::Mixed { seed: !(cut as u64) }]
        {
            let again = CrashDisk::over(&crash.materialise(cut, first)).unwrap();
            drop(Log::open(Arc::new(again.clone()), common::options()).unwrap());
            for second in 0..=again.operations() {
                for fate in [Fate::Kept, Fate::Lost, Fate::Mixed { seed: second as u64 }] {
                    let what = format!("cut {cut}, {first:?}, then cut {second}, {fate:?}");
                    let disk = again.materialise(second, fate);
                    let (records, slot) = check(&disk, &history, point, false, &what);
                    check_goes_on(&disk, records, slot, &what);
                }
            }
        }
    }
}

#[test]
fn stale_records_of_a_recycled_file_never_resurface() {
    // Records of one sector each, so that a torn write leaves an old record at a record boundary.
    let crash = CrashDisk::new();
    let (mut log, _) = Log::open(Arc::new(crash.clone()), common::options()).unwrap();
    let mut records = Vec::new();
    let mut torn = 0;
    for n in 0..120u8 {
        let mut batch = Vec::new();
        for _ in 0..3 {
            let payload = vec![n; 503];
            let position = log.append(1, &[&payload]).unwrap();
            batch.push(Record { position, kind: 1, payload });
        }
        let before = crash.operations();
        log.commit(None, Durability::Sync).unwrap();
        let recycled = batch[0].position.0 > 4 * common::options().segment_bytes;
        for cut in before + 1..=crash.operations() {
            for fate in fates(&crash, cut).into_iter().filter(|_| recycled) {
                let what = format!("batch {n}, cut {cut}, {fate:?}");
                let (log, _) =
                    open(&crash.materialise(cut, fate)).unwrap_or_else(|e| panic!("{what}: {e}"));
                let found = replay(&log).unwrap();
                let all: Vec<&Record> = records.iter().chain(&batch).collect();
                let all =
                    &all[all.partition_point(|record| record.position < log.first_position())..];
                assert_eq!(found.iter().collect::<Vec<_>>(), all[..found.len()], "{what}");
                torn += usize::from(found.len() < all.len());
            }
        }
        records.append(&mut batch);
        log.retire_before(log.end()).unwrap();
    }
    assert!(torn > 100, "{torn}");
}

#[test]
fn what_a_restart_found_survives_the_next_power_cut() {
    for commits in 0..12u8 {
        let crash = CrashDisk::new();
        let disk: Arc<dyn Disk> = Arc::new(crash.clone());
        let (mut log, _) = Log::open(disk.clone(), common::options()).unwrap();
        for n in 0..commits {
            log.append(1, &[&[n; 3000]]).unwrap();
            // The operating system has it, the disk does not.
            log.commit((n % 3 > 0).then_some(&[n; 100]), Durability::Os).unwrap();
        }
        drop(log);
        let before = crash.operations();
        let (log, recovered) = Log::open(disk, common::options()).unwrap();
        let records = replay(&log).unwrap();
        assert_eq!(records.len(), usize::from(commits));
        let after = crash.operations();
        for cut in before..=after {
            let mixed = (0..32).map(|n| Fate::Mixed { seed: (cut as u64) << 8 | n });
            for fate in [Fate::Kept, Fate::Lost, Fate::ContentLost].into_iter().chain(mixed) {
                let what = format!("{commits} commits, cut {cut} of {before}..{after}, {fate:?}");
                let (log, again) =
                    open(&crash.materialise(cut, fate)).unwrap_or_else(|e| panic!("{what}: {e}"));
                let found = replay(&log).unwrap();
                assert_eq!(found, records[..found.len()], "{what}");
                if cut == after {
                    assert_eq!(
                        (found.len(), &again.slot),
                        (records.len(), &recovered.slot),
                        "{what}"
                    );
                }
            }
        }
    }
}
