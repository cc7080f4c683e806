//! Random changes to a small set of names, so that they collide.

use quorate_store::lazy_trie::{Batch, Error, Hash, Name, Options, Store, WriteOut};
use std::collections::BTreeMap;

/// The expected content of a store, by hash.
pub type Model = BTreeMap<Hash, Vec<u8>>;

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// An owned name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owned {
    Key(Vec<u8>),
    Hash(Hash),
}

impl Owned {
    pub fn name(&self) -> Name<'_> {
        match self {
            Owned::Key(key) => Name::Key(key),
            Owned::Hash(hash) => Name::Hash(*hash),
        }
    }

    pub fn hash(&self) -> Hash {
        match self {
            Owned::Key(key) => Hash::of(key),
            Owned::Hash(hash) => *hash,
        }
    }
}

/// One of `count` names: keys, hashes of those keys, and hashes with long prefixes in common.
pub fn name(random: &mut Random, count: u64) -> Owned {
    let number = random.below(count);
    match random.below(8) {
        0 => Owned::Hash(Hash::of(format!("key {number}").as_bytes())),
        1 | 2 => {
            let mut hash = [0x5a; 32];
            // Differences early, late, and in the bits of the tag.
            let at = [0, 1, 7, 30, 31][(number % 5) as usize];
            hash[at] = (number / 5) as u8;
            Owned::Hash(Hash(hash))
        }
        _ => Owned::Key(format!("key {number}").into_bytes()),
    }
}

/// A value: mostly short, sometimes of several slabs.
pub fn value(random: &mut Random) -> Vec<u8> {
    let limit = [1, 20, 150, 150, 700, 3000, 12_000][random.below(7) as usize];
    let length = random.below(limit) as usize;
    let seed = random.next();
    (0..length).map(|i| (seed.rotate_left(i as u32 % 64) ^ i as u64) as u8).collect()
}

/// The smallest space allowed.
pub fn small_options() -> Options {
    Options {
        identity: Some(*b"a store of tests"),
        bucket_items: 4,
        write_buffer_bytes: 1 << 20,
        checkpoint_bytes: 24 << 10,
        segment_bytes: 64 << 10,
        slab_bytes: 4096,
        region_bytes: 64 << 10,
        limit_bytes: 64 << 20,
        write_out: WriteOut::Inline,
        ..Options::default()
    }
}

/// A batch of eight new items with numbers from 8 · `number` on, and the model after it.
pub fn eight_more(model: &Model, number: u32) -> (Batch, Model) {
    let (mut batch, mut after) = (Batch::new(), model.clone());
    for key in (number * 8..).take(8).map(u32::to_le_bytes) {
        batch.put(&key, &[number as u8; 200]).unwrap();
        after.insert(Hash::of(&key), vec![number as u8; 200]);
    }
    (batch, after)
}

/// Writes a batch of a few puts and deletes of as many keys.
pub fn write_some(store: &Store, random: &mut Random, keys: u64) {
    let mut batch = Batch::new();
    for _ in 0..8 {
        let key = random.below(keys).to_le_bytes();
        match random.below(3) {
            0 => batch.delete(&key).unwrap(),
            _ => batch.put(&key, &random.next().to_le_bytes()).unwrap(),
        }
    }
    store.write(&batch).unwrap();
}

/// Makes one random change, or a batch of them, to the store and the model.
pub fn change(
    store: &Store,
    model: &mut Model,
    random: &mut Random,
    names: u64,
) -> Result<(), Error> {
    match random.below(10) {
        0 => {
            let name = name(random, names);
            let removed = store.delete(name.name())?;
            assert_eq!(removed, model.remove(&name.hash()).is_some());
        }
        1 => {
            let (name, value) = (name(random, names), value(random));
            let old = store.replace(name.name(), &value)?;
            assert_eq!(old, model.insert(name.hash(), value));
        }
        2 => {
            let name = name(random, names);
            let old = model.get(&name.hash()).cloned();
            let new = (random.below(3) > 0).then(|| value(random));
            store.merge(name.name(), |there| {
                assert_eq!(there, old.as_deref());
                new.clone()
            })?;
            match new {
                Some(value) => model.insert(name.hash(), value),
                None => model.remove(&name.hash()),
            };
        }
        3 | 4 => {
            let mut batch = Batch::new();
            let mut after = model.clone();
            for _ in 0..random.below(12) {
                let name = name(random, names);
                if random.below(3) == 0 {
                    batch.delete(name.name())?;
                    after.remove(&name.hash());
                } else {
                    let value = value(random);
                    batch.put(name.name(), &value)?;
                    after.insert(name.hash(), value);
                }
            }
            store.write(&batch)?;
            *model = after;
        }
        _ => {
            let (name, value) = (name(random, names), value(random));
            store.put(name.name(), &value)?;
            model.insert(name.hash(), value);
        }
    }
    Ok(())
}

/// The content of a store, by iteration.
pub fn content(store: &Store) -> Result<Model, Error> {
    let snapshot = store.snapshot()?;
    let mut model = Model::new();
    let mut last = None;
    for item in snapshot.iter() {
        let (hash, item) = item?;
        assert!(last < Some(hash), "the order of hashes");
        assert_eq!(hash, item.hash());
        last = Some(hash);
        model.insert(hash, item.value.to_vec());
    }
    Ok(model)
}

/// The Merkle root of a model, by its definition.
pub fn root_of(model: &Model) -> [u8; 32] {
    let pairs: Vec<([u8; 32], [u8; 32])> =
        model.iter().map(|(hash, value)| (hash.0, *blake3::hash(value).as_bytes())).collect();
    root_of_pairs(&pairs)
}

fn root_of_pairs(pairs: &[([u8; 32], [u8; 32])]) -> [u8; 32] {
    let keyed = |key: &[u8; 32], left: [u8; 32], right: [u8; 32]| {
        *blake3::keyed_hash(key, &[left, right].concat()).as_bytes()
    };
    match pairs {
        [] => [0; 32],
        [(hash, value)] => keyed(b"quorate merkle map v1: leaf     ", *hash, *value),
        [first, .., last] => {
            let bit_of = |hash: &[u8; 32], bit: usize| hash[bit / 8] >> (7 - bit % 8) & 1 == 1;
            let bit = (0..256).find(|bit| bit_of(&first.0, *bit) != bit_of(&last.0, *bit)).unwrap();
            let (left, right) = pairs.split_at(pairs.partition_point(|(h, _)| !bit_of(h, bit)));
            let mut key = b"quorate merkle map v1: join at ".to_vec();
            key.push(bit as u8);
            keyed(&key.try_into().unwrap(), root_of_pairs(left), root_of_pairs(right))
        }
    }
}

/// Asserts that an authenticated store has the root of the model.
#[track_caller]
pub fn assert_root(store: &Store, model: &Model, what: &str) {
    match store.root() {
        Err(Error::NotAuthenticated) => {}
        root => assert_eq!(root.unwrap(), root_of(model), "{what}: the root"),
    }
}

/// Asserts that a store holds exactly the model's items, by every kind of lookup, and that its
/// lists of used slots are right.
#[track_caller]
pub fn assert_holds(store: &Store, model: &Model) {
    assert!(content(store).unwrap() == *model, "iterating finds something else");
    for (hash, value) in model {
        assert_eq!(store.get(hash).unwrap().as_deref(), Some(value.as_slice()));
    }
    assert_root(store, model, "content");
    let checked = store.check().unwrap();
    assert_eq!(checked.damage, []);
    assert_eq!(checked.items, model.len() as u64);
    assert_eq!(store.statistics().items, model.len() as u64);
}
