//! Losses of power: the first thousands of the states of `make crash-store`.

use crate::crash_life::{KINDS, run};

#[test]
fn every_crash_state_recovers_to_a_committed_prefix() {
    let states = std::thread::scope(|scope| {
        let kinds = KINDS.map(|kind| scope.spawn(move || run(kind, 1, 3500, 4)));
        kinds.map(|kind| kind.join().unwrap()).iter().sum::<usize>()
    });
    assert!(states >= 10_000);
}
