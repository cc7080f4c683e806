//! Tests of failed syncs, full disks, and limits.

mod common;

use common::{open, options, replay};
use quorate_store::disk::{CrashDisk, Disk, Fate, FileDisk, MemoryDisk};
use quorate_store::wal::{Durability, Error, Log, Options, Position, Preparation};
use std::sync::Arc;

#[test]
fn a_failed_sync_is_final_and_never_tried_again() {
    let crash = CrashDisk::new();
    let (mut log, _) = Log::open(Arc::new(crash.clone()), options()).unwrap();
    let position = log.append(1, &[b"kept"]).unwrap();
    log.commit(Some(b"one"), Durability::Sync).unwrap();
    crash.fail_sync(1);
    log.append(1, &[b"lost"]).unwrap();
    let first = log.commit(Some(b"two"), Durability::Sync).unwrap_err();
    assert!(matches!(first, Error::Io { action: "sync", .. }), "{first}");
    let before = (crash.operations(), crash.syncs());
    let later = [
        log.commit(None, Durability::Sync).unwrap_err(),
        log.append(1, &[b"x"]).map(|_| ()).unwrap_err(),
        log.retire_before(log.end()).unwrap_err(),
    ];
    for error in later {
        assert!(
            matches!(&error, Error::Poisoned { reason } if *reason == first.to_string()),
            "{error}"
        );
    }
    assert_eq!(
        (crash.operations(), crash.syncs()),
        before,
        "something was tried after the failed sync"
    );
    // Durable data is still readable, by this reader and after a restart.
    assert_eq!(log.read(position).unwrap(), (1, b"kept".to_vec()));
}

#[test]
fn a_restart_after_any_failed_sync_makes_durable_what_it_finds() {
    let mut failures = 0;
    for syncs in 1..60 {
        let crash = CrashDisk::new();
        crash.fail_sync(syncs);
        let mut acknowledged = 0;
        let result = Log::open(Arc::new(crash.clone()), options()).and_then(|(mut log, _)| {
            for n in 0..25u8 {
                log.append(1, &[&[n; 1500]])?;
                log.commit(Some(&[n]), Durability::Sync)?;
                acknowledged += 1;
            }
            Ok(())
        });
        failures += usize::from(result.is_err());
        crash.heal();
        // The unsynced names and pages are still in memory, so the next process finds them.
        let (mut log, _) = Log::open(Arc::new(crash.clone()), options()).unwrap();
        log.append(1, &[b"after"]).unwrap();
        log.commit(Some(b"after"), Durability::Sync).unwrap();
        let expected = replay(&log).unwrap();
        assert!(expected.len() > acknowledged, "sync {syncs}");
        for fate in [Fate::Lost, Fate::NamesLost, Fate::ContentLost] {
            let (log, recovered) = open(&crash.materialise(crash.operations(), fate)).unwrap();
            assert_eq!(replay(&log).unwrap(), expected, "sync {syncs}, {fate:?}");
            assert_eq!(recovered.slot.as_deref(), Some(&b"after"[..]), "sync {syncs}, {fate:?}");
        }
    }
    assert!(failures > 25, "{failures}");
}

#[test]
fn a_full_disk_at_any_write_stops_the_log_and_loses_nothing_acknowledged() {
    let mut failures = 0;
    for writes in 1..120 {
        let crash = CrashDisk::new();
        crash.fill_up(writes);
        let mut acknowledged = Vec::new();
        let result = Log::open(Arc::new(crash.clone()), options()).and_then(|(mut log, _)| {
            for n in 0..30u8 {
                let position = log.append(1, &[&[n; 1500]])?;
                log.commit(Some(&[n]), Durability::Sync)?;
                acknowledged.push((position, n));
            }
            Ok(())
        });
        if let Err(error) = result {
            assert!(error.to_string().contains("full disk"), "{error}");
            failures += 1;
        }
        let disk = crash.materialise(crash.operations(), Fate::Lost);
        let (log, recovered) = open(&disk).unwrap();
        for (position, n) in &acknowledged {
            assert_eq!(
                log.read(*position).unwrap(),
                (1, vec![*n; 1500]),
                "full after {writes} writes"
            );
        }
        let slot = recovered.slot.map_or(0, |slot| usize::from(slot[0]) + 1);
        assert!(slot >= acknowledged.len(), "full after {writes} writes");
    }
    assert!(failures > 50, "{failures}");
}

#[test]
fn limits_are_refused_by_number_and_leave_the_log_usable() {
    let (mut log, recovered) = open(&MemoryDisk::new()).unwrap();
    assert!(recovered.created);
    let limit = log.record_limit();
    let largest = vec![1; limit as usize];
    let error = log.append(1, &[&largest, b"x"]).unwrap_err();
    assert!(
        matches!(error, Error::RecordTooLarge { bytes, limit: l } if bytes == limit + 1 && l == limit),
        "{error}"
    );
    let error = log.commit(Some(&[0; 4073]), Durability::Sync).unwrap_err();
    assert!(matches!(error, Error::SlotTooLarge { bytes: 4073, limit: 4072 }), "{error}");
    assert!(matches!(log.append(0, &[]), Err(Error::ReservedKind)));
    log.commit(Some(&[7; 4072]), Durability::Sync).unwrap();
    for _ in 0..3 {
        let position = log.append(255, &[&largest]).unwrap();
        log.commit(None, Durability::Sync).unwrap();
        assert_eq!(log.read(position).unwrap(), (255, largest.clone()));
    }
    for (field, bad) in [
        ("slot_bytes", Options { slot_bytes: 5000, ..options() }),
        ("slot_bytes", Options { slot_bytes: 0, ..options() }),
        ("segment_bytes", Options { segment_bytes: 30_000, ..options() }),
        ("segment_bytes", Options { segment_bytes: 1 << 40, ..options() }),
    ] {
        match Log::open(Arc::new(MemoryDisk::new()), bad) {
            Err(Error::Options { field: named, .. }) => assert_eq!(named, field),
            _ => panic!("{field} was taken"),
        }
    }
}

#[test]
fn positions_outside_the_log_are_told_apart() {
    let (mut log, _) = open(&MemoryDisk::new()).unwrap();
    let first = log.append(1, &[b"first"]).unwrap();
    assert!(matches!(log.read(first), Err(Error::PastEnd { .. })), "read before its commit");
    log.commit(None, Durability::Os).unwrap();
    let mut last = first;
    for _ in 0..40 {
        last = log.append(1, &[&[3; 3000]]).unwrap();
        log.commit(None, Durability::Os).unwrap();
    }
    let end = log.end();
    let nothing =
        |_: Position, _: u8, _: &[u8]| -> Result<(), Error> { panic!("nothing is there") };
    log.replay(end, nothing).unwrap();
    assert!(matches!(log.replay(Position(end.0 + 1), nothing), Err(Error::PastEnd { .. })));
    let reader = log.reader();
    let before = log.bytes();
    log.retire_before(last).unwrap();
    assert!(log.bytes() < before && log.first_position() <= last);
    for result in [reader.read(first).map(|_| ()), reader.replay(first, nothing)] {
        assert!(matches!(result, Err(Error::Retired { .. })), "{result:?}");
    }
    assert_eq!(reader.read(last).unwrap(), (1, vec![3; 3000]));
    assert!(matches!(reader.read(Position(last.0 + 1)), Err(Error::Damaged { .. })));
}

#[test]
fn sizes_may_change_between_runs() {
    let disk = MemoryDisk::new();
    let mut written = Vec::new();
    let sizes: [(u64, u32); 4] =
        [(40 << 10, 4096), (100 << 10, 16384), (64 << 10, 8192), (200 << 10, 8192)];
    for (round, (segment_bytes, slot_bytes)) in (0u8..).zip(sizes) {
        let options = Options { segment_bytes, slot_bytes, ..options() };
        let (mut log, recovered) = Log::open(Arc::new(disk.clone()), options).unwrap();
        assert_eq!(recovered.slot, round.checked_sub(1).map(|last| vec![last; 4000]));
        assert_eq!(replay(&log).unwrap().len(), written.len());
        for n in 0..30 {
            let payload = vec![n; 1500 + usize::from(round) * 3000];
            written.push((log.append(1, &[&payload]).unwrap(), payload));
            log.commit(Some(&vec![round; 4000]), Durability::Sync).unwrap();
        }
        for (position, payload) in &written {
            assert_eq!(&log.read(*position).unwrap().1, payload);
        }
    }
    let options = Options { slot_bytes: 4096, ..options() };
    let (mut log, _) = Log::open(
        Arc::new(disk.clone()),
        Options { slot_bytes: 16384, segment_bytes: 100 << 10, ..options.clone() },
    )
    .unwrap();
    log.commit(Some(&[1; 9000]), Durability::Sync).unwrap();
    drop(log);
    assert!(matches!(
        Log::open(Arc::new(disk), options),
        Err(Error::Options { field: "slot_bytes", .. })
    ));
}

#[test]
fn a_real_folder_with_readers_in_other_threads() {
    let folder = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(FileDisk::open(folder.path()).unwrap());
    let options = Options { preparation: Preparation::Ahead, ..options() };
    let (mut log, _) = Log::open(disk.clone(), options.clone()).unwrap();
    let (send, receive) = std::sync::mpsc::channel::<(Position, u8)>();
    let reader = log.reader();
    let thread = std::thread::spawn(move || {
        let (mut read, mut retired) = (0, 0);
        for (position, n) in receive {
            match reader.read(position) {
                Ok(record) => assert_eq!(record, (1 + n, vec![n; 900])),
                Err(Error::Retired { .. }) => retired += 1,
                Err(error) => panic!("{error}"),
            }
            read += 1;
        }
        (read, retired)
    });
    for n in 0..200u8 {
        let position = log.append(1 + n, &[&[n; 400], &[n; 500]]).unwrap();
        log.commit(Some(&[n; 100]), if n % 16 == 0 { Durability::Sync } else { Durability::Os })
            .unwrap();
        send.send((position, n)).unwrap();
        if n % 50 == 49 {
            log.retire_before(position).unwrap();
        }
    }
    drop(send);
    let (read, retired) = thread.join().unwrap();
    assert!(read == 200 && retired < 200);
    let statistics = log.statistics();
    assert!(
        statistics.rotations > 5 && statistics.syncs > 12 && statistics.commits == 200,
        "{statistics:?}"
    );
    let expected = replay(&log).unwrap();
    drop(log);
    let (log, recovered) = Log::open(disk, options).unwrap();
    assert_eq!((recovered.slot, recovered.created), (Some(vec![199; 100]), false));
    assert_eq!(replay(&log).unwrap(), expected);
}
