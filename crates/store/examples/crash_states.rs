//! Cuts the power of a store at every operation of many runs, with every possible result:
//! `make crash-store`.
//!
//! Arguments: the number of states (100000), and the first seed (1).

#[path = "../tests/lazy_trie/crash_life.rs"]
mod crash_life;
#[path = "../tests/lazy_trie/random.rs"]
#[allow(dead_code)] // The tests use the rest.
mod random;

fn main() {
    let mut numbers =
        std::env::args().skip(1).map(|argument| argument.parse::<u64>().expect("a number"));
    let states = numbers.next().unwrap_or(100_000) as usize;
    let seed = numbers.next().unwrap_or(1);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let begun = std::time::Instant::now();
    let checked: usize = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads as u64)
            .map(|index| {
                let each = states.div_ceil(threads * crash_life::KINDS.len());
                let run = move |kind| crash_life::run(kind, seed + index, each, 12);
                scope.spawn(move || crash_life::KINDS.map(run).iter().sum::<usize>())
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("a state that did not recover")).sum()
    });
    println!(
        "{checked} crash states recovered to a committed prefix, in {:.0} s",
        begun.elapsed().as_secs_f64()
    );
}
