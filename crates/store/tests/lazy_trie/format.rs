//! Tests of the file format, version 2. A change of the bytes needs a new version. (The bytes
//! behind the end of the log have no meaning, but they count here as well.)

use crate::random::{Model, Random, change, small_options};
use quorate_store::disk::{Disk, MemoryDisk};
use quorate_store::lazy_trie::{FORMAT_VERSION, Store};
use std::sync::Arc;

#[test]
fn the_files_of_a_life_are_those_of_version_2() {
    assert_eq!(FORMAT_VERSION, 2);
    let disk = MemoryDisk::new();
    let (store, _) = Store::open_on(Arc::new(disk.clone()), small_options()).unwrap();
    let (mut model, mut random) = (Model::new(), Random(1));
    for _ in 0..200 {
        change(&store, &mut model, &mut random, 100).unwrap();
    }
    store.checkpoint().unwrap();
    drop(store);
    let mut hasher = blake3::Hasher::new();
    for name in disk.list().unwrap() {
        hasher.update(name.as_bytes());
        hasher.update(&disk.content(&name).unwrap());
    }
    assert_eq!(
        hasher.finalize().to_hex().as_str(),
        "df529fd391c4c0e6c55f1f5d5314bbc47342ccebd9ae67ba04dbdac5d3f39975"
    );
}
