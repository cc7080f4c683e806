//! Tests of every interleaving of readers with a writer that reuses slots: `make loom`.

use super::{DIVIDED, Readers, Tree};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// Two slots, one of which holds the newest version's content. Loom detects a write beside a read.
struct Slots {
    readers: Readers,
    content: [UnsafeCell<u64>; 2],
}

// SAFETY: this is what the test checks.
#[allow(unsafe_code)]
unsafe impl Sync for Slots {}
#[allow(unsafe_code)]
unsafe impl Send for Slots {}

#[allow(unsafe_code)]
fn read(slots: &Slots, hint: usize) {
    let (place, root) = slots.readers.enter(hint).unwrap();
    // SAFETY: this is what the test checks.
    let content = slots.content[root as usize].with(|content| unsafe { *content });
    assert!(content > 0, "a slot that was given up");
    slots.readers.leave(place);
}

/// Publishes versions 2 and up. Each takes the slot that the previous version does not use, once no
/// reader can read it any more.
#[allow(unsafe_code)]
fn write(slots: &Slots, versions: u64) {
    let mut root = 0;
    for version in 2..2 + versions {
        // Version - 1 released the other slot.
        if slots.readers.oldest() < version - 1 {
            continue;
        }
        let other = 1 - root;
        // SAFETY: this is what the test checks.
        slots.content[other].with_mut(|content| unsafe { *content = version });
        slots.readers.publish(version, other as u64);
        root = other;
    }
}

fn model(readers: usize, versions: u64, preemptions: Option<usize>) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.check(move || {
        let slots = Arc::new(Slots {
            readers: Readers::new(1, 0),
            content: [UnsafeCell::new(1), UnsafeCell::new(0)],
        });
        let threads: Vec<_> = (0..readers)
            .map(|hint| {
                let slots = Arc::clone(&slots);
                // Both begin at the same place.
                thread::spawn(move || read(&slots, hint / 2))
            })
            .collect();
        write(&slots, versions);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn no_slot_is_used_again_while_it_is_read() {
    model(1, 2, None);
}

#[test]
fn nor_with_two_readers_that_want_one_place() {
    // All interleavings of three threads would take hours; those with two preemptions take seconds.
    model(2, 2, Some(2));
}

/// A reader of all parts beside a writer that divides the tree, changes one part after the other,
/// and publishes a whole tree again.
#[test]
fn the_parts_of_a_tree_are_those_of_one_version() {
    loom::model(|| {
        let readers = Arc::new(Readers::new(1, 10));
        let thread = {
            let readers = Arc::clone(&readers);
            thread::spawn(move || {
                let (place, root) = readers.enter(0).unwrap();
                let tree = if root == DIVIDED { readers.tree() } else { Some(Tree::Whole(root)) };
                readers.leave(place);
                match tree {
                    None | Some(Tree::Whole(10 | 40)) => {}
                    Some(Tree::Whole(root)) => panic!("a root that was never published: {root}"),
                    Some(Tree::Divided(parts)) => {
                        let parts = parts.map(u64::from_le_bytes);
                        let there = [[11, 12], [21, 12], [21, 32]];
                        assert!(there.contains(&parts), "{parts:?}");
                    }
                }
            })
        };
        readers.divide(&[11, 12].map(u64::to_le_bytes));
        readers.publish_part(2, 0, 21);
        readers.publish_part(3, 1, 32);
        readers.publish(4, 40);
        thread.join().unwrap();
    });
}

/// A slot of a part that a reader of one item may read is not used again meanwhile.
#[test]
#[allow(unsafe_code)]
fn no_slot_of_a_part_is_used_again_while_it_is_read() {
    loom::model(|| {
        let slots = Arc::new(Slots {
            readers: Readers::new(1, 0),
            content: [UnsafeCell::new(1), UnsafeCell::new(0)],
        });
        // The part's root is the index of its slot.
        slots.readers.divide(&[[0; 8]; 2]);
        let thread = {
            let slots = Arc::clone(&slots);
            thread::spawn(move || {
                let (place, root) = slots.readers.enter(0).unwrap();
                assert_eq!(root, DIVIDED);
                let slot = slots.readers.part(0) as usize;
                // SAFETY: this is what the test checks.
                let content = slots.content[slot].with(|content| unsafe { *content });
                assert!(content > 0, "a slot that was given up");
                slots.readers.leave(place);
            })
        };
        let mut root = 0;
        for version in 2..4 {
            if slots.readers.oldest() < version - 1 {
                continue;
            }
            let other = 1 - root;
            // SAFETY: this is what the test checks.
            slots.content[other].with_mut(|content| unsafe { *content = version });
            slots.readers.publish_part(version, 0, other as u64);
            root = other;
        }
        thread.join().unwrap();
    });
}
