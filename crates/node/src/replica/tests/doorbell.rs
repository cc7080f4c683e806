use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::replica::doorbell::Doorbell;

/// Two threads put things down and ring; each waits for all it put down to be taken, so that a
/// ring that is lost leaves everybody waiting.
#[test]
fn no_ring_is_lost() {
    const ROUNDS: u64 = 20_000;
    let bell = Arc::new(Doorbell::default());
    let put: [Arc<AtomicU64>; 2] = Default::default();
    let taken: [Arc<AtomicU64>; 2] = Default::default();
    let ringers: Vec<_> = (0..2)
        .map(|i| {
            let (bell, put, taken) = (bell.clone(), put[i].clone(), taken[i].clone());
            std::thread::spawn(move || {
                for round in 1..=ROUNDS {
                    put.store(round, Ordering::Release);
                    bell.ring();
                    while taken.load(Ordering::Acquire) < round {
                        std::thread::yield_now();
                    }
                }
            })
        })
        .collect();
    bell.answer_here();
    while taken.iter().any(|taken| taken.load(Ordering::Relaxed) < ROUNDS) {
        let mut any = false;
        for (put, taken) in put.iter().zip(&taken) {
            let now = put.load(Ordering::Acquire);
            any |= taken.swap(now, Ordering::Release) != now;
        }
        if !any {
            bell.wait(None);
        }
    }
    for ringer in ringers {
        ringer.join().unwrap();
    }
}

/// The same with ringers that help: each takes what was put down itself, if nobody else is taking. Some
/// of their turns leave the rest to the thread.
#[test]
fn what_helpers_leave_is_taken_by_the_thread() {
    const ROUNDS: u64 = 20_000;
    let bell = Arc::new(Doorbell::default());
    let put: [Arc<AtomicU64>; 2] = Default::default();
    let taken: [Arc<AtomicU64>; 2] = Default::default();
    let desk = Arc::new(Mutex::new(0_u64));
    let take = {
        let (put, taken) = (put.clone(), taken.clone());
        move || {
            let mut any = false;
            for (put, taken) in put.iter().zip(&taken) {
                let now = put.load(Ordering::Acquire);
                any |= taken.swap(now, Ordering::Release) != now;
            }
            any
        }
    };
    let (helped, helps) = (Arc::clone(&desk), (Arc::downgrade(&bell), take.clone()));
    bell.helped_by(move || {
        let (Ok(mut turns), Some(bell)) = (helped.try_lock(), helps.0.upgrade()) else {
            return false;
        };
        *turns += 1;
        if turns.is_multiple_of(3) {
            return false;
        }
        bell.hush();
        helps.1();
        true
    });
    let ringers: Vec<_> = (0..2)
        .map(|i| {
            let (bell, put, taken) = (bell.clone(), put[i].clone(), taken[i].clone());
            std::thread::spawn(move || {
                for round in 1..=ROUNDS {
                    put.store(round, Ordering::Release);
                    bell.ring_and_help();
                    while taken.load(Ordering::Acquire) < round {
                        std::thread::yield_now();
                    }
                }
                // The last round may have been taken here, and nobody told of it.
                bell.ring();
            })
        })
        .collect();
    bell.answer_here();
    while taken.iter().any(|taken| taken.load(Ordering::Relaxed) < ROUNDS) {
        let turns = desk.lock().unwrap();
        while take() {}
        drop(turns);
        bell.wait(None);
    }
    for ringer in ringers {
        ringer.join().unwrap();
    }
    assert!(*desk.lock().unwrap() > 0);
}

#[test]
fn patience_ends_and_an_early_ring_is_kept() {
    let bell = Doorbell::default();
    bell.answer_here();
    bell.wait(Some(Duration::from_millis(1)));
    bell.ring();
    bell.wait(None);
}
