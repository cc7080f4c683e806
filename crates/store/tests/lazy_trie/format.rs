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
    // The content of a spare has no meaning.
    for name in disk.list().unwrap().into_iter().filter(|name| !name.ends_with(".spare")) {
        hasher.update(name.as_bytes());
        hasher.update(&disk.content(&name).unwrap());
    }
    assert_eq!(
        hasher.finalize().to_hex().as_str(),
        "ae5f461acd8df19c1eb53f15f2542bb0d156c6fad6c01ed09b5f9e2d187348f2"
    );
}
