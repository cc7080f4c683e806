//! What a stable checkpoint tells those who run no replica: one correct replica came to its state,
//! and accepted its block. No quorum did, so blocks prove to nobody that they are decided.

use super::domain::Domain;
use super::words::{Content, Types};
use crate::base::crypto::Check;
use crate::base::membership::Committee;
use crate::base::types::{Digest, ReplicaId};
use crate::ledger::block::{BlockId, SharedBlock};
use crate::protocols::checkpoint::{Checkpoint, Stable};
use crate::protocols::protocol::{Malformed, Shown, Verifier};

impl Verifier for Domain {
    type Types = Types;

    fn committee(&self) -> &Committee {
        Domain::committee(self)
    }

    fn genesis(&self) -> SharedBlock<Content> {
        Content::genesis(Domain::committee(self))
    }

    fn claim_evidence(&self, block: &BlockId, evidence: &Stable) -> Result<Vec<Check>, Malformed> {
        if evidence.checkpoint.block != *block {
            return Err(Malformed::Contradiction);
        }
        self.stable(evidence)
    }

    fn attested_root(shown: &Shown<Types>) -> Digest {
        let Checkpoint { root, .. } = shown.evidence.checkpoint;
        root
    }

    fn proposer(&self, block: &SharedBlock<Content>) -> Option<ReplicaId> {
        Some(block.proposer)
    }

    fn claim_block(&self, block: &SharedBlock<Content>) -> Result<Vec<Check>, Malformed> {
        self.block(block)
    }
}
