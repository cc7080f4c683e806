//! What the fuzz targets of `crates/store/fuzz` do, run from seeds: `QUORATE_STORE_FUZZ_INPUTS` sets how many inputs of each kind.

mod damage;
mod input;
mod log;
mod operations;
mod pages;
#[path = "../lazy_trie/random.rs"]
#[allow(dead_code)] // The other tests use the rest.
mod random;

use random::Random;

const INPUTS: &str = "QUORATE_STORE_FUZZ_INPUTS";

/// Runs `target` on so many inputs, or as many as the environment says. A failure names the seed.
fn each_seed(usual: u64, longest: u64, target: fn(&[u8])) {
    let inputs = std::env::var(INPUTS).ok().and_then(|n| n.parse().ok()).unwrap_or(usual);
    for seed in 0..inputs {
        let mut random = Random(seed.wrapping_mul(0x1234_5678_9abc_def1));
        let length = random.below(longest);
        let bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        if let Err(panic) = std::panic::catch_unwind(|| target(&bytes)) {
            eprintln!("this was seed {seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn operations_and_crashes() {
    each_seed(150, 600, operations::run);
}

#[test]
fn pages_damaged_or_hostile() {
    each_seed(1500, 60, pages::run);
}

#[test]
fn logs_damaged_or_hostile() {
    each_seed(600, 60, log::run);
}

#[test]
fn the_empty_input() {
    operations::run(&[]);
    pages::run(&[]);
    log::run(&[]);
}
