//! Rules that are wrong, to see that the model finds what they break.

use quorate_core::protocols::two_delay::choice::Counts;

/// What correct replicas do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// What production does.
    Right,
    /// A block is committed by one first vote too few (for n = 7 that is n − f).
    FastTooEarly,
    /// The vote of a leader that signed two blocks counts against blocks like any other.
    LiarCounts,
    /// Beside a leader that signed two blocks, f votes are enough against a block.
    TooFewAgainst,
    /// A view may be given up whatever may have been committed in it.
    GivesUpFreely,
    /// A block may be on any certified block.
    Unjustified,
    /// A fallback vote may be for any block.
    FallsBackFreely,
    /// A second vote is cast whatever this replica said before.
    SecondAnyway,
    /// Time-outs name no certificate.
    HidesCertificate,
}

impl Rule {
    /// All wrong ones.
    pub const MUTANTS: [Self; 8] = [
        Self::FastTooEarly,
        Self::LiarCounts,
        Self::TooFewAgainst,
        Self::GivesUpFreely,
        Self::Unjustified,
        Self::FallsBackFreely,
        Self::SecondAnyway,
        Self::HidesCertificate,
    ];

    /// What it does, in words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Right => "is right",
            Self::FastTooEarly => "commits by one first vote too few",
            Self::LiarCounts => "counts the vote of a leader that signed two blocks",
            Self::TooFewAgainst => "takes f votes against a block for enough",
            Self::GivesUpFreely => "gives up freely",
            Self::Unjustified => "asks for no justification",
            Self::FallsBackFreely => "falls back freely",
            Self::SecondAnyway => "says a second vote anyway",
            Self::HidesCertificate => "hides its certificate in time-outs",
        }
    }

    /// Its counts, where the right ones are these.
    #[must_use]
    pub fn counts(self, right: Counts) -> Counts {
        match self {
            Self::FastTooEarly => Counts { fast: right.fast - 1, ..right },
            Self::LiarCounts => Counts { against: right.against_beside_liar, ..right },
            Self::TooFewAgainst => {
                Counts { against_beside_liar: right.against_beside_liar - 1, ..right }
            }
            _ => right,
        }
    }
}
