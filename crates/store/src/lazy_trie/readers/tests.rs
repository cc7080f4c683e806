//! Every interleaving of readers with a writer that uses slots again: `make loom`.

use super::Readers;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// Two slots, one of which holds the newest version's content; loom finds any write beside a read.
struct Slots {
    readers: Readers,
    content: [UnsafeCell<u64>; 2],
}

// SAFETY: what is tested.
#[allow(unsafe_code)]
unsafe impl Sync for Slots {}
#[allow(unsafe_code)]
unsafe impl Send for Slots {}

#[allow(unsafe_code)]
fn read(slots: &Slots, hint: usize) {
    let (place, root) = slots.readers.enter(hint).unwrap();
    // SAFETY: what is tested.
    let content = slots.content[root as usize].with(|content| unsafe { *content });
    assert!(content > 0, "a slot that was given up");
    slots.readers.leave(place);
}

/// Versions 2 and up, each in the slot that the version before does not use, if nobody can read that any more.
#[allow(unsafe_code)]
fn write(slots: &Slots, versions: u64) {
    let mut root = 0;
    for version in 2..2 + versions {
        // The other slot was given up by version - 1.
        if slots.readers.oldest() < version - 1 {
            continue;
        }
        let other = 1 - root;
        // SAFETY: what is tested.
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
                // Both begin at one place.
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
