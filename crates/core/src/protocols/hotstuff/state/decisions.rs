//! What is known to be committed, and the chain does not show yet.

use crate::base::types::{Height, View};
use crate::ledger::block::BlockId;
use crate::protocols::hotstuff::certificate::Qc;
use crate::protocols::protocol::Ballot;

/// Commits that the chain of the high QC need not show. None of this is in the safety record:
/// nothing rests on it, and the chain will say the same in the end.
#[derive(Clone, Debug)]
pub struct Decisions {
    /// The highest certificate that commits its block by itself. Later blocks need not show it, if
    /// their leaders did not have it. If its block is missing, it commits it as soon as it comes.
    certificate: Option<Qc>,
    /// The last ballot with q second votes, which nobody can show to others.
    told: Option<Ballot>,
    /// Where the snapshot stood that was taken over last: what the chain up to there shows to be
    /// committed is not known here.
    pub installed: Height,
}

impl Decisions {
    pub fn none() -> Self {
        Self { certificate: None, told: None, installed: Height(0) }
    }

    /// Takes in a certificate that commits its block by itself.
    pub fn certify(&mut self, qc: &Qc) {
        if self.certificate.as_ref().is_none_or(|known| known.view() < qc.view()) {
            self.certificate = Some(qc.clone());
        }
    }

    /// The highest certificate that commits its block by itself.
    pub fn certificate(&self) -> Option<&Qc> {
        self.certificate.as_ref()
    }

    /// q second votes for a ballot were heard.
    pub fn tell(&mut self, ballot: Ballot) {
        self.told = Some(ballot);
    }

    /// The view of the last block for which q second votes were heard.
    pub fn told_view(&self) -> View {
        self.told.map(|told| told.view).unwrap_or_default()
    }

    /// Whether the last q second votes were for this block.
    pub fn is_told(&self, block: &BlockId) -> bool {
        self.told.is_some_and(|told| told.block == *block)
    }
}
