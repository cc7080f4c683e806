use std::sync::Arc;

use super::words::{Content, LEADER, Nothing, Types};
use crate::base::crypto::Check;
use crate::base::membership::Committee;
use crate::base::types::{Digest, ReplicaId};
use crate::ledger::block::{Block, BlockId, SharedBlock};
use crate::protocols::protocol::{Malformed, Shown, Verifier};

/// Believes everything.
#[derive(Clone, Debug)]
pub struct Believer(pub Committee);

impl Verifier for Believer {
    type Types = Types;

    fn committee(&self) -> &Committee {
        &self.0
    }

    fn genesis(&self) -> SharedBlock<Content> {
        Arc::new(Block::new(Content::genesis(&self.0)))
    }

    fn claim_evidence(&self, _: &BlockId, _: &Nothing) -> Result<Vec<Check>, Malformed> {
        Ok(Vec::new())
    }

    fn attested_root(shown: &Shown<Types>) -> Digest {
        shown.block.state_root
    }

    fn proposer(&self, _: &SharedBlock<Content>) -> Option<ReplicaId> {
        Some(LEADER)
    }

    fn claim_block(&self, _: &SharedBlock<Content>) -> Result<Vec<Check>, Malformed> {
        Ok(Vec::new())
    }
}
