//! Tests of every interleaving of readers with a writer that reuses slots: `make loom`.

use super::Readers;
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
