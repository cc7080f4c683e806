//! What a stable checkpoint proves to those who run no replica.
//!
//! q replicas signed the checkpoint, so f + 1 correct ones came to its state. They committed its
//! block and, with it, the blocks below: a block names its parent. So a block that carries a
//! checkpoint decides the chain below it up to the checkpoint's block.

use std::sync::Arc;

use super::domain::Domain;
use super::words::{Content, Types};
use crate::base::crypto::Check;
use crate::base::membership::Committee;
use crate::base::types::{Digest, ReplicaId};
use crate::ledger::block::{Block, BlockId, SharedBlock};
use crate::protocols::checkpoint::{Checkpoint, Stable};
use crate::protocols::protocol::{FullBlockOf, Malformed, Shown, Verifier};

impl Verifier for Domain {
    type Types = Types;

    /// q replicas signed the state behind the block.
    const EVIDENCE_DECIDES: bool = true;

    fn committee(&self) -> &Committee {
        Domain::committee(self)
    }

    fn genesis(&self) -> SharedBlock<Content> {
        Arc::new(Block::new(Content::genesis(Domain::committee(self))))
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
        Some(self.primary(block.view))
    }

    fn claim_block(&self, block: &SharedBlock<Content>) -> Result<Vec<Check>, Malformed> {
        if block.epoch != Domain::committee(self).epoch() {
            return Err(Malformed::WrongEpoch);
        }
        match &block.stable {
            Some(stable) if stable.checkpoint.height >= block.height => {
                Err(Malformed::Contradiction)
            }
            Some(stable) => self.stable(stable),
            None => Ok(Vec::new()),
        }
    }

    fn decided(&self, blocks: &[FullBlockOf<Types>]) -> usize {
        let stable = blocks.iter().rev().filter_map(|full| full.block.stable.as_ref());
        let place = |stable: &Stable| {
            blocks.iter().position(|full| full.block.id() == stable.checkpoint.block)
        };
        stable.filter_map(place).max().map_or(0, |head| head + 1)
    }
}
