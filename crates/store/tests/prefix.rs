//! Tests of sets that arrive in pieces: each piece is checked against the root of the whole.

use proptest::prelude::*;
use quorate_store::disk::MemoryDisk;
use quorate_store::lazy_trie::{Hash, Options, Snapshot, Store};
use quorate_store::merkle::{Prefix, ProofError, value_digest};
use std::sync::Arc;

/// A store of some items. Their hashes differ in few bits, so that paths divide early, late and
/// side by side.
fn store(hashes: &[u64]) -> Store {
    let options = Options {
        authenticated: true,
        slab_bytes: 4096,
        region_bytes: 1 << 20,
        limit_bytes: 8 << 20,
        ..Options::default()
    };
    let (store, _) = Store::open_on(Arc::new(MemoryDisk::new()), options).unwrap();
    for hash in hashes {
        let mut bytes = [1; 32];
        bytes[3] = *hash as u8 & 7;
        bytes[20] = (hash >> 8) as u8 & 0x81;
        bytes[31] = (hash >> 16) as u8;
        store.put(&Hash(bytes), &hash.to_le_bytes()).unwrap();
    }
    store
}

fn items(snapshot: &Snapshot<'_>) -> Vec<(Hash, [u8; 32])> {
    let item = |item: Result<(Hash, quorate_store::lazy_trie::Item<'_>), _>| {
        let (hash, item) = item.unwrap();
        (hash, value_digest(item.value))
    };
    snapshot.iter().map(item).collect()
}

fn prefix(items: &[(Hash, [u8; 32])]) -> Result<Prefix, ProofError> {
    let mut prefix = Prefix::default();
    items.iter().try_for_each(|(hash, digest)| prefix.push(hash.0, *digest))?;
    Ok(prefix)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_a_set_begins_with_is_told_from_anything_else(
        hashes in prop::collection::vec(any::<u64>(), 1..60),
        at in any::<prop::sample::Index>(),
        flipped in 0usize..256,
    ) {
        let store = store(&hashes);
        let snapshot = store.snapshot().unwrap();
        let root = snapshot.root().unwrap();
        let all = items(&snapshot);
        for end in 1..=all.len() {
            let proof = snapshot.prove(&all[end - 1].0).unwrap();
            let honest = prefix(&all[..end]).unwrap();
            prop_assert_eq!(honest.verify(&root, &proof), Ok(end == all.len()));
            // One pair is missing, changed, or too many.
            let at = at.index(end);
            let mut less = all[..end].to_vec();
            less.remove(at);
            prop_assert!(prefix(&less).unwrap().verify(&root, &proof).is_err());
            let mut other = all[..end].to_vec();
            other[at].1[flipped / 8] ^= 1 << (flipped % 8);
            prop_assert!(prefix(&other).unwrap().verify(&root, &proof).is_err());
            let mut more = all[..end].to_vec();
            let mut new = more[at];
            new.0.0[flipped / 8] ^= 1 << (flipped % 8);
            if more.binary_search_by_key(&new.0, |(hash, _)| *hash).is_err() {
                more.push(new);
                more.sort_unstable();
                prop_assert!(prefix(&more).unwrap().verify(&root, &proof).is_err());
            }
            let root = [9; 32];
            prop_assert!(honest.verify(&root, &proof).is_err());
        }
    }
}

#[test]
fn keys_rise() {
    let (low, high) = (Hash([1; 32]), Hash([2; 32]));
    assert_eq!(prefix(&[(high, [0; 32]), (low, [0; 32])]).unwrap_err(), ProofError::Key);
    assert_eq!(prefix(&[(low, [0; 32]), (low, [0; 32])]).unwrap_err(), ProofError::Key);
}

#[test]
fn of_nothing_there_is_nothing_to_show() {
    let store = store(&[]);
    let snapshot = store.snapshot().unwrap();
    let root = snapshot.root().unwrap();
    assert!(Prefix::default().is_all_of_none(&root));
    assert!(!Prefix::default().is_all_of_none(&[1; 32]));
    let proof = snapshot.prove(&Hash([1; 32])).unwrap();
    assert!(Prefix::default().verify(&root, &proof).is_err());
    let one = prefix(&[(Hash([1; 32]), [1; 32])]).unwrap();
    assert!(!one.is_all_of_none(&root) && one.verify(&root, &proof).is_err());
}
