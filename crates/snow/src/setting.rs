//! What the nodes are in: places, links, processors, liars.

use quorate_core::protocols::snow::parameters::Parameters;
use quorate_core::protocols::snow::random::Random;

/// Delays between places, and what a message costs.
#[derive(Clone, Debug)]
pub struct World {
    /// One-way delays in nanoseconds, from place i to place j. Node m is in place m modulo their
    /// number.
    pub delays: Vec<Vec<u64>>,
    /// Of a million messages so many are lost.
    pub lost_ppm: u64,
    /// Bytes a second on each node's link; zero: no limit.
    pub bandwidth: u64,
    /// What handling a message costs its receiver, in nanoseconds.
    pub message_ns: u64,
    /// What verifying a transaction costs whoever sees it first, in nanoseconds: an Ed25519
    /// signature in a batch, on one core.
    pub verify_ns: u64,
    /// How long a poll waits.
    pub timeout_ns: u64,
}

impl World {
    /// One place, with this delay between any two nodes.
    #[must_use]
    pub fn uniform(delay_ns: u64) -> Self {
        Self {
            delays: vec![vec![delay_ns]],
            lost_ppm: 0,
            bandwidth: 125_000_000,
            message_ns: 2_000,
            verify_ns: 30_000,
            timeout_ns: 2_000_000_000,
        }
    }

    /// The delay from one node to another.
    #[must_use]
    pub fn delay(&self, from: usize, to: usize) -> u64 {
        let places = self.delays.len();
        self.delays[from % places][to % places]
    }
}

/// What faulty nodes do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adversary {
    /// They say the opposite of what the asker prefers.
    Opposite,
    /// They see all, and are for the colour that fewer correct nodes have.
    Balance,
    /// They tell everybody that it is right, so that each side decides for itself.
    Split,
    /// They do not answer.
    Withhold,
    /// They answer as correct nodes do, just before the poll's time is over.
    Slow,
    /// One correct node talks to them alone; they tell it the opposite of what the majority has.
    Eclipse,
    /// Payments alone: rogue children of a payment under way reset its counters (Amores-Sesar,
    /// Cachin, Tedeschi, OPODIS 2022).
    Liveness,
}

impl Adversary {
    /// All, with their names.
    pub const ALL: [(&str, Self); 7] = [
        ("opposite", Self::Opposite),
        ("balance", Self::Balance),
        ("split", Self::Split),
        ("withhold", Self::Withhold),
        ("slow", Self::Slow),
        ("eclipse", Self::Eclipse),
        ("liveness", Self::Liveness),
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, one)| *one == self).map_or("", |(name, _)| name)
    }
}

/// How stake is spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stake {
    /// Everybody has the same.
    Equal,
    /// The node of rank i has 1 / i of the first one's, in a drawn order.
    Zipf,
}

/// Nodes.
#[derive(Clone, Debug)]
pub struct Setting {
    /// How many.
    pub nodes: usize,
    /// Of these, how many are faulty: the last ones.
    pub faulty: usize,
    /// What these do.
    pub adversary: Adversary,
    /// k, α, β.
    pub numbers: Parameters,
    /// Who has how much.
    pub stake: Stake,
    /// Where they are.
    pub world: World,
    /// Everything follows from it.
    pub seed: u64,
}

impl Setting {
    /// The stakes, by node.
    #[must_use]
    pub fn stakes(&self) -> Vec<u64> {
        if self.stake == Stake::Equal {
            return vec![1; self.nodes];
        }
        let mut stakes: Vec<u64> =
            (1..=self.nodes as u64).map(|rank| (1_000_000 / rank).max(1)).collect();
        let mut random = Random::new(self.seed ^ 0x57a4e);
        for at in (1..stakes.len()).rev() {
            stakes.swap(at, random.below(at as u64 + 1) as usize);
        }
        stakes
    }

    /// How many are correct.
    #[must_use]
    pub fn correct(&self) -> usize {
        self.nodes - self.faulty.min(self.nodes)
    }
}

/// The value at a share of sorted ones, 0.5 being the median; zero if there are none.
#[must_use]
pub fn quantile(sorted: &[u64], share: f64) -> u64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * share).round() as usize).copied().unwrap_or(0)
}
