//! Tests of proofs: of all items and of many absent keys. Forged proofs are refused, and damage
//! proves nothing.

use crate::authenticated::{open, options};
use crate::random::{Model, Random, change, name, root_of};
use proptest::prelude::*;
use quorate_store::disk::MemoryDisk;
use quorate_store::lazy_trie::{Error, Hash, Store};
use quorate_store::merkle::{PROOF_LIMIT_BYTES, Proof, ProofError, value_digest};
use std::sync::Arc;

fn grown(disk: &MemoryDisk, seed: u64, steps: u64, names: u64) -> (Store, Model) {
    let store = open(disk, options());
    let (mut model, mut random) = (Model::new(), Random(seed));
    for _ in 0..steps {
        change(&store, &mut model, &mut random, names).unwrap();
    }
    (store, model)
}

#[test]
fn presence_and_absence_of_all_keys_can_be_proved() {
    for (seed, steps, names) in [(1, 0, 1), (2, 1, 3), (3, 12, 5), (4, 300, 80), (5, 900, 900)] {
        let (store, model) = grown(&MemoryDisk::new(), seed, steps, names);
        let (root, snapshot) = (root_of(&model), store.snapshot().unwrap());
        let mut random = Random(seed);
        let absent = (0..400).map(|_| name(&mut random, 2 * names).hash());
        let near = model.keys().flat_map(|hash| {
            [0, 5, 100, 255].map(|bit| {
                let mut near = *hash;
                near.0[bit / 8] ^= 0x80 >> (bit % 8);
                near
            })
        });
        for hash in model.keys().copied().chain(absent).chain(near) {
            let (proof, value) = snapshot.get_proved(&hash).unwrap();
            let expected = model.get(&hash);
            assert_eq!(value, expected.map(Vec::as_slice));
            let bytes = proof.encode();
            assert!(bytes.len() <= PROOF_LIMIT_BYTES);
            let decoded = Proof::decode(&bytes).unwrap();
            assert_eq!(decoded, proof);
            let proved = decoded.verify(&root, &hash.0).unwrap();
            assert_eq!(proved, expected.map(|value| value_digest(value)));
            proof.verify_value(&root, &hash.0, value).unwrap();
        }
    }
}

#[test]
fn every_mutation_of_a_proof_is_refused() {
    let (store, model) = grown(&MemoryDisk::new(), 8, 500, 150);
    let (root, snapshot) = (root_of(&model), store.snapshot().unwrap());
    let present = *model.keys().nth(model.len() / 2).unwrap();
    for hash in [present, Hash::of(b"not there"), Hash([0; 32])] {
        let proof = snapshot.prove(&hash).unwrap();
        proof.verify(&root, &hash.0).unwrap();
        let bytes = proof.encode();
        let refused = |mutated: &[u8], what: &str| {
            let accepted = Proof::decode(mutated).and_then(|proof| proof.verify(&root, &hash.0));
            assert!(accepted.is_err(), "{what}: {accepted:?}");
        };
        for at in 0..bytes.len() {
            for value in 0..=u8::MAX {
                let mut mutated = bytes.clone();
                mutated[at] = value;
                if mutated != bytes {
                    refused(&mutated, &format!("byte {at} is {value}"));
                }
            }
            refused(&bytes[..at], "cut");
            let mut longer = bytes.clone();
            longer.insert(at, bytes[at]);
            refused(&longer, "a byte twice");
        }
        refused(&[bytes.as_slice(), &[0]].concat(), "a byte more");
    }
}

#[test]
fn forged_values_forged_absences_and_stale_roots_are_refused() {
    let (store, mut model) = grown(&MemoryDisk::new(), 9, 400, 100);
    let (old_root, old) = (root_of(&model), store.snapshot().unwrap());
    let (hash, value) = model.iter().next().map(|(h, v)| (*h, v.clone())).unwrap();
    let proof = old.prove(&hash).unwrap();
    assert_eq!(proof.verify_value(&old_root, &hash.0, Some(b"forged")), Err(ProofError::Value));
    assert_eq!(proof.verify_value(&old_root, &hash.0, None), Err(ProofError::Value));
    assert_eq!(proof.verify_value(&old_root, &hash.0, Some(&value)), Ok(()));
    // Of another key, present or absent.
    for other in model.keys().skip(1).copied().chain([Hash::of(b"not there")]) {
        assert_eq!(proof.verify(&old_root, &other.0), Err(ProofError::Root));
        let absence = old.prove(&Hash::of(b"not there")).unwrap();
        if other != Hash::of(b"not there") {
            assert!(absence.verify(&old_root, &other.0).is_err(), "{other:?} is there");
        }
    }
    // The proof of another key's presence, presented as one of absence.
    for other in model.keys().skip(1) {
        let mut bytes = vec![1, 2];
        bytes.extend_from_slice(&other.0);
        bytes.extend_from_slice(&old.prove(other).unwrap().encode()[2..]);
        let forged = Proof::decode(&bytes).unwrap();
        assert_eq!(forged.verify(&old_root, &other.0), Err(ProofError::Key));
        assert_eq!(forged.verify(&old_root, &hash.0), Err(ProofError::Key));
    }
    let empty = Proof::decode(&[1, 0, 0, 0]).unwrap();
    assert_eq!(empty.verify(&old_root, &hash.0), Err(ProofError::Root));
    assert_eq!(empty.verify(&[0; 32], &hash.0), Ok(None));
    // Another state.
    store.put(&hash, b"newer").unwrap();
    model.insert(hash, b"newer".to_vec());
    let root = root_of(&model);
    assert_eq!(store.root().unwrap(), root);
    assert_eq!(proof.verify(&root, &hash.0), Err(ProofError::Root));
    let newer = store.snapshot().unwrap().prove(&hash).unwrap();
    assert_eq!(newer.verify(&old_root, &hash.0), Err(ProofError::Root));
    assert_eq!(newer.verify_value(&root, &hash.0, Some(b"newer")), Ok(()));
}

#[test]
fn keys_made_to_be_neighbours_lengthen_their_own_paths_alone() {
    let disk = MemoryDisk::new();
    let store = open(&disk, options());
    let mut model = Model::new();
    // Each differs from this one at the next bit.
    let last = Hash([0xff; 32]);
    for bit in 0..256usize {
        let mut hash = last;
        hash.0[bit / 8] ^= 0x80 >> (bit % 8);
        store.put(&hash, &[bit as u8]).unwrap();
        model.insert(hash, vec![bit as u8]);
    }
    store.put(&last, b"the last").unwrap();
    model.insert(last, b"the last".to_vec());
    let root = root_of(&model);
    assert_eq!(store.root().unwrap(), root);
    let proof = store.snapshot().unwrap().prove(&last).unwrap();
    assert_eq!(proof.encode().len(), 2 + 32 + 2 + 256 * 33);
    proof.verify_value(&root, &last.0, Some(b"the last")).unwrap();
    assert_eq!(store.check().unwrap().damage, []);
    for (index, hash) in model.clone().keys().enumerate() {
        if index % 3 != 0 {
            assert!(store.delete(hash).unwrap());
            model.remove(hash);
        }
    }
    drop(store);
    let store = open(&disk, options());
    assert_eq!(store.root().unwrap(), root_of(&model));
    assert_eq!(store.check().unwrap().damage, []);
}

#[test]
fn the_root_and_the_proof_of_a_known_set_are_known() {
    let store = open(&MemoryDisk::new(), options());
    for number in 0..100u8 {
        store.put(&[number], &[number; 3]).unwrap();
    }
    let root: String = store.root().unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(root, "cf68cc4560102cad6a0be321ff9e4ea7e8be69a86a6700b0837a10a27609d7f7");
    let snapshot = store.snapshot().unwrap();
    let proofs = [snapshot.prove(&[3]).unwrap().encode(), snapshot.prove(&[200]).unwrap().encode()];
    assert_eq!(
        blake3::hash(&proofs.concat()).to_hex().as_str(),
        "cde51bded5b1a2722084bc4ef93fda6c083a65849f3749ee1774811536af3b8f"
    );
}

#[test]
fn a_digest_that_is_not_its_items_is_found_with_file_and_offset() {
    let disk = MemoryDisk::new();
    let store = open(&disk, options());
    store.put(b"key", b"value").unwrap();
    store.checkpoint().unwrap();
    let root = store.root().unwrap();
    drop(store);
    // The root's block, with one child whose digest is the root.
    let content = disk.content("000000.space").unwrap();
    let found = content.windows(32).position(|bytes| bytes == root).unwrap();
    let start = found - 32;
    let change = |at: usize| {
        let copy = disk.fork();
        let mut bytes = content.clone();
        bytes[at] ^= 1;
        let checksum = crc32c::crc32c_append((start / 16) as u32, &bytes[start + 4..start + 64]);
        bytes[start..start + 4].copy_from_slice(&checksum.to_le_bytes());
        copy.put("000000.space", bytes);
        copy
    };
    let store = open(&change(found + 9), options());
    let damage = store.check().unwrap().damage;
    assert!(damage.iter().any(|one| {
        (one.file.as_str(), one.offset) == ("000000.space", start as u64)
            && one.what.contains("digest of an item")
    }));
    // Its proofs are not valid for the right root.
    let proof = store.snapshot().unwrap().prove(b"key").unwrap();
    proof.verify_value(&root, &Hash::of(b"key").0, Some(b"value")).unwrap();
    assert_eq!(proof.verify(&store.root().unwrap(), &Hash::of(b"key").0), Err(ProofError::Root));
    // Without the checksum it is not even read.
    let rotten = disk.fork();
    rotten.flip_bit("000000.space", found as u64, 0).unwrap();
    let refused = Store::open_on(Arc::new(rotten), options()).map(|_| ());
    assert!(
        matches!(&refused, Err(Error::Damaged { offset, .. }) if *offset == start as u64),
        "{refused:?}"
    );
}

#[test]
fn no_flipped_bit_proves_anything_false() {
    let disk = MemoryDisk::new();
    let (store, model) = grown(&disk, 21, 300, 120);
    store.checkpoint().unwrap();
    drop(store);
    let root = root_of(&model);
    let mut random = Random(5);
    let size = disk.content("000000.space").unwrap().len() as u64;
    let (mut refused, mut found) = (0, 0);
    for _ in 0..600 {
        let rotten = disk.fork();
        rotten.flip_bit("000000.space", random.below(size), random.below(8) as u32).unwrap();
        let Ok((store, _)) = Store::open_on(Arc::new(rotten), options()) else {
            refused += 1;
            continue;
        };
        let snapshot = store.snapshot().unwrap();
        let mut errors = 0;
        for (hash, value) in &model {
            match snapshot.get_proved(hash) {
                Ok((proof, there)) => {
                    assert_eq!(there, Some(value.as_slice()));
                    assert_eq!(proof.verify_value(&root, &hash.0, there), Ok(()));
                }
                Err(Error::Damaged { file, .. }) => {
                    assert_eq!(file, "000000.space");
                    errors += 1;
                }
                Err(error) => panic!("{error}"),
            }
            errors += usize::from(store.get(hash).is_err());
        }
        let damage = store.check().unwrap().damage;
        assert_eq!(damage.is_empty(), errors == 0, "{damage:?}");
        found += usize::from(errors > 0);
    }
    assert!(found > 20, "{refused} {found}");
}

proptest! {
    #[test]
    fn any_bytes_are_a_proof_or_refused(
        kind in 0u8..4,
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        root in any::<[u8; 32]>(),
    ) {
        for bytes in [bytes.clone(), [&[1, kind][..], &bytes].concat()] {
            if let Ok(proof) = Proof::decode(&bytes) {
                prop_assert_eq!(proof.encode(), bytes);
                prop_assert!(proof.verify(&root, &Hash::of(b"key").0).is_err());
            }
        }
    }
}
