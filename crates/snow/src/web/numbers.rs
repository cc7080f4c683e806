//! The exact analysis, for the page's curve.

use quorate_core::protocols::snow::analysis::{Chain, bitcoin_log10};
use quorate_core::protocols::snow::parameters::Parameters;

use super::MAX_NODES;

fn chain(nodes: u32, faulty: u32, k: u32, alpha: u32, beta: u32) -> Option<Chain> {
    let numbers = Parameters { sample: k, quorum: alpha, early: 1, decision: beta };
    let fits = (2..=MAX_NODES).contains(&nodes) && k <= nodes && faulty < nodes;
    (fits && numbers.checked().is_ok()).then(|| Chain::new(nodes, faulty, numbers))
}

/// log₁₀ of the bound on the probability of two different decisions; NaN for numbers that cannot be
/// used.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn failure(nodes: u32, faulty: u32, k: u32, alpha: u32, beta: u32) -> f64 {
    chain(nodes, faulty, k, alpha, beta).map_or(f64::NAN, |chain| chain.failure().log10)
}

/// Polls that a node needs on average without faulty nodes; NaN for numbers that cannot be used.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn expected_polls(nodes: u32, k: u32, alpha: u32, beta: u32) -> f64 {
    chain(nodes, 0, k, alpha, beta).map_or(f64::NAN, |chain| chain.expected_rounds())
}

/// log₁₀ of the probability that a Bitcoin payment with six blocks on it is undone by miners with
/// this share.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn bitcoin(share: f64) -> f64 {
    bitcoin_log10(share.clamp(0.0, 1.0), 6)
}
