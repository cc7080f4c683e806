//! The Merkle map against a model: a sorted map, and the root computed from its specification.

use proptest::collection::vec;
use proptest::prelude::*;
use quorate_merkle::{EMPTY_ROOT, Hash, Leaf, MerkleMap};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Value(u16);

impl Leaf for Value {
    fn digest(&self) -> Hash {
        *blake3::hash(&self.0.to_le_bytes()).as_bytes()
    }
}

type Model = BTreeMap<Hash, Value>;

fn bit(key: &Hash, bit: usize) -> bool {
    key[bit / 8] & (0x80 >> (bit % 8)) != 0
}

/// The root by the letter of the specification.
fn specified_root(pairs: &[(&Hash, &Value)]) -> Hash {
    let hash = |domain: &Hash, left: &Hash, right: &Hash| {
        *blake3::keyed_hash(domain, &[*left, *right].concat()).as_bytes()
    };
    match pairs {
        [] => EMPTY_ROOT,
        [(key, value)] => hash(b"quorate merkle map v1: leaf     ", key, &value.digest()),
        [(first, _), .., (last, _)] => {
            let parting = (0..256).find(|&b| bit(first, b) != bit(last, b)).unwrap();
            let middle = pairs.partition_point(|(key, _)| !bit(key, parting));
            let mut domain = *b"quorate merkle map v1: join at \0";
            domain[31] = parting as u8;
            hash(&domain, &specified_root(&pairs[..middle]), &specified_root(&pairs[middle..]))
        }
    }
}

fn root_of(model: &Model) -> Hash {
    specified_root(&model.iter().collect::<Vec<_>>())
}

fn check(map: &MerkleMap<Value>, model: &Model) {
    assert_eq!(map.len(), model.len());
    assert_eq!(map.is_empty(), model.is_empty());
    assert!(map.iter().eq(model.iter()));
}

/// A key like those of a hash function.
fn hashed(number: u32) -> Hash {
    *blake3::hash(&number.to_le_bytes()).as_bytes()
}

/// Keys of three kinds: hashed, from a crowded corner, and mined to part only far down.
fn key() -> impl Strategy<Value = Hash> {
    let crowded = any::<[u8; 2]>().prop_map(|[a, b]| {
        let mut key = [0; 32];
        (key[0], key[1]) = (a & 0x33, b & 0x81);
        key
    });
    let mined = (0..256usize, any::<bool>()).prop_map(|(at, last)| {
        let mut key = [0x5a; 32];
        key[at / 8] ^= 0x80 >> (at % 8);
        key[31] ^= u8::from(last);
        key
    });
    prop_oneof![2 => (0..200u32).prop_map(hashed), 2 => crowded, 1 => mined]
}

#[derive(Clone, Debug)]
enum Step {
    Insert(Hash, Value),
    Remove(Hash),
    /// Removes the key at this place of the order: a removal that meets something.
    RemoveNth(usize),
    Modify(Hash, Value),
    Upsert(Hash, Value),
    Root,
    Snapshot,
    IterFrom(Hash),
}

fn step() -> impl Strategy<Value = Step> {
    let value = || any::<u16>().prop_map(Value);
    prop_oneof![
        8 => (key(), value()).prop_map(|(k, v)| Step::Insert(k, v)),
        2 => key().prop_map(Step::Remove),
        4 => any::<usize>().prop_map(Step::RemoveNth),
        2 => (key(), value()).prop_map(|(k, v)| Step::Modify(k, v)),
        2 => (key(), value()).prop_map(|(k, v)| Step::Upsert(k, v)),
        2 => Just(Step::Root),
        1 => Just(Step::Snapshot),
        2 => key().prop_map(Step::IterFrom),
    ]
}

fn remove(map: &mut MerkleMap<Value>, model: &mut Model, key: &Hash) {
    assert_eq!(map.remove(key), model.remove(key));
    assert!(!map.contains_key(key));
}

fn apply(map: &mut MerkleMap<Value>, model: &mut Model, step: Step) {
    match step {
        Step::Insert(key, value) => {
            assert_eq!(map.insert(key, value), model.insert(key, value));
            assert_eq!(map.get(&key), Some(&value));
        }
        Step::Remove(key) => remove(map, model, &key),
        Step::RemoveNth(nth) => {
            let key = model.keys().nth(nth % model.len().max(1)).copied();
            if let Some(key) = key {
                remove(map, model, &key);
            }
        }
        Step::Modify(key, value) => {
            assert_eq!(map.get(&key), model.get(&key));
            let (ours, theirs) = (map.get_mut(&key), model.get_mut(&key));
            assert_eq!(ours, theirs);
            if let (Some(ours), Some(theirs)) = (ours, theirs) {
                (*ours, *theirs) = (value, value);
            }
        }
        Step::Upsert(key, value) => {
            let ours = map.get_or_insert_with(&key, || value);
            let theirs = model.entry(key).or_insert(value);
            assert_eq!(ours, theirs);
            ours.0 ^= 1;
            theirs.0 ^= 1;
        }
        Step::Root => assert_eq!(map.root(), root_of(model)),
        Step::IterFrom(start) => assert!(map.iter_from(&start).eq(model.range(start..))),
        Step::Snapshot => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Every operation answers as the model does, roots are those specified, and no snapshot sees a
    /// write made after it, in either direction: now and then the writer carries on from the clone.
    #[test]
    fn behaves_like_a_sorted_map(steps in vec(step(), 1..300)) {
        let (mut map, mut model) = (MerkleMap::new(), Model::new());
        let mut snapshots: Vec<(MerkleMap<Value>, Model)> = Vec::new();
        for step in steps {
            if matches!(step, Step::Snapshot) {
                let mut kept = map.clone();
                if snapshots.len() % 2 == 1 {
                    std::mem::swap(&mut kept, &mut map);
                }
                snapshots.push((kept, model.clone()));
            }
            apply(&mut map, &mut model, step);
        }
        snapshots.push((map, model));
        for (map, model) in &mut snapshots {
            check(map, model);
            prop_assert_eq!(map.root(), root_of(model));
        }
    }

    /// The root knows the content only: neither the order of insertion, nor what came and went, nor
    /// when roots were taken.
    #[test]
    fn different_histories_of_one_content_have_one_root(
        content in proptest::collection::btree_map(key(), any::<u16>().prop_map(Value), 0..80),
        passing in vec(key(), 0..80),
        order in any::<u64>(),
    ) {
        let mut plain = MerkleMap::new();
        for (key, value) in &content {
            plain.insert(*key, *value);
        }
        let mut shuffled: Vec<_> = content.iter().collect();
        shuffled.sort_by_key(|(key, _)| *blake3::keyed_hash(key, &order.to_le_bytes()).as_bytes());
        let mut devious = MerkleMap::new();
        for key in &passing {
            devious.insert(*key, Value(7));
        }
        devious.root();
        for (key, value) in shuffled {
            devious.insert(*key, *value);
            if value.0 % 8 == 0 {
                devious.root();
            }
        }
        for key in passing.iter().filter(|key| !content.contains_key(*key)) {
            devious.remove(key);
        }
        check(&devious, &content);
        prop_assert_eq!(plain.root(), devious.root());
        prop_assert_eq!(plain.root(), root_of(&content));
    }

    /// Any single difference in content shows in the root, and undoing it restores the root.
    #[test]
    fn different_content_has_a_different_root(
        content in proptest::collection::btree_map(key(), any::<u16>().prop_map(Value), 1..60),
        other in key(),
        nth in any::<usize>(),
    ) {
        let mut map = MerkleMap::new();
        for (key, value) in &content {
            map.insert(*key, *value);
        }
        let root = map.root();
        let (key, value) = content.iter().nth(nth % content.len()).unwrap();
        map.get_mut(key).unwrap().0 ^= 1;
        prop_assert_ne!(map.root(), root);
        map.remove(key);
        prop_assert_ne!(map.root(), root);
        map.insert(*key, *value);
        prop_assert_eq!(map.root(), root);
        if !content.contains_key(&other) {
            map.insert(other, *value);
            prop_assert_ne!(map.root(), root);
            map.remove(key);
            prop_assert_ne!(map.root(), root, "the value moved to another key");
        }
    }
}

/// Enough writes at once to be refreshed in parts, then few, then removal of nearly all.
#[test]
fn a_large_map_keeps_to_the_specification() {
    let (mut map, mut model) = (MerkleMap::new(), Model::new());
    for number in 0..40_000 {
        map.insert(hashed(number), Value(number as u16));
        model.insert(hashed(number), Value(number as u16));
    }
    assert_eq!(map.root(), root_of(&model));
    let snapshot = (map.clone(), model.clone());
    for number in (0..40_000).step_by(97) {
        apply(&mut map, &mut model, Step::Insert(hashed(number), Value(1)));
    }
    assert_eq!(map.root(), root_of(&model));
    for number in (0..40_000).filter(|number| number % 1000 != 0) {
        apply(&mut map, &mut model, Step::Remove(hashed(number)));
    }
    check(&map, &model);
    assert_eq!(map.root(), root_of(&model));
    let (mut map, model) = snapshot;
    check(&map, &model);
    assert_eq!(map.root(), root_of(&model));
}

/// The deepest map there is: a key for every bit at which a path can part.
#[test]
fn the_deepest_map_is_walked_hashed_and_dropped() {
    let (mut map, mut model) = (MerkleMap::new(), Model::new());
    for at in 0..256 {
        let mut key = [0; 32];
        key[at / 8] = 0x80 >> (at % 8);
        apply(&mut map, &mut model, Step::Insert(key, Value(at as u16)));
    }
    apply(&mut map, &mut model, Step::Insert([0; 32], Value(256)));
    check(&map, &model);
    assert_eq!(map.root(), root_of(&model));
    for start in model.keys() {
        assert!(map.iter_from(start).eq(model.range(*start..)));
    }
    let keys: Vec<Hash> = model.keys().copied().collect();
    for key in keys {
        apply(&mut map, &mut model, Step::Remove(key));
        assert_eq!(map.root(), root_of(&model));
    }
    assert_eq!(map.root(), EMPTY_ROOT);
}

/// What an encoded proof shows under `root`, by the letter of the specification: the digest of the
/// value under `key`, or nothing.
fn shown(proof: &[u8], root: &Hash, key: &Hash) -> Option<Hash> {
    let hash = |domain: &Hash, left: &Hash, right: &Hash| {
        *blake3::keyed_hash(domain, &[*left, *right].concat()).as_bytes()
    };
    let take = |at: usize| -> Hash { proof[at..at + 32].try_into().unwrap() };
    let (from, value, joins) = match proof[..2] {
        [1, 1] => (*key, take(2), 34),
        [1, 2] => (take(2), take(34), 66),
        _ => {
            assert_eq!((proof, root), (&[1, 0, 0, 0][..], &EMPTY_ROOT));
            return None;
        }
    };
    let mut digest = hash(b"quorate merkle map v1: leaf     ", &from, &value);
    let mut below = 256;
    let list = &proof[joins + 2..];
    assert_eq!(list.len(), 33 * usize::from(u16::from_le_bytes([proof[joins], proof[joins + 1]])));
    for join in list.chunks(33) {
        let (at, side) = (join[0], join[1..].try_into().unwrap());
        assert!(usize::from(at) < below);
        below = usize::from(at);
        assert_eq!(bit(&from, below), bit(key, below), "another search");
        let mut domain = *b"quorate merkle map v1: join at \0";
        domain[31] = at;
        digest = match bit(&from, below) {
            true => hash(&domain, &side, &digest),
            false => hash(&domain, &digest, &side),
        };
    }
    assert_eq!(digest, *root);
    (from == *key).then_some(value)
}

proptest! {
    #[test]
    fn proofs_show_what_is_there_and_what_is_not(
        keys in vec(key(), 0..60),
        others in vec(key(), 1..20),
    ) {
        let mut map = MerkleMap::new();
        let mut model = Model::new();
        for (number, key) in keys.iter().enumerate() {
            apply(&mut map, &mut model, Step::Insert(*key, Value(number as u16)));
        }
        // Proofs bring the root up to date, and are of a snapshot whatever comes behind it.
        let root = root_of(&model);
        let mut snapshot = map.clone();
        map.insert(others[0], Value(1));
        for key in keys.iter().chain(&others) {
            let expected = model.get(key).map(Leaf::digest);
            let verified = snapshot.prove(key).verify(&root, key);
            prop_assert_eq!(verified, Ok(expected));
            prop_assert_eq!(shown(&snapshot.prove(key).encode(), &root, key), expected);
        }
    }
}

#[test]
fn an_empty_map_has_nothing() {
    let mut map = MerkleMap::<Value>::new();
    assert_eq!(map.root(), EMPTY_ROOT);
    assert_eq!(map.iter().next(), None);
    assert_eq!(map.iter_from(&[0; 32]).next(), None);
    assert_eq!(map.get(&[0; 32]), None);
    assert_eq!(map.remove(&[0; 32]), None);
    assert_eq!(map.get_mut(&[0; 32]), None);
}

#[test]
fn without_snapshots_values_are_changed_in_place() {
    let mut map = MerkleMap::new();
    for number in 0..1000 {
        map.insert(hashed(number), Value(0));
    }
    map.root();
    let place: *const Value = map.get(&hashed(5)).unwrap();
    for number in 0..1000 {
        map.insert(hashed(number), Value(1));
    }
    map.root();
    assert_eq!(place, map.get(&hashed(5)).unwrap() as *const Value);
    let snapshot = map.clone();
    map.insert(hashed(5), Value(2));
    assert_eq!(place, snapshot.get(&hashed(5)).unwrap() as *const Value);
    assert_ne!(place, map.get(&hashed(5)).unwrap() as *const Value);
}

/// Roots are agreed between replicas of different versions: they must never change.
#[test]
fn golden_roots() {
    let hex = |hash: Hash| blake3::Hash::from(hash).to_hex().to_string();
    let mut map = MerkleMap::new();
    map.insert(hashed(0), Value(0));
    assert_eq!(hex(map.root()), "634684ec771dc53f41810acc35279f6cab3b281670b00eae1f597ff11cbba4c6");
    for number in 1..10 {
        map.insert(hashed(number), Value(number as u16));
    }
    assert_eq!(hex(map.root()), "782fbeb1a8e71869939c5aa711f2d47378e3320274e2034aca8bdb1b5f38061f");
}
