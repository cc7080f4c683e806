//! Power cuts at every operation of a long life, with everything no sync had confirmed kept, lost, torn or mixed.

mod common;

use common::{History, Point, Record, live, open, replay};
use quorate_store::disk::{CrashDisk, Fate, MemoryDisk};
use quorate_store::wal::{Durability, Position};

/// All fates worth trying after the first `cut` operations.
fn fates(crash: &CrashDisk, cut: usize) -> Vec<Fate> {
    let mut fates = vec![Fate::Kept, Fate::Lost, Fate::ContentLost, Fate::NamesLost];
    fates.extend((0..4).map(|n| Fate::Mixed {
        seed: (cut as u64) << 8 | n,
    }));
    if let Some(sectors) = cut.checked_sub(1).and_then(|last| crash.sectors(last)) {
        fates.extend((0..sectors).map(|sectors| Fate::Torn { sectors }));
        fates.extend((0..sectors).map(|sector| Fate::Hole { sector }));
    }
    fates
}

/// What must hold of any folder after a crash; returns the records found.
fn check(
    disk: &MemoryDisk,
    history: &History,
    point: Point,
    kept: bool,
    what: &str,
) -> (Vec<Record>, Option<Vec<u8>>) {
    let (log, recovered) = open(disk).unwrap_or_else(|error| panic!("{what}: {error}"));
    let records = replay(&log).unwrap_or_else(|error| panic!("{what}: {error}"));
    let (acknowledged, slots) = if kept {
        (point.os, point.os_slots)
    } else {
        (point.durable, point.durable_slots)
    };
    // A contiguous run of what was appended, from at most the retired position to at least the last acknowledged record.
    let start = history
        .records
        .partition_point(|record| record.position < log.first_position());
    let end = start + records.len();
    assert!(
        end >= acknowledged,
        "{what}: {end} records of {acknowledged} acknowledged"
    );
    assert_eq!(
        history.records.get(start..end),
        Some(&records[..]),
        "{what}"
    );
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
        Some(slot) => {
            1 + history
                .slots
                .iter()
                .position(|given| given == slot)
                .expect(what)
        }
    };
    assert!(
        newest >= slots,
        "{what}: safety record {newest}, {slots} were acknowledged"
    );
    assert!(
        !recovered.created || point.operations == 0,
        "{what}: a log that existed was begun again"
    );
    (records, recovered.slot)
}

/// The log goes on: what is added is found, and nothing else.
fn check_goes_on(disk: &MemoryDisk, mut records: Vec<Record>, slot: Option<Vec<u8>>, what: &str) {
    let (mut log, recovered) = open(disk).unwrap();
    assert_eq!(
        recovered.slot, slot,
        "{what}: the second recovery found another safety record"
    );
    assert_eq!(recovered.cut, None, "{what}: the second recovery cut again");
    assert!(
        !recovered.repaired,
        "{what}: the second recovery repaired again"
    );
    for size in [1, 2000] {
        let payload = vec![0xee; size];
        let position = log.append(9, &[&payload]).unwrap();
        assert!(
            records.last().is_none_or(|last| last.position < position),
            "{what}"
        );
        records.push(Record {
            position,
            kind: 9,
            payload,
        });
        log.commit(Some(&[size as u8; 30]), Durability::Sync)
            .unwrap();
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
        for first in [
            Fate::Kept,
            Fate::Mixed { seed: cut as u64 },
            Fate::Mixed {
                seed: !(cut as u64),
            },
        ] {
            let again = CrashDisk::over(&crash.materialise(cut, first)).unwrap();
            drop(
                quorate_store::wal::Log::open(
                    std::sync::Arc::new(again.clone()),
                    common::options(),
                )
                .unwrap(),
            );
            for second in 0..=again.operations() {
                for fate in [
                    Fate::Kept,
                    Fate::Lost,
                    Fate::Mixed {
                        seed: second as u64,
                    },
                ] {
                    let what = format!("cut {cut}, {first:?}, then cut {second}, {fate:?}");
                    let disk = again.materialise(second, fate);
                    let (records, slot) = check(&disk, &history, point, false, &what);
                    check_goes_on(&disk, records, slot, &what);
                }
            }
        }
    }
}
