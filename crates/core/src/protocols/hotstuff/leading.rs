//! Who leads a view, and who collects votes.
//!
//! Leaders are elected from the committed prefix of the chain that a proposal extends, so that the
//! proposal itself says who may make it: whatever else a replica has committed, it comes to the
//! same leader for the same chain. Before there is a proposal, the chain of the high QC is taken.

use super::HotStuff;
use crate::base::types::{Height, ReplicaId, View};
use crate::protocols::hotstuff::certificate::Qc;
use crate::protocols::hotstuff::leader::History;
use crate::protocols::protocol::Ballot;

impl HotStuff {
    /// The leader of `view`, as far as this replica can tell now: behind the certificate that is to
    /// be extended in it, which may be another one than the high QC.
    pub(super) fn leader(&self, view: View) -> ReplicaId {
        let high_qc = &self.safety.high_qc;
        if !self.settings.election.needs_signers() {
            return self.leader_behind(high_qc, view);
        }
        let tc = self.tc_to_enter(view, high_qc);
        self.leader_behind(&self.settings.rules.justify(high_qc, tc.as_ref()), view)
    }

    /// The leader of `view` if it extends the block of `qc`.
    pub(super) fn leader_behind(&self, qc: &Qc, view: View) -> ReplicaId {
        let (election, committee) = (self.settings.election, self.domain.committee());
        if !election.needs_signers() {
            return election.without_history(view, committee);
        }
        self.elections.leader(qc, view).unwrap_or_else(|| self.elect(qc, view))
    }

    /// Holds the election of `view` behind `qc` now, and keeps what came of it: that is asked again
    /// and again in a view, and looks through more than a hundred blocks.
    pub(super) fn hold_election(&mut self, qc: &Qc, view: View) {
        // Without the block, more may be known later.
        if !self.settings.election.needs_signers()
            || self.elections.leader(qc, view).is_some()
            || self.tree.get(&qc.block()).is_none()
        {
            return;
        }
        let leader = self.elect(qc, view);
        self.elections.keep(qc, view, leader);
    }

    fn elect(&self, qc: &Qc, view: View) -> ReplicaId {
        let (election, committee) = (self.settings.election, self.domain.committee());
        let head = qc.block();
        let shown = self.shown_by(qc);
        let committed = mutant!("leader-from-own-commits", self.tree.root().height, shown);
        let history = History { tree: &self.tree, head: &head, committed };
        election.leader(view, committee, self.facts().chain_length, &history)
    }

    /// Up to which height the chain of `qc` is committed by the certificates in it and `qc`.
    pub(super) fn shown_by(&self, qc: &Qc) -> Height {
        let inside = self.tree.committed_by(&qc.block()).unwrap_or_default();
        let head = self.settings.rules.on_qc(&self.tree, qc).commit;
        let own = head.and_then(|id| self.tree.find(&id)).map(|block| block.height);
        own.unwrap_or_default().max(inside)
    }

    /// The leader of the view after that of `ballot`, if its votes make a certificate.
    fn leader_after(&self, ballot: Ballot) -> ReplicaId {
        self.leader_behind(&Qc::supposed(ballot), ballot.view.next())
    }

    /// Whether `proposer` leads `view` in the chain that ends with the block of `justify`. Unknown
    /// (`None`) while that block is missing.
    pub(super) fn leads(&self, proposer: ReplicaId, view: View, justify: &Qc) -> Option<bool> {
        let known = !self.settings.election.needs_signers()
            || self.tree.committed_by(&justify.block()).is_some();
        known.then(|| self.leader_behind(justify, view) == proposer)
    }

    /// Whether votes go to the leader of the next view.
    pub(super) fn collects_next(&self) -> bool {
        self.facts().phases == 1 && !self.settings.broadcast_votes
    }

    /// Who collects the votes of `ballot`; `None`: everybody.
    pub(super) fn collector(&self, ballot: &Ballot) -> Option<ReplicaId> {
        if self.settings.broadcast_votes {
            return None;
        }
        Some(if self.facts().phases > 1 {
            self.proposer_of(ballot)
        } else {
            mutant!("votes-to-current-leader", self.leader(ballot.view), self.leader_after(*ballot))
        })
    }

    /// Who made the block of `ballot`, as far as this replica can tell.
    pub(super) fn proposer_of(&self, ballot: &Ballot) -> ReplicaId {
        let block = self.tree.get(&ballot.block);
        block.map_or_else(|| self.leader(ballot.view), |block| block.proposer)
    }

    /// Whether this replica is to lead the view after that of `ballot`.
    pub(super) fn leads_after(&self, ballot: Ballot) -> bool {
        self.leader_after(ballot) == self.me
    }
}
