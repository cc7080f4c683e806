//! Who leads a view, and who collects votes.
//!
//! Leaders are elected from the committed prefix of the chain that a proposal extends, so that the
//! proposal itself says who may make it: whatever else a replica has committed, it comes to the
//! same leader for the same chain. Before there is a proposal, the chain of the high QC is taken.

use super::HotStuff;
use crate::block::BlockId;
use crate::certificate::{Ballot, Qc};
use crate::types::{ReplicaId, View};

impl HotStuff {
    /// The leader of `view`, as far as this replica can tell now.
    pub(super) fn leader(&self, view: View) -> ReplicaId {
        self.leader_behind(&self.safety.high_qc, view)
    }

    /// The leader of `view` if it extends the block of `qc`.
    pub(super) fn leader_behind(&self, qc: &Qc, view: View) -> ReplicaId {
        let _ = qc;
        self.settings.election.leader(view, self.domain.committee().size())
    }

    /// The leader of the view after that of `ballot`, if its votes make a certificate.
    fn leader_after(&self, ballot: Ballot) -> ReplicaId {
        self.leader_behind(&Qc::supposed(ballot), ballot.view.next())
    }

    /// Whether `proposer` leads `view` in the chain that ends with the block of `justify`. Unknown
    /// (`None`) while that block is missing.
    pub(super) fn leads(&self, proposer: ReplicaId, view: View, justify: &Qc) -> Option<bool> {
        Some(self.leader_behind(justify, view) == proposer)
    }

    /// Who collects the votes of `ballot`; `None`: everybody.
    pub(super) fn collector(&self, ballot: &Ballot) -> Option<ReplicaId> {
        if self.settings.broadcast_votes {
            return None;
        }
        Some(if self.facts.phases > 1 {
            let proposer = |id: &BlockId| self.tree.get(id).map(|block| block.proposer);
            proposer(&ballot.block).unwrap_or_else(|| self.leader(ballot.view))
        } else {
            self.leader_after(*ballot)
        })
    }

    /// Whether this replica is to lead the view after that of `ballot`.
    pub(super) fn leads_after(&self, ballot: Ballot) -> bool {
        self.leader_after(ballot) == self.me
    }
}
