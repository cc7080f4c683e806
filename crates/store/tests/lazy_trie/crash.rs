//! Tests of power failures: the first thousands of the states of `make crash-store`, and
//! regressions.

use crate::crash_life::{KINDS, run};
use crate::random::small_options;
use quorate_store::disk::{CrashDisk, Fate, MemoryDisk};
use quorate_store::lazy_trie::{Options, Store};
use std::sync::Arc;

#[test]
fn every_crash_state_recovers_to_a_committed_prefix() {
    let states = std::thread::scope(|scope| {
        let kinds = KINDS.map(|kind| scope.spawn(move || run(kind, 1, 3500, 4)));
        kinds.map(|kind| kind.join().unwrap()).iter().sum::<usize>()
    });
    assert!(states >= 10_000);
}

/// A checkpoint that names a region also has it on disk, even if it is empty. (Once only regions
/// that were written to were synced.)
#[test]
fn a_region_that_has_grown_and_was_left_again_is_whole_after_a_checkpoint() {
    let crash = CrashDisk::over(&MemoryDisk::new()).unwrap();
    let options = Options { checkpoint_bytes: 64 << 20, ..small_options() };
    let (store, _) = Store::open_on(Arc::new(crash.clone()), options.clone()).unwrap();
    let regions = || store.statistics().space_bytes / options.region_bytes;
    store.put(b"stays", &[1; 20_000]).unwrap();
    store.checkpoint().unwrap();
    // There is no room for it beside the other one.
    store.put(b"goes", &[2; 45_000]).unwrap();
    store.delete(b"goes").unwrap();
    // No reader needs removed items, so their slots are released.
    (0..200u32).for_each(|number| store.put(b"last", &number.to_le_bytes()).unwrap());
    store.checkpoint().unwrap();
    assert_eq!(regions(), 2);
    for fate in [Fate::Kept, Fate::Lost, Fate::ContentLost, Fate::NamesLost] {
        let left = crash.materialise(crash.operations(), fate);
        let (store, _) = Store::open_on(Arc::new(left), options.clone())
            .unwrap_or_else(|error| panic!("{fate:?}: {error}"));
        assert_eq!(store.get(b"last").unwrap().as_deref(), Some(&199u32.to_le_bytes()[..]));
    }
}
