//! What a quorum certificate proves to those who run no replica.
//!
//! # A state
//! A block carries the root of an ancestor's state. A correct replica gives its first vote to a
//! block only if it computed that root itself, by executing the blocks that it saw committed up to
//! that height; a replica that has not come so far waits, and does not vote (`voting.rs`). A vote
//! of a later phase rests on a certificate of first votes. So a certificate of the block has
//! q − f ≥ 1 correct replicas that stand for: *the blocks up to this height are committed, and this
//! is the root of the state behind them*. **Certified is enough, committed need not be**: whether
//! the block that carries the root is committed or given up changes nothing about that.
//!
//! # What is newest
//! Let a block at height h be committed before q replicas are asked for their newest certified
//! block. q replicas voted for a block that extends it with its certificate in hand (or again for
//! it, on that certificate). One correct replica of them is among the q that answer. The highest
//! certificate that it knows since is for a block not below h: no block that conflicts with a
//! committed one gets a certificate.
//!
//! # That blocks are decided
//! A block is committed when it is the head of a chain as long as the rules ask for
//! ([`Facts::chain_length`]): each the parent of the next, of consecutive views, all with a
//! certificate of the last phase. A block's certificate is the justify of the block behind it, so
//! the blocks behind prove it, and with it all below it.

use std::sync::Arc;

use super::Types;
use super::block::{Block, FullBlock, Header, SharedBlock};
use super::certificate::{Domain, Qc};
use super::rules::Facts;
use crate::base::crypto::Check;
use crate::base::membership::Committee;
use crate::base::types::{Digest, ReplicaId};
use crate::ledger::block::BlockId;
use crate::protocols::protocol::{self, Malformed, Shown};

/// What certificates of one chain are checked by.
#[derive(Clone, Debug)]
pub struct Verifier {
    domain: Domain,
    facts: &'static Facts,
    genesis: SharedBlock,
}

impl Verifier {
    /// Of the chain that `domain`'s committee runs under the rules with these constants.
    #[must_use]
    pub fn new(domain: Domain, facts: &'static Facts) -> Self {
        let committee = domain.committee();
        let genesis = Arc::new(Block::opening(committee.epoch(), committee.opening()));
        Self { domain, facts, genesis }
    }
}

impl protocol::Verifier for Verifier {
    type Types = Types;

    fn committee(&self) -> &Committee {
        self.domain.committee()
    }

    fn genesis(&self) -> SharedBlock {
        Arc::clone(&self.genesis)
    }

    fn claim_evidence(&self, block: &BlockId, evidence: &Qc) -> Result<Vec<Check>, Malformed> {
        if evidence.block() != *block {
            return Err(Malformed::Contradiction);
        }
        evidence.checks(&self.domain, &self.genesis.id())
    }

    fn attested_root(shown: &Shown<Types>) -> Digest {
        shown.block.state_root
    }

    fn proposer(&self, block: &SharedBlock) -> Option<ReplicaId> {
        Some(block.proposer)
    }

    fn claim_block(&self, block: &SharedBlock) -> Result<Vec<Check>, Malformed> {
        if block.epoch != self.domain.committee().epoch() {
            return Err(Malformed::WrongEpoch);
        }
        if block.justify.view() >= block.view {
            return Err(Malformed::Contradiction);
        }
        block.justify.checks(&self.domain, &self.genesis.id())
    }

    /// The genesis block's certificate is true by definition, and of no view that counts.
    fn may_follow(&self, parent: &Header, block: &SharedBlock) -> bool {
        block.justify.view() == parent.view || parent.id() == self.genesis.id()
    }

    fn carried_root(&self, block: &SharedBlock) -> Option<Digest> {
        Some(block.state_root)
    }

    fn decided(&self, blocks: &[FullBlock]) -> usize {
        let depth = self.facts.chain_length as usize;
        let is_head = |at: &usize| {
            // The block behind the chain carries the last of its certificates.
            let Some(carriers) = blocks.get(*at + 1..=*at + depth) else { return false };
            let Some(chain) = blocks.get(*at..*at + depth) else { return false };
            let is_last_phase = |full: &FullBlock| full.block.justify.phase() == self.facts.phases;
            let is_next = |pair: &[FullBlock]| match pair {
                [one, next] => one.block.view.next() == next.block.view,
                _ => false,
            };
            carriers.iter().all(is_last_phase) && chain.windows(2).all(is_next)
        };
        (0..blocks.len()).rev().find(is_head).map_or(0, |head| head + 1)
    }
}
