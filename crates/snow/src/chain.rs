//! A simulation of the chain that the analysis computes: what keeps both honest.
//!
//! A return of ten to the minus fifty is never seen by trying. The walk is drawn with the
//! probabilities of up and down exchanged, so that it wants to return, and each walk counts with
//! the product of true over drawn probabilities (importance sampling). The decision factor D is not
//! drawn: it is β independent polls.

use quorate_core::protocols::snow::analysis::{Chain, Failure};
use quorate_core::protocols::snow::random::Random;

/// An estimate of log₁₀ ε.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The estimate.
    pub log10: f64,
    /// Its relative standard error.
    pub error: f64,
    /// Walks that returned, of all.
    pub returned: u32,
    /// All walks.
    pub walks: u32,
}

/// Walks the chain from where the bound is attained, until red has lost its majority or has all.
#[must_use]
pub fn simulate(chain: &Chain, bound: &Failure, walks: u32, seed: u64) -> Estimate {
    let (half, end) = (chain.correct() / 2, chain.correct());
    let ratios: Vec<f64> = (half..end).map(|red| chain.ln_ratio(red)).collect();
    let mut random = Random::new(seed);
    let (mut logs, mut returned) = (Vec::new(), 0);
    for _ in 0..walks {
        let (mut red, mut weight) = (bound.red, 0.0);
        while red > half && red < end {
            let ratio = ratios[(red - half) as usize];
            // True: down with ρ / (1 + ρ). Drawn: the more probable of both is down.
            let drawn = 1.0 / (1.0 + (-ratio.abs()).exp());
            let down = random.unit() < drawn;
            let truth = if down { 1.0 / (1.0 + (-ratio).exp()) } else { 1.0 / (1.0 + ratio.exp()) };
            weight += truth.ln() - if down { drawn.ln() } else { (1.0 - drawn).ln() };
            red = if down { red - 1 } else { red + 1 };
        }
        if red <= half {
            returned += 1;
            logs.push(weight);
        }
    }
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (mut sum, mut squares) = (0.0, 0.0);
    for log in &logs {
        let share = (log - most).exp();
        sum += share;
        squares += share * share;
    }
    let walked = f64::from(walks.max(1));
    let mean = sum / walked;
    let variance = (squares / walked - mean * mean).max(0.0);
    let log10 = (bound.ln_decision + most + mean.ln()) / std::f64::consts::LN_10;
    Estimate { log10, error: (variance / walked).sqrt() / mean, returned, walks }
}

/// Tries a decision so often as it would happen: β polls where the bound is attained, and, if all
/// of them succeed, a walk with the chain's own probabilities. How many tries failed; none if the
/// walks would take more steps than this. Many faulty nodes hold a walk far from either end.
#[must_use]
pub fn simulate_plainly(
    chain: &Chain,
    bound: &Failure,
    tries: u64,
    most_steps: u64,
    seed: u64,
) -> Option<u64> {
    let (half, end) = (chain.correct() / 2, chain.correct());
    let down: Vec<f64> =
        (half..end).map(|red| 1.0 / (1.0 + (-chain.ln_ratio(red)).exp())).collect();
    let decides = bound.ln_decision.exp();
    let mut random = Random::new(seed);
    let (mut failed, mut steps) = (0, 0);
    for _ in 0..tries {
        if random.unit() >= decides {
            continue;
        }
        let mut red = bound.red;
        while red > half && red < end {
            steps += 1;
            if steps > most_steps {
                return None;
            }
            let falls = random.unit() < down[(red - half) as usize];
            red = if falls { red - 1 } else { red + 1 };
        }
        failed += u64::from(red <= half);
    }
    Some(failed)
}

#[cfg(test)]
mod tests {
    use quorate_core::protocols::snow::parameters::Parameters;

    use super::*;

    #[test]
    fn what_is_tried_plainly_fails_as_often_as_computed() {
        let chain = Chain::new(2000, 560, Parameters { quorum: 7, ..Parameters::PAPER });
        let bound = chain.failure();
        let tries = 100_000;
        let failed = simulate_plainly(&chain, &bound, tries, 1 << 32, 3).unwrap() as f64;
        let expected = tries as f64 * 10_f64.powf(bound.log10);
        assert!((failed - expected).abs() < 4.0 * expected.sqrt(), "{failed} of {expected}");
    }

    #[test]
    fn walks_without_end_are_given_up() {
        let chain = Chain::new(2000, 720, Parameters { quorum: 7, ..Parameters::PAPER });
        let bound = chain.failure();
        assert_eq!(simulate_plainly(&chain, &bound, 1_000, 1 << 20, 3), None);
    }

    #[test]
    fn the_walk_lies_on_the_curve() {
        for (quorum, faulty) in [(7, 400), (8, 200), (8, 600), (7, 600)] {
            let chain = Chain::new(2000, faulty, Parameters { quorum, ..Parameters::PAPER });
            let bound = chain.failure();
            let found = simulate(&chain, &bound, 2_000, 1);
            println!("{quorum} {faulty}: {bound:?} {found:?}");
            assert!((found.log10 - bound.log10).abs() < 0.1, "{bound:?} {found:?}");
        }
    }
}
