//! Losses of power: the first thousands of the states of `make crash-store`.

use crate::crash_life::run;

#[test]
fn every_crash_state_recovers_to_a_committed_prefix() {
    let states = std::thread::scope(|scope| {
        let halves = [1, 2].map(|seed| scope.spawn(move || run(seed, 5000, 4)));
        halves.map(|half| half.join().unwrap()).iter().sum::<usize>()
    });
    assert!(states >= 10_000);
}
