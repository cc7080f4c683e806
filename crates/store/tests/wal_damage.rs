//! Tests of bit rot, foreign files and missing files: they are refused by name or repaired, never
//! used.

mod common;

use common::{IDENTITY, Record, live, open, options, replay};
use proptest::prelude::*;
use quorate_store::disk::{CrashDisk, Disk, Fate, MemoryDisk};
use quorate_store::wal::{Durability, Error, Log, Options, Position};
use std::sync::Arc;

/// A closed log with several segments whose watermark is at its end.
fn whole(seed: u64) -> (MemoryDisk, Vec<Record>, Vec<u8>) {
    let crash = CrashDisk::new();
    let history = live(&crash, seed, 40);
    let disk = crash.materialise(crash.operations(), Fate::Kept);
    let (log, recovered) = open(&disk).unwrap();
    let records = replay(&log).unwrap();
    assert_eq!(recovered.slot.as_ref(), history.slots.last());
    (disk, records, recovered.slot.unwrap())
}

fn segments(disk: &MemoryDisk) -> Vec<String> {
    disk.list().unwrap().into_iter().filter(|name| name.ends_with(".wal")).collect()
}

#[test]
fn a_flipped_bit_anywhere_is_refused_or_repaired() {
    let (disk, records, slot) = whole(1);
    let names = segments(&disk);
    assert!(names.len() > 1, "{names:?}");
    let (mut refused, mut repaired, mut harmless) = (0, 0, 0);
    for name in &names {
        let size = disk.content(name).unwrap().len() as u64;
        // Every byte of header and heads, a sample of the rest.
        for offset in
            (0..100).chain((100..size).step_by(37)).chain([4096, 8192, 12288, 16384, 20480])
        {
            let rotten = disk.fork();
            rotten.flip_bit(name, offset, (offset % 8) as u32).unwrap();
            match open(&rotten).and_then(|(log, recovered)| Ok((replay(&log)?, recovered))) {
                Err(
                    Error::Damaged { file, .. }
                    | Error::Foreign { file }
                    | Error::Version { file, .. },
                ) => {
                    assert_eq!(&file, name, "offset {offset}");
                    refused += 1;
                }
                Err(error) => panic!("{name} offset {offset}: {error}"),
                Ok((found, recovered)) => {
                    assert_eq!(found, records, "{name} offset {offset}");
                    assert_eq!(recovered.slot.as_ref(), Some(&slot), "{name} offset {offset}");
                    repaired += u32::from(recovered.repaired);
                    harmless += u32::from(!recovered.repaired);
                }
            }
        }
    }
    assert!(refused > 100 && repaired > 0 && harmless > 0, "{refused} {repaired} {harmless}");
}

/// Offsets of the newest slot of the newest segment and of its copy among the records.
fn copies(disk: &MemoryDisk, slot: &[u8]) -> (String, Vec<u64>) {
    let name = segments(disk).pop().unwrap();
    let content = disk.content(&name).unwrap();
    let places = content.windows(slot.len()).enumerate().filter(|(_, window)| *window == slot);
    (name, places.map(|(at, _)| at as u64).collect())
}

#[test]
fn the_safety_record_survives_the_loss_of_a_copy_and_gets_it_back() {
    let (disk, records, _) = whole(2);
    let slot = vec![0x5a; 500];
    {
        let (mut log, _) = open(&disk).unwrap();
        log.commit(Some(b"an older one, in the other slot"), Durability::Sync).unwrap();
        log.commit(Some(&slot), Durability::Sync).unwrap();
    }
    let (name, places) = copies(&disk, &slot);
    let [in_slot, in_log] = places[..] else { panic!("{places:?}") };
    assert!(in_slot < 20480 && in_log >= 20480, "{places:?}");
    for lost in [in_slot, in_log] {
        let rotten = disk.fork();
        rotten.flip_bit(&name, lost, 3).unwrap();
        let (log, recovered) = open(&rotten).unwrap();
        assert_eq!(recovered.slot.as_ref(), Some(&slot));
        assert!(recovered.repaired);
        assert_eq!(replay(&log).unwrap(), records);
        drop(log);
        assert_eq!(copies(&rotten, &slot).1.len(), 2, "not repaired");
        assert!(!open(&rotten).unwrap().1.repaired);
    }
    let rotten = disk.fork();
    for at in [12288, 16384] {
        rotten.flip_bit(&name, at + 8, 0).unwrap();
    }
    let error = open(&rotten).err().unwrap();
    assert!(matches!(&error, Error::MissingSafetyRecord { file } if *file == name), "{error}");
    assert!(error.to_string().contains("rejoin"), "{error}");
}

#[test]
fn the_torn_tail_is_cut_and_damage_below_the_watermark_is_not() {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&disk).unwrap();
    let first = log.append(1, &[b"first"]).unwrap();
    log.commit(None, Durability::Sync).unwrap();
    let second = log.append(1, &[b"second"]).unwrap();
    log.commit(None, Durability::Sync).unwrap();
    drop(log);
    let name = segments(&disk).pop().unwrap();

    // The watermark says that the first is durable; it cannot cover the second yet.
    let torn = disk.fork();
    torn.flip_bit(&name, second.0 + 10, 0).unwrap();
    let (log, recovered) = open(&torn).unwrap();
    let cut = recovered.cut.unwrap();
    assert_eq!((cut.file.as_str(), cut.offset, cut.position), (name.as_str(), second.0, second));
    assert_eq!(replay(&log).unwrap().len(), 1);
    assert!(
        torn.content(&name).unwrap()[second.0 as usize..].iter().all(|byte| *byte == 0),
        "not zeroed"
    );

    let rotten = disk.fork();
    rotten.flip_bit(&name, first.0 + 10, 0).unwrap();
    match open(&rotten) {
        Err(error @ Error::Damaged { .. }) => {
            let text = error.to_string();
            for part in [&name, &format!("offset {}", first.0), "checksum is 0x", "rejoin flag"] {
                assert!(text.contains(part), "{text}");
            }
        }
        _ => panic!("damage below the watermark was passed over"),
    }

    // An empty commit guards the last record too.
    let (mut log, _) = open(&disk).unwrap();
    log.commit(None, Durability::Sync).unwrap();
    drop(log);
    disk.flip_bit(&name, second.0 + 10, 0).unwrap();
    assert!(matches!(open(&disk), Err(Error::Damaged { .. })));
}

#[test]
fn a_watermark_is_guarded_by_its_twin() {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&disk).unwrap();
    for _ in 0..5 {
        log.append(1, &[b"record"]).unwrap();
        log.commit(None, Durability::Sync).unwrap();
    }
    let early = log.first_position();
    drop(log);
    let name = segments(&disk).pop().unwrap();
    for mark in [4096, 8192] {
        let rotten = disk.fork();
        rotten.flip_bit(&name, mark + 5, 1).unwrap();
        rotten.flip_bit(&name, early.0 + 9, 1).unwrap();
        assert!(matches!(open(&rotten), Err(Error::Damaged { .. })), "mark at {mark}");
    }
}

#[test]
fn misplaced_files_are_refused_by_name() {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&disk).unwrap();
    for n in 0..30 {
        log.append(1, &[&[n; 3000]]).unwrap();
        log.commit(Some(&[n]), Durability::Sync).unwrap();
    }
    drop(log);
    let names = segments(&disk);
    assert!(names.len() >= 3, "{names:?}");
    let error_of = |disk: &MemoryDisk| open(disk).err().expect("refused");

    let gap = disk.fork();
    gap.remove(&names[1]).unwrap();
    assert!(matches!(error_of(&gap), Error::MissingSegment { file } if file == names[1]));

    let swapped = disk.fork();
    swapped.put(&names[1], disk.content(&names[0]).unwrap());
    assert!(matches!(error_of(&swapped), Error::Damaged { file, .. } if file == names[1]));

    let short = disk.fork();
    let mut content = disk.content(&names[0]).unwrap();
    content.truncate(30_000);
    short.put(&names[0], content);
    assert!(matches!(error_of(&short), Error::Damaged { file, .. } if file == names[0]));

    for (name, content) in [
        ("notes.wal", b"x".to_vec()),
        ("00000000000000000099.wal", vec![7; 5000]),
        ("a.spare", vec![]),
    ] {
        let foreign = disk.fork();
        foreign.put(name, content);
        assert!(matches!(error_of(&foreign), Error::Foreign { file } if file == name));
    }

    let mut newer = disk.content(&names[0]).unwrap();
    newer[8] = 2;
    let version = disk.fork();
    version.put(&names[0], newer);
    assert!(matches!(error_of(&version), Error::Version { found: 2, supported: 1, .. }));

    let other = Options { identity: *b"another replica!", ..options() };
    let error = Log::open(Arc::new(disk.fork()), other).err().unwrap();
    assert!(
        matches!(&error, Error::Identity { found, .. } if found.starts_with("61206c6f67")),
        "{error}"
    );
    assert_eq!(IDENTITY[..5], *b"a log");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]
    /// Headers with a valid checksum and wrong fields, and any bytes anywhere: there is a result,
    /// never a panic, and no invented record.
    #[test]
    fn arbitrary_bytes_are_answered(
        patches in proptest::collection::vec((any::<usize>(), any::<usize>(), proptest::collection::vec(any::<u8>(), 1..40)), 1..4),
        near_head in any::<bool>(),
        sealed in any::<bool>(),
    ) {
        let (disk, records) = WHOLE.with(|whole| (whole.0.fork(), whole.1.clone()));
        let names = segments(&disk);
        let several = patches.len() > 1;
        for (file, at, bytes) in patches {
            let name = &names[file % names.len()];
            let mut content = disk.content(name).unwrap();
            let limit = if near_head { 70 } else { content.len() - bytes.len() };
            let at = at % limit;
            content[at..at + bytes.len()].copy_from_slice(&bytes);
            if sealed {
                let checksum = crc32c::crc32c(&content[..64]);
                content[64..68].copy_from_slice(&checksum.to_le_bytes());
            }
            disk.put(name, content);
        }
        if let Ok((log, _)) = open(&disk) {
            let mut count = 0;
            let result: Result<(), Error> = log.replay(Position::START, |position, kind, payload| {
                let found = Record { position, kind, payload: payload.to_vec() };
                assert!(records.contains(&found), "invented {position}");
                count += 1;
                Ok(())
            });
            // Several patches may hit a watermark and the data that it guards. A header with a new
            // checksum may name a wrong end.
            assert!(
                result.is_err() || count == records.len() || several || sealed, "{count} of {} without an error", records.len());
        }
    }
}

thread_local! {
    static WHOLE: (MemoryDisk, Vec<Record>, Vec<u8>) = whole(1);
}
