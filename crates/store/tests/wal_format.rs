//! Tests that the bytes on disk do not change by accident.

mod common;

use common::{Random, options};
use quorate_store::disk::{CrashDisk, Disk, Fate};
use quorate_store::wal::{Durability, FORMAT_VERSION, Log};
use std::sync::Arc;

/// A change of the format raises `FORMAT_VERSION` and puts the new hash here.
const GOLDEN: (u32, &str) = (1, "bc30a6a9d5c7c6240f75c484ebe300c46cf70f40a133af302b58f06cbd46475c");

#[test]
fn golden_hash_of_the_folder() {
    let crash = CrashDisk::new();
    let (mut log, _) = Log::open(Arc::new(crash.clone()), options()).unwrap();
    let mut random = Random(5);
    for n in 0..30 {
        log.append(1 + n, &[&random.bytes(700), &random.bytes(usize::from(n))]).unwrap();
        let slot = random.bytes(200);
        log.commit((n % 3 != 0).then_some(&slot), Durability::Sync).unwrap();
    }
    assert!(log.statistics().rotations > 0);
    let disk = crash.materialise(crash.operations(), Fate::Kept);
    let mut hasher = blake3::Hasher::new();
    // The content of a spare has no meaning.
    for name in disk.list().unwrap().into_iter().filter(|name| name.ends_with(".wal")) {
        hasher.update(name.as_bytes());
        hasher.update(&disk.content(&name).unwrap());
    }
    assert_eq!((FORMAT_VERSION, hasher.finalize().to_hex().as_str()), GOLDEN);
}
