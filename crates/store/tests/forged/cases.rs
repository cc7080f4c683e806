//! Tests with single forgeries that could crash a store.

use crate::image::{
    BUCKET, DIGEST, HEAD_GENERATION, HEAD_ITEMS, HEAD_LEDGER, HEAD_LOG, HEAD_NUMBER, HEAD_ROOT,
    HEAD_VERSION, ITEM, Image, NODE, REGION, SLAB, Slot, TO_BUCKET, TO_NODE, entry,
};
use crate::random::{Model, Random, content};
use crate::{grown, grown_with_log, options, usage};
use quorate_store::lazy_trie::{Error, Hash, Store};
use std::sync::Arc;

fn open(image: &Image, authenticated: bool) -> Result<Store, Error> {
    let disk = image.disk();
    Store::open_on(Arc::new(disk), options(authenticated)).map(|(store, _)| store)
}

#[track_caller]
fn expect_damage<T>(result: Result<T, Error>, file: &str, what: &str) {
    match result {
        Err(Error::Damaged { file: there, what: told, .. }) => {
            assert_eq!((there.as_str(), told), (file, what));
        }
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was believed"),
    }
}

/// The items, by hash.
fn items(image: &Image) -> Model {
    content(&open(image, false).unwrap()).unwrap()
}

fn root(image: &Image) -> Slot {
    let address = image.head_field(HEAD_ROOT) & ((1 << 40) - 1);
    image.slots.iter().copied().find(|slot| slot.address == address).unwrap()
}

/// The file that contains a slot.
fn file_of(slot: Slot) -> String {
    format!("{:06}.space", slot.address as usize * 16 / REGION)
}

/// Makes the root block of digests its own only child, for the keys that begin like `key`'s hash.
fn lead_to_itself(image: &mut Image, key: &[u8]) -> Slot {
    let top = root(image);
    assert_eq!(top.usage, DIGEST);
    let digits = 1u16 << (Hash::of(key).0[0] >> 4);
    image.set(top, 4, &[1]);
    image.set(top, 6, &digits.to_le_bytes());
    image.set(top, 24, &entry(TO_NODE, top.address).to_le_bytes());
    image.seal(top);
    top
}

/// Sets all children of a node.
fn set_children(image: &mut Image, slot: Slot, child: u64) {
    let map = u128::from_le_bytes(image.at(slot)[16..32].try_into().unwrap());
    for rank in 0..map.count_ones() as usize {
        image.set(slot, 32 + 8 * rank, &child.to_le_bytes());
    }
    image.seal(slot);
}

/// A forged node may claim to be of the current batch, and would then be changed in place. Mapped
/// regions are read-only.
#[test]
fn a_node_of_a_version_to_come_is_copied_like_any_other() {
    for ahead in 1..40 {
        let mut image = grown(false);
        let version = image.head_field(HEAD_VERSION) + ahead;
        for slot in image.slots_of(NODE) {
            image.set(slot, 8, &version.to_le_bytes());
            image.seal(slot);
        }
        let folder = tempfile::tempdir().unwrap();
        image.write_to(folder.path());
        let (store, _) = Store::open(folder.path(), options(false)).unwrap();
        let held = store.snapshot().unwrap();
        let read = || {
            let items = held.iter().map(|item| item.unwrap());
            items.map(|(hash, item)| (hash, item.value.to_vec())).collect::<Model>()
        };
        let before = read();
        for hash in before.keys() {
            store.put(hash, b"changed").unwrap();
        }
        let after = read();
        assert!(before == after, "a snapshot has changed");
        assert_eq!(store.check().unwrap().damage, []);
    }
}

#[test]
fn a_cycle_ends_in_an_error() {
    let mut image = grown_with_log(false, 0);
    let slot = root(&image);
    set_children(&mut image, slot, entry(TO_NODE, slot.address));
    let map = u128::from_le_bytes(image.at(slot)[16..32].try_into().unwrap());
    // A hash whose digits, of seven bits, all lead to one of its slots.
    let digit = map.trailing_zeros() as usize;
    let mut hash = Hash([0; 32]);
    (0..256)
        .for_each(|bit| hash.0[bit / 8] |= ((digit >> (6 - bit % 7) & 1) as u8) << (7 - bit % 8));
    let store = open(&image, false).unwrap();
    let file = format!("{:06}.space", slot.address as usize * 16 / REGION);
    expect_damage(store.get(&hash), &file, "a path longer than a hash");
    expect_damage(store.put(&hash, b""), &file, "a path longer than a hash");
    expect_damage(store.delete(&hash), &file, "a path longer than a hash");
    let errors: Vec<Error> = store.snapshot().unwrap().iter().filter_map(Result::err).collect();
    assert_eq!(errors.len(), map.count_ones() as usize);
    assert!(errors[0].to_string().contains("a node that is below itself"), "{}", errors[0]);
    assert!(!store.check().unwrap().damage.is_empty());
}

/// Each node leads to the next by all of its slots, so there are too many paths to follow.
#[test]
fn paths_without_number_end_in_an_error() {
    let mut image = grown_with_log(false, 0);
    let nodes = image.slots_of(NODE);
    assert!(nodes.len() > 8, "{}", nodes.len());
    let first = root(&image);
    let mut order = vec![first];
    order.extend(nodes.into_iter().filter(|slot| *slot != first));
    for pair in order.windows(2) {
        image.set(pair[0], 4, &[0]);
        set_children(&mut image, pair[0], entry(TO_NODE, pair[1].address));
    }
    let store = open(&image, false).unwrap();
    let errors: Vec<Error> = store.snapshot().unwrap().iter().filter_map(Result::err).collect();
    let last = errors.last().unwrap().to_string();
    assert!(last.contains("more nodes than the space can have"), "{last}");
    usage::all(|| Store::open_on(Arc::new(image.disk()), options(false)), &mut Random(1));
}

/// A slot that two entries lead to can be released only once. A commit side by side with others
/// finds out after it, at the latest with the next checkpoint, and then the store stops.
#[test]
fn what_two_entries_lead_to_is_not_given_back_twice() {
    let image = grown(false);
    let names = items(&image);
    let mut told = 0;
    for slot in image.slots_of(NODE) {
        let mut image = image.clone();
        let child = image.field(slot, 32);
        if child >> 62 != TO_BUCKET {
            continue;
        }
        set_children(&mut image, slot, child);
        let store = open(&image, false).unwrap();
        let mut errors = Vec::new();
        for (hash, value) in &names {
            errors.extend(store.put(hash, value).err());
        }
        for hash in names.keys() {
            // Any part of it may be left.
            let _ = store.delete(hash);
        }
        errors.extend(store.checkpoint().err());
        assert!(!errors.is_empty(), "it was believed");
        for error in errors {
            assert!(error.to_string().contains("leads to what is not in use"), "{error}");
            told += 1;
        }
        let statistics = store.statistics();
        assert!(statistics.item_slot_bytes <= statistics.space_bytes);
        usage::all(|| Store::open_on(Arc::new(image.disk()), options(false)), &mut Random(2));
    }
    assert!(told > 0);
}

/// The offsets of the entries of a bucket or a node.
fn entries(image: &mut Image, slot: Slot) -> impl Iterator<Item = usize> + use<> {
    let bytes = image.at(slot);
    let (from, count) = if slot.usage == BUCKET {
        (8, u16::from_le_bytes(bytes[4..6].try_into().unwrap()).into())
    } else {
        (32, u128::from_le_bytes(bytes[16..32].try_into().unwrap()).count_ones() as usize)
    };
    (0..count).map(move |rank| from + 8 * rank)
}

/// An entry that leads to the free slot into which its replacement is put.
#[test]
fn what_was_just_written_is_not_taken_for_what_it_replaces() {
    let image = grown_with_log(false, 0);
    let mut told = Vec::new();
    for (hash, value) in items(&image).into_iter() {
        let disk = image.disk();
        let (store, _) = Store::open_on(Arc::new(disk.clone()), options(false)).unwrap();
        store.put(&hash, &value).unwrap();
        store.checkpoint().unwrap();
        drop(store);
        let then = Image::of(&disk).slots_of(ITEM);
        let now = image.slots_of(ITEM);
        let only = |a: &[Slot], b: &[Slot]| {
            a.iter().copied().find(|slot| slot.bytes < SLAB && !b.contains(slot))
        };
        let (Some(old), Some(new)) = (only(&now, &then), only(&then, &now)) else { continue };
        let mut forged = image.clone();
        for slot in [image.slots_of(BUCKET), image.slots_of(NODE)].concat() {
            for at in entries(&mut forged, slot) {
                let there = image.field(slot, at);
                if there & ((1 << 40) - 1) == old.address {
                    let wrong = there - old.address + new.address;
                    forged.set(slot, at, &wrong.to_le_bytes());
                    forged.seal(slot);
                    let what = "an entry that leads to a free slot";
                    let store = open(&forged, false).unwrap();
                    expect_damage(store.put(&hash, &value), &file_of(new), what);
                    told.push(slot.usage);
                }
            }
        }
    }
    assert!(told.contains(&BUCKET) && told.contains(&NODE), "{told:?}");
}

#[test]
fn an_entry_that_leads_out_of_the_space_is_an_error() {
    let image = grown_with_log(false, 0);
    let names = items(&image);
    for address in [image.space.len() as u64 / 16, (1 << 40) - 1] {
        for kind in 1..=3 {
            let mut image = image.clone();
            let slot = root(&image);
            set_children(&mut image, slot, entry(kind, address) | 0x15_5555 << 40);
            let store = open(&image, false).unwrap();
            for (hash, value) in &names {
                // With another tag it is another item.
                let _ = store.get(hash);
                let _ = store.put(hash, value);
                let _ = store.delete(hash);
            }
            assert!(!store.check().unwrap().damage.is_empty());
        }
    }
}

#[test]
fn counts_that_are_too_small_stop_at_zero() {
    for field in [HEAD_ITEMS, HEAD_ITEMS + 8, HEAD_ITEMS + 16] {
        let mut image = grown(false);
        let names = items(&image);
        image.set_head(field, &0_u64.to_le_bytes());
        let store = match open(&image, false) {
            Ok(store) => store,
            Err(error) => {
                expect_damage(Err::<(), _>(error), "store.head", COUNTED);
                continue;
            }
        };
        let errors: Vec<Error> = names.keys().filter_map(|hash| store.delete(hash).err()).collect();
        assert!(!errors.is_empty());
        errors
            .into_iter()
            .for_each(|error| expect_damage(Err::<(), _>(error), "store.head", COUNTED));
        drop(store);
        image.set_head(field, &u64::MAX.to_le_bytes());
        if let Ok(store) = open(&image, false) {
            expect_damage(store.put(b"one more", b"item"), "store.head", COUNTED);
        }
    }
}

const COUNTED: &str =
    "fewer items, or bytes of them, are counted than there are, or more than can be";

#[test]
fn numbers_that_no_store_comes_to_are_refused() {
    let image = grown(false);
    let page = image.page() as u64;
    for field in [HEAD_NUMBER, HEAD_VERSION, HEAD_GENERATION] {
        for value in [u64::MAX, u64::MAX - 1] {
            let mut image = image.clone();
            image.set_head(field, &value.to_le_bytes());
            expect_damage(open(&image, false), "store.head", "a number that no store comes to");
        }
    }
    for (field, value, what) in [
        (HEAD_VERSION, 0, "the version"),
        (HEAD_LEDGER, 1 << 60, "the address of the ledger"),
        (HEAD_LEDGER, u64::MAX, "the address of the ledger"),
    ] {
        let mut image = image.clone();
        image.set_head(field, &u64::to_le_bytes(value));
        match open(&image, false) {
            Err(Error::Damaged { offset, what: told, .. }) => {
                assert_eq!((offset, told), (page, what))
            }
            other => panic!("{:?}", other.err()),
        }
    }
    let mut many = image.clone();
    many.set_head(4, &u32::MAX.to_le_bytes());
    expect_damage(open(&many, false), "store.head", "the number of regions");
    let mut ahead = image;
    ahead.set_head(HEAD_LOG, &(1_u64 << 62).to_le_bytes());
    assert!(matches!(open(&ahead, false), Err(Error::Log(_))));
}

#[test]
fn sizes_that_no_store_has_are_refused() {
    for slab in [0, 1, 4095, 1 << 31] {
        let mut image = grown(false);
        image.set_fixed(28, &u32::to_le_bytes(slab));
        expect_damage(open(&image, false), "store.head", "the sizes of slabs and regions");
    }
    for region in [0, 1, 4096, 1 << 32, u64::MAX] {
        let mut image = grown(false);
        image.set_fixed(32, &region.to_le_bytes());
        expect_damage(open(&image, false), "store.head", "the sizes of slabs and regions");
    }
}

#[test]
fn a_ledger_elsewhere_is_refused() {
    let image = grown(false);
    let mut other = image.clone();
    // A copy of it, in a place of items.
    let (at, length) = image.ledger;
    let slab = image.slots_of(crate::image::ITEM)[0].address as usize * 16 / 4096 * 4096;
    let bytes = other.space[at..at + length].to_vec();
    other.space[slab..slab + length].copy_from_slice(&bytes);
    other.set_head(HEAD_LEDGER, &(slab as u64 / 16).to_le_bytes());
    expect_damage(open(&other, false), "000000.space", "the ledger: its own place");
}

#[test]
fn digests_that_lead_to_themselves_end_in_an_error() {
    let mut image = grown(true);
    let top = lead_to_itself(&mut image, b"key 1");
    let file = file_of(top);
    // The log would update it.
    let disk = image.disk();
    let store = Store::open_on(Arc::new(disk), options(true)).map(|(store, _)| store);
    expect_damage(store, &file, "an item without its digest");
    let mut image = grown_with_log(true, 0);
    lead_to_itself(&mut image, b"key 1");
    let store = open(&image, true).unwrap();
    let what = "a block of digests with one child";
    expect_damage(store.snapshot().unwrap().prove(b"key 1"), &file, what);
    expect_damage(store.put(b"key 1", b"x"), &file, "the bits of a block of digests");
    assert!(!store.check().unwrap().damage.is_empty());
}

/// There are as many first digits as children.
#[test]
fn a_root_with_other_digits_than_children_is_refused() {
    for digits in [0, 1, u16::MAX] {
        let mut image = grown_with_log(true, 0);
        let top = root(&image);
        let count = u32::from(image.at(top)[4]);
        if digits.count_ones() == count {
            continue;
        }
        image.set(top, 6, &digits.to_le_bytes());
        image.seal(top);
        let store = open(&image, true).unwrap();
        let what = "the topmost block of digests";
        expect_damage(store.put(b"key 1", b"x"), &file_of(top), what);
        assert!(!store.check().unwrap().damage.is_empty());
    }
}

/// The version in a root is that of its checkpoint: the log continues from there.
#[test]
fn a_root_of_another_version_is_refused() {
    let mut image = grown(true);
    let top = root(&image);
    let version = image.head_field(HEAD_VERSION) + 3;
    image.set(top, 16, &version.to_le_bytes());
    image.seal(top);
    let what = "the version of the topmost block of digests";
    expect_damage(open(&image, true), &file_of(top), what);
}
