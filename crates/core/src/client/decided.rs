//! Decided blocks, for executors that take the order from replicas and believe none of them.
//!
//! A replica sends blocks ([`Response::Blocks`](super::message::Response::Blocks)); whether they
//! are decided is proven by the blocks themselves. A block is committed when it is the head of a chain
//! as long as the protocol's rules ask for ([`Facts::chain_length`]): each the parent of the next,
//! of consecutive views, all with a quorum certificate of the last phase. The certificate of a block
//! is the justify of the block behind it, so that the blocks behind prove it, and with it all below
//! it. The newest blocks of an answer are proven by what follows, and held back until then.
//!
//! What an answer can still do is to stop early: an executor asks several replicas.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::base::crypto::{Check, Scheme};
use crate::base::types::{Height, View};
use crate::base::wire::{Decode as _, DecodeError};
use crate::ledger::block::BlockId;
use crate::protocols::hotstuff::block::{Block, FullBlock};
use crate::protocols::hotstuff::certificate::Domain;
use crate::protocols::hotstuff::rules::Facts;
use crate::protocols::protocol::Malformed;

/// Most blocks that are held back: more in a row without three consecutive views do not come from
/// a cluster that decides anything.
const MAX_HELD_BACK: usize = 1 << 14;

/// Why an answer is not believed. What was proven before stands; nothing of the answer is used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotDecided {
    /// A block is not what a block looks like.
    #[error("the block at height {height} is malformed: {error}")]
    Malformed {
        /// Where it was to be.
        height: Height,
        /// What is wrong.
        error: DecodeError,
    },
    /// A block is of another epoch, height or view than its place allows.
    #[error("the block at height {0} does not belong there")]
    OutOfPlace(Height),
    /// A block does not extend the one before it. If that one was not proven yet it may have been
    /// given up: it is forgotten, and to be asked for again.
    #[error("the block at height {0} does not extend the one before it")]
    NotLinked(Height),
    /// A certificate is not one of this committee.
    #[error("the certificate in the block at height {height}: {reason}")]
    Certificate {
        /// The block that carries it.
        height: Height,
        /// What is wrong.
        reason: Malformed,
    },
    /// A signature in a certificate does not hold.
    #[error("a signature in the certificate in the block at height {0} does not hold")]
    Signature(Height),
    /// Too many blocks without a proof.
    #[error("{MAX_HELD_BACK} blocks that prove nothing")]
    TooMany,
}

/// Follows the decided blocks from one height on. No clock, no sockets.
#[derive(Clone, Debug)]
pub struct Decided {
    facts: &'static Facts,
    domain: Domain,
    genesis: BlockId,
    /// Below this height everything was handed out.
    proven_below: Height,
    /// The last block handed out; the genesis block if the first height wanted is 1.
    last: Option<(BlockId, View)>,
    /// Linked to each other and to `last`, each with a justify that was checked.
    held_back: VecDeque<FullBlock>,
}

impl Decided {
    /// Of the chain that `domain`'s committee runs under the rules with these `facts`, from height
    /// `from` on (at least 1: the genesis block is known to everybody).
    #[must_use]
    pub fn new(domain: Domain, facts: &'static Facts, from: Height) -> Self {
        let committee = domain.committee();
        let genesis = Block::genesis(committee.chain(), committee.epoch());
        let from = from.max(Height(1));
        Self {
            facts,
            domain,
            genesis: genesis.id(),
            proven_below: from,
            last: (from == Height(1)).then(|| (genesis.id(), genesis.view)),
            held_back: VecDeque::new(),
        }
    }

    /// The height to ask for next.
    #[must_use]
    pub fn wanted(&self) -> Height {
        self.proven_below.plus(self.held_back.len() as u64)
    }

    /// The height of the next block that will be handed out.
    #[must_use]
    pub fn proven_below(&self) -> Height {
        self.proven_below
    }

    /// Takes the blocks of an answer to a pull from [`wanted`](Self::wanted), encoded, and returns
    /// those that are proven to be decided now, in order, none left out.
    ///
    /// # Errors
    /// [`NotDecided`]: whoever sent them is faulty, or followed blocks that were given up.
    pub fn take(
        &mut self,
        blocks: &[Bytes],
        scheme: &dyn Scheme,
    ) -> Result<Vec<FullBlock>, NotDecided> {
        let taken = self.check(blocks, scheme);
        match taken {
            Ok(taken) => self.held_back.extend(taken),
            Err(NotDecided::NotLinked(height)) => {
                self.held_back.clear();
                return Err(NotDecided::NotLinked(height));
            }
            Err(error) => return Err(error),
        }
        Ok(self.hand_out())
    }

    fn check(&self, blocks: &[Bytes], scheme: &dyn Scheme) -> Result<Vec<FullBlock>, NotDecided> {
        if self.held_back.len() + blocks.len() > MAX_HELD_BACK {
            return Err(NotDecided::TooMany);
        }
        let mut taken: Vec<FullBlock> = Vec::with_capacity(blocks.len());
        let mut height = self.wanted();
        let mut checks: Vec<Check> = Vec::new();
        let mut owners: Vec<Height> = Vec::new();
        let mut before = match self.held_back.back() {
            Some(full) => Some((full.block.id(), full.block.view)),
            None => self.last,
        };
        for bytes in blocks {
            let full = FullBlock::from_bytes(bytes.clone())
                .map_err(|error| NotDecided::Malformed { height, error })?;
            let block = &full.block;
            let ascends = block.justify.view() < block.view;
            if block.height != height || block.epoch != self.domain.committee().epoch() || !ascends
            {
                return Err(NotDecided::OutOfPlace(height));
            }
            if before.is_some_and(|(id, view)| {
                block.parent() != id || block.justify.view() != view && id != self.genesis
            }) {
                return Err(NotDecided::NotLinked(height));
            }
            let certificate = block
                .justify
                .checks(&self.domain, &self.genesis)
                .map_err(|reason| NotDecided::Certificate { height, reason })?;
            owners.resize(owners.len() + certificate.len(), height);
            checks.extend(certificate);
            before = Some((block.id(), block.view));
            taken.push(full);
            height = height.next();
        }
        let verdicts = scheme.verify(&checks);
        if verdicts.len() != checks.len() {
            return Err(NotDecided::Signature(self.wanted()));
        }
        match verdicts.iter().zip(&owners).find(|(verdict, _)| !**verdict) {
            Some((_, height)) => Err(NotDecided::Signature(*height)),
            None => Ok(taken),
        }
    }

    /// The blocks up to the highest head of a chain that a further block certifies.
    fn hand_out(&mut self) -> Vec<FullBlock> {
        let depth = self.facts.chain_length as usize;
        let view = |index: usize| self.held_back.get(index).map(|full| full.block.view);
        let is_head = |index: usize| {
            // The block behind the chain carries the last of its certificates.
            let carriers = index + 1..=index + depth;
            let certified = index + depth < self.held_back.len()
                && self
                    .held_back
                    .range(carriers)
                    .all(|full| full.block.justify.phase() == self.facts.phases);
            let consecutive =
                (index..index + depth - 1).all(|at| view(at).map(View::next) == view(at + 1));
            certified && consecutive
        };
        let Some(head) = (0..self.held_back.len()).rev().find(|index| is_head(*index)) else {
            return Vec::new();
        };
        let decided: Vec<_> = self.held_back.drain(..=head).collect();
        if let Some(full) = decided.last() {
            self.last = Some((full.block.id(), full.block.view));
            self.proven_below = full.block.height.next();
        }
        decided
    }
}
