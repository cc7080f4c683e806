//! Tests with forged files: every checksum is valid, but the content is not. Every operation on
//! such a store must end, with a result or with an error that names the place. Nothing may panic or
//! leave its map.

mod cases;
mod forge;
mod image;
#[path = "../lazy_trie/random.rs"]
#[allow(dead_code)] // The other tests use the rest.
mod random;
mod usage;

use image::Image;
use quorate_store::disk::MemoryDisk;
use quorate_store::lazy_trie::{Durability, Options, Proofs, Store};
use random::{Model, Random, change, small_options};
use std::sync::Arc;

/// The variable for the number of forged stores.
const CASES: &str = "QUORATE_STORE_FORGERIES";

fn options(authenticated: bool) -> Options {
    let durability = Durability::Os;
    Options { checkpoint_bytes: 4 << 20, authenticated, durability, ..small_options() }
}

/// The same with some hashing threads, and proofs in one of the two ways. A store records neither.
fn some_options(authenticated: bool, random: &mut Random) -> Options {
    let proofs = [Proofs::EachCommit, Proofs::WhenAsked][random.below(2) as usize];
    Options { proofs, hashing_threads: 1 + random.below(3) as usize, ..options(authenticated) }
}

/// A store of some hundred items, with a few commits in its log.
fn grown(authenticated: bool) -> Image {
    grown_with_log(authenticated, 5)
}

/// The same with this many commits in its log.
fn grown_with_log(authenticated: bool, commits: usize) -> Image {
    let disk = MemoryDisk::new();
    let (mut model, mut random) = (Model::new(), Random(23));
    let (store, _) = Store::open_on(Arc::new(disk.clone()), options(authenticated)).unwrap();
    for _ in 0..400 {
        change(&store, &mut model, &mut random, 250).unwrap();
    }
    store.checkpoint().unwrap();
    for _ in 0..commits {
        change(&store, &mut model, &mut random, 250).unwrap();
    }
    drop(store);
    Image::of(&disk)
}

/// Prints the seed of the case if a panic occurs.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        eprintln!("this was seed {}", self.0);
    }
}

fn forge_many(usual: u64, authenticated: bool, run: fn(&Image, bool, &mut Random)) {
    let image = grown(authenticated);
    let cases = std::env::var(CASES).ok().and_then(|n| n.parse().ok()).unwrap_or(usual);
    for seed in 0..cases {
        let mut random = Random(seed.wrapping_mul(0x9e6d_62d0_6f6a_9a9b) + 1);
        let mut forged = image.clone();
        for _ in 0..1 + random.below(3) {
            forge::forge(&mut forged, &mut random);
        }

        let seed = Seed(seed);
        run(&forged, authenticated, &mut random);
        std::mem::forget(seed);
    }
}

fn in_memory(forged: &Image, authenticated: bool, random: &mut Random) {
    let disk = forged.disk();
    for _ in 0..2 {
        let options = some_options(authenticated, random);
        usage::all(|| Store::open_on(Arc::new(disk.clone()), options.clone()), random);
    }
}

/// With mapped regions, which must not be written through.
fn in_files(forged: &Image, authenticated: bool, random: &mut Random) {
    let folder = tempfile::tempdir().unwrap();
    forged.write_to(folder.path());
    for _ in 0..2 {
        let options = some_options(authenticated, random);
        usage::all(|| Store::open(folder.path(), options.clone()), random);
    }
}

#[test]
fn forged_stores_in_memory() {
    forge_many(400, false, in_memory);
}

#[test]
fn forged_authenticated_stores_in_memory() {
    forge_many(400, true, in_memory);
}

#[test]
fn forged_stores_in_files() {
    forge_many(30, false, in_files);
}

#[test]
fn forged_authenticated_stores_in_files() {
    forge_many(30, true, in_files);
}
