//! Tests of snapshots: whole or absent, damaged ones named and skipped, random access, receipt from
//! peers.

mod common;

use common::{IDENTITY, Random};
use quorate_store::disk::{CrashDisk, Disk, Fate, MemoryDisk};
use quorate_store::snapshot::{SnapshotError, SnapshotInfo, SnapshotReader, Snapshots};
use std::sync::Arc;

const CHUNK: u32 = 4096;

fn folder(disk: &MemoryDisk) -> Snapshots {
    Snapshots::open(Arc::new(disk.clone()), IDENTITY).unwrap()
}

fn write(snapshots: &Snapshots, number: u64, content: &[u8]) -> SnapshotInfo {
    let mut writer = snapshots.write(number, format!("about {number}").as_bytes(), CHUNK).unwrap();
    for part in content.chunks(1000) {
        writer.write(part).unwrap();
    }
    writer.finish().unwrap()
}

fn content(reader: &SnapshotReader) -> Vec<u8> {
    let mut all = Vec::new();
    let result: Result<(), SnapshotError> = reader.stream(|chunk| {
        all.extend_from_slice(chunk);
        Ok(())
    });
    result.unwrap();
    all
}

#[test]
fn content_and_metadata_come_back_for_all_lengths() {
    let snapshots = folder(&MemoryDisk::new());
    for (number, length) in [0, 1, 4095, 4096, 4097, 8192, 50_000].into_iter().enumerate() {
        let bytes = Random(number as u64).bytes(length);
        let info = write(&snapshots, number as u64, &bytes);
        assert_eq!(info.hash, *blake3::hash(&bytes).as_bytes());
        let newest = snapshots.newest().unwrap();
        assert!(newest.damaged.is_empty());
        let reader = newest.reader.unwrap();
        assert_eq!((reader.info(), content(&reader)), (&info, bytes.clone()));
        assert_eq!(info.metadata, format!("about {number}").into_bytes());
        let chunks: Vec<u8> =
            (0..info.chunks()).flat_map(|index| reader.read_chunk(index).unwrap()).collect();
        assert_eq!(chunks, bytes);
        assert!(matches!(reader.read_chunk(info.chunks()), Err(SnapshotError::Limit { .. })));
    }
    snapshots.keep_newest(2).unwrap();
    assert_eq!(snapshots.numbers().unwrap(), [6, 5]);
}

#[test]
fn a_flipped_bit_anywhere_is_named_and_the_older_snapshot_is_used() {
    let disk = MemoryDisk::new();
    let old = Random(1).bytes(9000);
    write(&folder(&disk), 1, &old);
    write(&folder(&disk), 2, &Random(2).bytes(9000));
    let name = "00000000000000000002.snapshot";
    let size = disk.content(name).unwrap().len() as u64;
    for offset in (0..size).filter(|at| *at < 120 || at % 13 == 0 || *at > size - 60) {
        let rotten = disk.fork();
        rotten.flip_bit(name, offset, (offset % 8) as u32).unwrap();
        let newest = folder(&rotten).newest().unwrap();
        assert_eq!(newest.damaged.len(), 1, "offset {offset}");
        assert!(newest.damaged[0].to_string().contains(name), "{}", newest.damaged[0]);
        assert_eq!(content(&newest.reader.unwrap()), old, "offset {offset}");
    }
    for length in [0, 10, 100, size as usize - 1] {
        let short = disk.fork();
        let mut bytes = disk.content(name).unwrap();
        bytes.truncate(length);
        short.put(name, bytes);
        assert_eq!(
            folder(&short).newest().unwrap().reader.unwrap().info().number,
            1,
            "length {length}"
        );
    }
    let other = Snapshots::open(Arc::new(disk), *b"another replica!").unwrap().newest().unwrap();
    assert!(other.reader.is_none() && other.damaged.len() == 2);
}

#[test]
fn a_power_cut_leaves_the_old_snapshot_or_the_new_one() {
    let crash = CrashDisk::new();
    let snapshots = Snapshots::open(Arc::new(crash.clone()), IDENTITY).unwrap();
    let (old, new) = (Random(1).bytes(9000), Random(2).bytes(20_000));
    write(&snapshots, 1, &old);
    let first = crash.operations();
    write(&snapshots, 2, &new);
    let second = crash.operations();
    snapshots.keep_newest(1).unwrap();
    for cut in 0..=crash.operations() {
        let mixed = (0..8).map(|n| Fate::Mixed { seed: (cut as u64) << 8 | n });
        for fate in
            [Fate::Kept, Fate::Lost, Fate::ContentLost, Fate::NamesLost].into_iter().chain(mixed)
        {
            let disk = crash.materialise(cut, fate);
            let newest = folder(&disk).newest().unwrap();
            assert!(newest.damaged.is_empty(), "cut {cut}, {fate:?}: {}", newest.damaged[0]);
            let found = newest.reader.map(|reader| (reader.info().number, content(&reader)));
            match found {
                Some((2, bytes)) => assert_eq!(bytes, new, "cut {cut}, {fate:?}"),
                Some((1, bytes)) => assert!(cut < second && bytes == old, "cut {cut}, {fate:?}"),
                _ => assert!(found.is_none() && cut < first, "cut {cut}, {fate:?}"),
            }
            assert!(disk.list().unwrap().iter().all(|name| !name.ends_with(".tmp")));
        }
    }
}
