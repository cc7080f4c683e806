//! What the fuzz targets of the applications do, run from seeds: `QUORATE_APP_FUZZ_INPUTS` sets how
//! many inputs of each kind.

#[path = "../support/folders.rs"]
#[allow(dead_code)] // The other tests use the rest.
mod folders;
mod requests;

const INPUTS: &str = "QUORATE_APP_FUZZ_INPUTS";

/// Runs `target` on so many inputs, or as many as the environment says. A failure names the seed.
fn each_seed(usual: u64, longest: u64, target: fn(&[u8])) {
    let inputs = std::env::var(INPUTS).ok().and_then(|n| n.parse().ok()).unwrap_or(usual);
    for seed in 0..inputs {
        let mut state = seed.wrapping_mul(0x1234_5678_9abc_def1) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let length = next() % longest;
        let bytes: Vec<u8> = (0..length).map(|_| (next() >> 24) as u8).collect();
        if let Err(panic) = std::panic::catch_unwind(|| target(&bytes)) {
            eprintln!("this was seed {seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn requests_never_panic_nor_exceed_their_budgets() {
    each_seed(1500, 600, requests::run);
}
