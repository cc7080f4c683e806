use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::replica::doorbell::Doorbell;

const ROUNDS: u64 = 20_000;

/// Two places where threads put things down, and how much of it was taken.
#[derive(Clone, Default)]
struct Counter {
    put: [Arc<AtomicU64>; 2],
    taken: [Arc<AtomicU64>; 2],
}

impl Counter {
    /// Takes all there is. Whether there was anything.
    fn take(&self) -> bool {
        let mut any = false;
        for (put, taken) in self.put.iter().zip(&self.taken) {
            let now = put.load(Ordering::Acquire);
            any |= taken.swap(now, Ordering::Release) != now;
        }
        any
    }

    fn is_done(&self) -> bool {
        self.taken.iter().all(|taken| taken.load(Ordering::Relaxed) == ROUNDS)
    }

    /// Two threads put things down and ring; each waits for all it put down to be taken, so that a
    /// ring that is lost leaves everybody waiting.
    fn ringers(&self, bell: &Arc<Doorbell>, ring: fn(&Doorbell)) -> Vec<JoinHandle<()>> {
        let places = self.put.iter().cloned().zip(self.taken.iter().cloned());
        let ringer = |(put, taken): (Arc<AtomicU64>, Arc<AtomicU64>)| {
            let bell = Arc::clone(bell);
            std::thread::spawn(move || {
                for round in 1..=ROUNDS {
                    put.store(round, Ordering::Release);
                    ring(&bell);
                    while taken.load(Ordering::Acquire) < round {
                        std::thread::yield_now();
                    }
                }
                // Who took the last may have been a ringer, and told nobody.
                bell.ring();
            })
        };
        places.map(ringer).collect()
    }
}

#[test]
fn no_ring_is_lost() {
    let (bell, counter) = (Arc::new(Doorbell::default()), Counter::default());
    let ringers = counter.ringers(&bell, Doorbell::ring);
    bell.answer_here();
    while !counter.is_done() {
        if !counter.take() {
            bell.wait(None);
        }
    }
    for ringer in ringers {
        ringer.join().unwrap();
    }
}

/// With ringers that help, each takes what was put down itself, if nobody else is taking. Every
/// third of their turns leaves it to the thread.
#[test]
fn what_helpers_leave_is_taken_by_the_thread() {
    let (bell, counter) = (Arc::new(Doorbell::default()), Counter::default());
    let turns = Arc::new(Mutex::new(0_u64));
    let (taking, theirs, rung) = (Arc::clone(&turns), counter.clone(), Arc::downgrade(&bell));
    bell.helped_by(move || {
        let (Ok(mut turns), Some(bell)) = (taking.try_lock(), rung.upgrade()) else {
            return false;
        };
        *turns += 1;
        if turns.is_multiple_of(3) {
            return false;
        }
        bell.hush();
        theirs.take();
        true
    });
    let ringers = counter.ringers(&bell, Doorbell::ring_and_help);
    bell.answer_here();
    while !counter.is_done() {
        let turn = turns.lock().unwrap();
        while counter.take() {}
        drop(turn);
        bell.wait(None);
    }
    for ringer in ringers {
        ringer.join().unwrap();
    }
    assert!(*turns.lock().unwrap() > 0, "nobody helped");
}

#[test]
fn patience_ends_and_an_early_ring_is_kept() {
    let bell = Doorbell::default();
    bell.answer_here();
    bell.wait(Some(Duration::from_millis(1)));
    bell.ring();
    bell.wait(None);
}
