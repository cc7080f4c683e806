//! How large samples are, and how much agreement suffices.

/// The numbers of a Snow protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// k: the seats of a sample.
    pub sample: u32,
    /// α: the seats that make a poll successful, above half of the sample.
    pub quorum: u32,
    /// β₁: successful polls in a row that accept what has no conflict. Avalanche alone has it.
    pub early: u32,
    /// β₂ (β elsewhere): successful polls in a row that accept anything.
    pub decision: u32,
}

/// Why parameters cannot be used. The text says what to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// k is zero, or above the bound.
    #[error("k is {0}: sample 1 to {max} peers", max = Parameters::MAX_SAMPLE)]
    Sample(u32),
    /// α is not above half of k, or above k.
    #[error("alpha is {quorum} with k = {sample}: choose it above k / 2 and at most k")]
    Quorum {
        /// α.
        quorum: u32,
        /// k.
        sample: u32,
    },
    /// A β of zero, or β₁ above β₂.
    #[error("beta1 is {early} and beta2 is {decision}: choose 1 <= beta1 <= beta2")]
    Decision {
        /// β₁.
        early: u32,
        /// β₂.
        decision: u32,
    },
    /// Fewer seats besides the own ones than a sample needs.
    #[error("k is {sample}, but the others hold {seats} units of stake: lower k or add peers")]
    TooFew {
        /// k.
        sample: u32,
        /// The seats of all others.
        seats: u64,
    },
    /// More nodes than an identity can name, or a stake beyond 2⁶³ in sum.
    #[error(
        "the stakes sum to more than 2^63, or there are more than 65536 nodes: scale them down"
    )]
    TooMuch,
    /// The node is not in the list of stakes.
    #[error("this node is number {me}, but {nodes} are listed: list the stake of every node")]
    NotListed {
        /// The node.
        me: u16,
        /// How many there are.
        nodes: usize,
    },
}

impl Parameters {
    /// The largest k.
    pub const MAX_SAMPLE: u32 = 255;

    /// Those of the white paper: k = 10, α = 8, β₁ = 11, β₂ = 150.
    pub const PAPER: Self = Self { sample: 10, quorum: 8, early: 11, decision: 150 };

    /// Those of AvalancheGo for Snowman: k = 20, α = 15, β = 20.
    pub const LATER_PRACTICE: Self = Self { sample: 20, quorum: 15, early: 20, decision: 20 };

    /// Those of Frosty's analysis: k = 80, α = 72, β = 12 (arXiv 2404.14250). α₁ = 41 is more than
    /// half of k, as everywhere here.
    pub const FROSTY: Self = Self { sample: 80, quorum: 72, early: 12, decision: 12 };

    /// These, if α is nine tenths of k at least, as in [`FROSTY`](Self::FROSTY); else those. With
    /// three quarters (15 of 20), β polls succeed by chance in one of 80 cases where four fifths of
    /// the seats name a block: with the liars', that is fewer correct replicas than the
    /// [fallback](super::snowman::frosty) counts on.
    #[must_use]
    pub const fn for_fallback(self) -> Self {
        if self.is_for_fallback() { self } else { Self::FROSTY }
    }

    /// Whether α is nine tenths of k at least.
    #[must_use]
    pub const fn is_for_fallback(&self) -> bool {
        10 * self.quorum >= 9 * self.sample
    }

    /// All that have a name.
    pub const NAMED: [(&str, Self); 2] =
        [("paper", Self::PAPER), ("later-practice", Self::LATER_PRACTICE)];

    /// Those of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMED.into_iter().find(|(known, _)| *known == name).map(|(_, found)| found)
    }

    /// These, if they make sense.
    ///
    /// # Errors
    /// [`Invalid`] says what to change.
    pub fn checked(self) -> Result<Self, Invalid> {
        let Self { sample, quorum, early, decision } = self;
        if sample == 0 || sample > Self::MAX_SAMPLE {
            return Err(Invalid::Sample(sample));
        }
        if quorum > sample || quorum * 2 <= sample {
            return Err(Invalid::Quorum { quorum, sample });
        }
        if early == 0 || early > decision {
            return Err(Invalid::Decision { early, decision });
        }
        Ok(self)
    }

    /// How much of the stake may be benched at most, in thousandths: (1 − α / k) / 2. A benched
    /// peer counts as one that did not answer.
    #[must_use]
    pub fn most_benched_permille(&self) -> u32 {
        (self.sample - self.quorum) * 500 / self.sample
    }
}
