//! What commits prove to those who run no replica.

use super::certificate::Commit;
use super::domain::Domain;
use super::words::{Content, Types};
use crate::base::crypto::Check;
use crate::base::membership::Committee;
use crate::base::types::{Digest, ReplicaId, View};
use crate::ledger::block::{BlockId, SharedBlock};
use crate::protocols::protocol::{Malformed, Shown, Verifier};

impl Verifier for Domain {
    type Types = Types;

    const EVIDENCE_DECIDES: bool = true;

    fn committee(&self) -> &Committee {
        Domain::committee(self)
    }

    fn genesis(&self) -> SharedBlock<Content> {
        Content::genesis(Domain::committee(self))
    }

    fn claim_evidence(&self, block: &BlockId, evidence: &Commit) -> Result<Vec<Check>, Malformed> {
        if evidence.block != *block {
            return Err(Malformed::Contradiction);
        }
        self.commit(evidence)
    }

    fn attested_root(shown: &Shown<Types>) -> Digest {
        shown.block.state_root
    }

    fn proposer(&self, block: &SharedBlock<Content>) -> Option<ReplicaId> {
        Some(self.leader(block.view))
    }

    /// A block is justified by its parent's QC, of the view before, or by that and a TC of the
    /// view before that names no later one.
    fn claim_block(&self, block: &SharedBlock<Content>) -> Result<Vec<Check>, Malformed> {
        let committee = Domain::committee(self);
        if block.epoch != committee.epoch() {
            return Err(Malformed::WrongEpoch);
        }
        if block.view == View(0) || block.height <= committee.opening().height {
            return Err(Malformed::Contradiction);
        }
        let justify = &block.justify;
        let mut checks = self.qc(justify)?;
        match &block.tc {
            None if justify.view.next() == block.view => {}
            Some(tc) if tc.view.next() == block.view && justify.view < tc.view => {
                checks.extend(self.tc(tc, justify)?);
            }
            _ => mutant!("two-delay-unjustified", {}, return Err(Malformed::Contradiction)),
        }
        Ok(checks)
    }
}
