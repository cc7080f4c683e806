//! How probable it is that Snowflake and Snowball fail, and how long they take.
//!
//! The chain (white paper, section 2 and appendix A): of n nodes b are faulty and c correct, r of
//! the latter red. One correct node at a time, drawn, polls k of all. T(u) is the probability that
//! a sample has at least α of u nodes. Faulty nodes say whatever hurts: they are for red when a
//! node is about to decide red, and against it when another one polls.
//!
//! ```text
//! up(r) = (c − r)/c · T(r)    down(r) = r/c · T(c − r + b)    ρ = down / up
//! D(r) = T(r + b)^β            a node decides red here
//! ξ(r) = Σ_{i ≥ r} Π ρ / Σ_{i ≥ c/2} Π ρ        red loses its majority from here
//! ε = max D(r) · ξ(r)
//! ```
//!
//! ε **bounds** the probability for one decision. A simulation of this chain lies on the bound,
//! runs of the protocol lie at or below it. All is computed with logarithms: ε may be 10⁻¹⁰².

use super::parameters::Parameters;

/// A network as the chain sees it.
#[derive(Clone, Debug)]
pub struct Chain {
    nodes: u32,
    correct: u32,
    numbers: Parameters,
    /// ln i! by i.
    factorials: Vec<f64>,
}

/// The bound, and where it is attained.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Failure {
    /// log₁₀ ε, at most 0.
    pub log10: f64,
    /// The number of red correct nodes with the largest D · ξ.
    pub red: u32,
    /// ln D there.
    pub ln_decision: f64,
    /// ln ξ there.
    pub ln_return: f64,
}

impl Chain {
    /// The chain of `nodes`, `faulty` of them.
    #[must_use]
    pub fn new(nodes: u32, faulty: u32, numbers: Parameters) -> Self {
        let mut factorials = vec![0.0; nodes as usize + 1];
        for i in 1..factorials.len() {
            factorials[i] = factorials[i - 1] + (i as f64).ln();
        }
        Self { nodes, correct: nodes - faulty.min(nodes), numbers, factorials }
    }

    /// The correct nodes.
    #[must_use]
    pub fn correct(&self) -> u32 {
        self.correct
    }

    /// The faulty nodes.
    #[must_use]
    pub fn faulty(&self) -> u32 {
        self.nodes - self.correct
    }

    fn ln_choose(&self, of: u32, take: u32) -> f64 {
        if take > of {
            return f64::NEG_INFINITY;
        }
        let ln = |i: u32| self.factorials[i as usize];
        ln(of) - ln(take) - ln(of - take)
    }

    /// ln T(u): of `red` nodes at least α are in a sample.
    #[must_use]
    pub fn ln_success(&self, red: u32) -> f64 {
        let Parameters { sample, quorum, .. } = self.numbers;
        let (red, all) = (red.min(self.nodes), self.ln_choose(self.nodes, sample));
        let term = |seats: u32| {
            self.ln_choose(red, seats) + self.ln_choose(self.nodes - red, sample - seats) - all
        };
        let above = ln_sum((quorum..=sample).map(term));
        // Near one, the sum of the others is exact.
        if above < -0.5 { above } else { ln_one_minus(ln_sum((0..quorum).map(term))) }
    }

    /// ln ρ(r).
    #[must_use]
    pub fn ln_ratio(&self, red: u32) -> f64 {
        let blue = self.correct - red;
        let down = f64::from(red).ln() + self.ln_success(blue + self.faulty());
        let up = f64::from(blue).ln() + self.ln_success(red);
        down - up
    }

    /// The probabilities that a step goes up and down.
    #[must_use]
    pub fn steps(&self, red: u32) -> (f64, f64) {
        let (correct, blue) = (f64::from(self.correct), self.correct - red);
        let up = f64::from(blue) / correct * self.ln_success(red).exp();
        let down = f64::from(red) / correct * self.ln_success(blue + self.faulty()).exp();
        (up, down)
    }

    /// The bound ε on the probability that two correct nodes decide differently.
    #[must_use]
    pub fn failure(&self) -> Failure {
        let half = self.correct / 2;
        // ln of Π ρ from half + 1 to i, and of its sums from i on.
        let mut products = vec![0.0];
        for red in half + 1..self.correct {
            products.push(products[products.len() - 1] + self.ln_ratio(red));
        }
        let mut sums = products.clone();
        for at in (0..sums.len().saturating_sub(1)).rev() {
            sums[at] = ln_add(sums[at], sums[at + 1]);
        }
        let mut worst =
            Failure { log10: f64::NEG_INFINITY, red: half, ln_decision: 0., ln_return: 0. };
        for (red, sum) in (half..).zip(&sums) {
            let ln_decision =
                f64::from(self.numbers.decision) * self.ln_success(red + self.faulty());
            let ln_return = sum - sums[0];
            let log10 = ((ln_decision + ln_return) / std::f64::consts::LN_10).min(0.0);
            if log10 > worst.log10 {
                worst = Failure { log10, red, ln_decision, ln_return };
            }
        }
        worst
    }

    /// How many polls each correct node makes on average until all prefer one colour, from a
    /// balanced beginning, and then β more. Faulty nodes work against it all the time; then it may
    /// be astronomical.
    #[must_use]
    pub fn expected_rounds(&self) -> f64 {
        let half = self.correct.div_ceil(2);
        let mut steps = 0.0;
        // The mean time from r to r + 1; in the middle both directions lead away.
        let mut time = 0.0;
        for red in half..self.correct {
            let (up, down) = self.steps(red);
            time = if red == half { 1.0 / (up + down) } else { (1.0 + down * time) / up };
            steps += time;
        }
        steps / f64::from(self.correct.max(1)) + f64::from(self.numbers.decision)
    }
}

/// log₁₀ of the probability that a Bitcoin payment with so many blocks on it is undone by miners
/// with this share (Nakamoto, *Bitcoin*, 2008, section 11).
#[must_use]
pub fn bitcoin_log10(share: f64, blocks: u32) -> f64 {
    if share <= 0.0 {
        return f64::NEG_INFINITY;
    }
    if share >= 0.5 {
        return 0.0;
    }
    let ratio = share / (1.0 - share);
    let mean = f64::from(blocks) * ratio;
    let (mut poisson, mut caught) = ((-mean).exp(), 1.0);
    for found in 0..=blocks {
        if found > 0 {
            poisson *= mean / f64::from(found);
        }
        caught -= poisson * (1.0 - ratio.powi((blocks - found) as i32));
    }
    caught.log10()
}

/// ln(eᵃ + eᵇ).
fn ln_add(a: f64, b: f64) -> f64 {
    let (high, low) = if a > b { (a, b) } else { (b, a) };
    if high == f64::NEG_INFINITY { high } else { high + (low - high).exp().ln_1p() }
}

fn ln_sum(terms: impl Iterator<Item = f64>) -> f64 {
    terms.fold(f64::NEG_INFINITY, ln_add)
}

/// ln(1 − eᵃ).
fn ln_one_minus(a: f64) -> f64 {
    (-a.exp()).ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARES: [u32; 6] = [10, 20, 24, 28, 30, 34];

    fn failure(alpha: u32, percent: u32) -> f64 {
        let numbers = Parameters { sample: 10, quorum: alpha, early: 11, decision: 150 };
        Chain::new(2000, 20 * percent, numbers).failure().log10
    }

    #[test]
    fn the_bound_is_that_of_the_published_curves() {
        for (alpha, expected) in
            [(7, [-52., -18., -9.6, -3.7, -1.7, 0.]), (8, [-102., -48., -32., -18., -12., -3.6])]
        {
            for (percent, expected) in SHARES.into_iter().zip(expected) {
                let found = failure(alpha, percent);
                println!("alpha {alpha}, {percent} %: {found:.2}");
                // Expected values have as many digits as are given.
                let slack = if expected < -10.0 { 0.5 } else { 0.051 };
                assert!((found - expected).abs() <= slack, "{alpha} {percent}: {found}");
            }
        }
    }

    #[test]
    fn single_polls_have_the_published_probability() {
        let chain = Chain::new(2000, 0, Parameters::LATER_PRACTICE);
        assert!((chain.ln_success(1000).exp() - 0.0202).abs() < 5e-5);
        assert!(chain.ln_success(2000).abs() < 1e-12 && chain.ln_success(10).exp() == 0.0);
    }

    #[test]
    fn bitcoins_curve_is_that_of_its_paper() {
        // Nakamoto, section 11: q = 0.1, z = 6: 0.0002428; q = 0.3, z = 5: 0.1773523.
        assert!((10_f64.powf(bitcoin_log10(0.1, 6)) - 0.000_242_8).abs() < 1e-7);
        assert!((10_f64.powf(bitcoin_log10(0.3, 5)) - 0.177_352_3).abs() < 1e-6);
    }

    #[test]
    fn rounds_grow_with_the_logarithm_of_the_number_of_nodes() {
        let rounds = |nodes| {
            Chain::new(nodes, 0, Parameters { decision: 1, early: 1, ..Parameters::PAPER })
                .expected_rounds()
        };
        let found = [200, 2000, 20_000, 200_000].map(rounds);
        println!("{found:?}");
        let gains: Vec<f64> = found.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gains.windows(2).all(|pair| (pair[1] / pair[0] - 1.0).abs() < 0.5), "{gains:?}");
    }
}
