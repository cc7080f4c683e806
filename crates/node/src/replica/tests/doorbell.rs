use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
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

#[test]
fn patience_ends_and_an_early_ring_is_kept() {
    let bell = Doorbell::default();
    bell.answer_here();
    bell.wait(Some(Duration::from_millis(1)));
    bell.ring();
    bell.wait(None);
}
