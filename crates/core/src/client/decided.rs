//! Decided blocks, for executors that take the order from replicas and believe none of them.
//!
//! A replica sends blocks ([`Response::Blocks`](super::message::Response::Blocks)); whether they
//! are decided is proven by the blocks themselves, as their protocol's [`Verifier`] reads them. The
//! newest blocks of an answer are proven by what follows, and held back until then.
//!
//! What an answer can still do is to stop early: an executor asks several replicas.
//!
//! # Where members change
//! One [`Decided`] follows one epoch. What the old committee decides above the sealing block is
//! void ([`change`](crate::ledger::change)), and its evidence does not say so. So from a block on
//! that holds a change which may be made, all is held back until the executor knows by a handover
//! where the epoch ended ([`Decided::ends_at`]), which proves the blocks up to there as well.
//!
//! Not every such change ends the epoch: its session may take no more, or the key that it brings
//! may be of a [generation](crate::ledger::generation) that went on. Blocks do not say so, but
//! their roots do. Correct replicas vote for a block only if the state root in it is theirs, and a
//! sealed state stays what it is. So if two decided blocks, each above those that decide the
//! change, carry different roots, then the epoch was not sealed there, and it goes on
//! ([`Verifier::carried_root`]). Protocols whose blocks carry no root hold the blocks back until a
//! later change ends the epoch.

use bytes::Bytes;

use super::proven::{Newest, NotProven};
use crate::base::crypto::{Check, Scheme};
use crate::base::types::{Height, ReplicaId, View};
use crate::base::wire::{Decode as _, DecodeError, Encode as _};
use crate::ledger::block::BlockId;
use crate::ledger::frame::SharedFrame;
use crate::protocols::protocol::{FullBlockOf, HeaderOf, Malformed, Verifier};

/// Most blocks that are held back: so many in a row that prove nothing do not come from a
/// cluster that decides anything.
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
    /// A block is of another height than its place allows.
    #[error("the block at height {0} does not belong there")]
    OutOfPlace(Height),
    /// A block does not extend the one before it. If that one was not proven yet it may have been
    /// given up: it is forgotten, and to be asked for again.
    #[error("the block at height {0} does not extend the one before it")]
    NotLinked(Height),
    /// A block, or the evidence that it carries, cannot be of this chain.
    #[error("the block at height {height} is not one of this chain: {reason}")]
    Block {
        /// Its height.
        height: Height,
        /// What is wrong.
        reason: Malformed,
    },
    /// A signature in the evidence that a block carries does not hold.
    #[error("a signature in the block at height {0} does not hold")]
    Signature(Height),
    /// What is said to be the newest evidence proves nothing.
    #[error("the newest evidence: {0}")]
    Newest(#[from] NotProven),
    /// Too many blocks without a proof.
    #[error("{MAX_HELD_BACK} blocks that prove nothing")]
    TooMany,
}

/// Follows the decided blocks from one height on. No clock, no sockets.
#[derive(Clone, Debug)]
pub struct Decided<V: Verifier> {
    verifier: V,
    /// Below this height everything was handed out.
    proven_below: Height,
    /// The last block handed out; the genesis block if the first height wanted is 1.
    last: Option<HeaderOf<V::Types>>,
    /// Linked to each other and to `last`, each with what it rests on checked.
    held_back: Vec<FullBlockOf<V::Types>>,
    /// The block that sealed the epoch, once that is known.
    end: Option<(Height, BlockId)>,
}

impl<V: Verifier> Decided<V> {
    /// Of the epoch whose evidence `verifier` checks, from height `from` on (at least the first
    /// behind its genesis block, which is known to everybody).
    #[must_use]
    pub fn new(verifier: V, from: Height) -> Self {
        let genesis = verifier.genesis();
        let first = genesis.height().next();
        let from = from.max(first);
        let last = (from == first).then(|| genesis.header().clone());
        Self { verifier, proven_below: from, last, held_back: Vec::new(), end: None }
    }

    /// The epoch was sealed by this block, as a handover proves. Returns the blocks that are proven
    /// by that, and takes none above it.
    pub fn ends_at(&mut self, end: Height, block: BlockId) -> Vec<FullBlockOf<V::Types>> {
        self.end = Some((end, block));
        self.held_back.retain(|full| full.block.height() <= end);
        if self.held_back.last().is_some_and(|full| self.is_wrong_end(full)) {
            self.held_back.clear();
        }
        self.hand_out()
    }

    /// Whether a block stands where the epoch ended, and is another one.
    fn is_wrong_end(&self, full: &FullBlockOf<V::Types>) -> bool {
        let (height, id) = (full.block.height(), full.block.id());
        self.end.is_some_and(|(end, block)| height == end && id != block)
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
    ) -> Result<Vec<FullBlockOf<V::Types>>, NotDecided> {
        let most = self.end.map_or(u64::MAX, |(end, _)| end.0.saturating_sub(self.wanted().0) + 1);
        let most = if self.is_over() { 0 } else { usize::try_from(most).unwrap_or(usize::MAX) };
        let taken = self.check(&blocks[..blocks.len().min(most)], scheme);
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

    fn check(
        &self,
        blocks: &[Bytes],
        scheme: &dyn Scheme,
    ) -> Result<Vec<FullBlockOf<V::Types>>, NotDecided> {
        if self.held_back.len() + blocks.len() > MAX_HELD_BACK {
            return Err(NotDecided::TooMany);
        }
        let mut taken: Vec<FullBlockOf<V::Types>> = Vec::with_capacity(blocks.len());
        let mut height = self.wanted();
        let mut checks: Vec<Check> = Vec::new();
        let mut owners: Vec<Height> = Vec::new();
        for bytes in blocks {
            let full = FullBlockOf::<V::Types>::from_bytes(bytes.clone())
                .map_err(|error| NotDecided::Malformed { height, error })?;
            let block = &full.block;
            if block.height() != height {
                return Err(NotDecided::OutOfPlace(height));
            }
            let before = taken.last().or(self.held_back.last()).map(|full| full.block.header());
            let is_linked = |parent: &HeaderOf<V::Types>| {
                block.parent() == parent.id() && self.verifier.may_follow(parent, block)
            };
            if !before.or(self.last.as_ref()).is_none_or(is_linked) || self.is_wrong_end(&full) {
                return Err(NotDecided::NotLinked(height));
            }
            let carried = self
                .verifier
                .claim_block(block)
                .map_err(|reason| NotDecided::Block { height, reason })?;
            owners.resize(owners.len() + carried.len(), height);
            checks.extend(carried);
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

    /// Takes in an encoded [`Newest`]: where evidence decides, it proves the blocks up to its own,
    /// if that is one of those held back. Returns these.
    ///
    /// # Errors
    /// [`NotDecided::Newest`]: whoever sent it is faulty.
    pub fn prove(
        &mut self,
        newest: &Bytes,
        scheme: &dyn Scheme,
    ) -> Result<Vec<FullBlockOf<V::Types>>, NotDecided> {
        let newest = Newest::<V::Types>::from_bytes(newest.clone()).map_err(NotProven::from)?;
        newest.verify(&self.verifier, scheme)?;
        let id = newest.newest.block.id();
        let place = self.held_back.iter().position(|full| full.block.id() == id);
        let proven = place.filter(|_| V::EVIDENCE_DECIDES).map_or(0, |place| place + 1);
        Ok(self.drain(self.below_seal(proven)))
    }

    /// Whether all of the epoch was handed out.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.end.is_some_and(|(end, _)| self.proven_below > end)
    }

    /// The blocks that are proven by now.
    fn hand_out(&mut self) -> Vec<FullBlockOf<V::Types>> {
        let ends = |full: &FullBlockOf<V::Types>| {
            self.end.is_some_and(|(end, _)| full.block.height() == end)
        };
        let proven = match self.held_back.last() {
            // Each is the parent of the next.
            Some(last) if ends(last) => self.held_back.len(),
            _ => self.verifier.decided(&self.held_back).min(self.held_back.len()),
        };
        self.drain(self.below_seal(proven))
    }

    /// How many of the first `proven` blocks are below one that may have sealed the epoch.
    fn below_seal(&self, proven: usize) -> usize {
        let committee = self.verifier.committee();
        if self.end.is_some() || committee.governance().administrators.is_empty() {
            return proven;
        }
        let may_be_made = |frame: &SharedFrame| match frame.change(committee.rules()) {
            Some(Ok(change)) => change.judge(committee, committee.opening()).is_ok(),
            _ => false,
        };
        let seals = |full: &FullBlockOf<V::Types>| full.frames.iter().any(may_be_made);
        let mut from = 0;
        while let Some(place) = self.held_back[from..proven].iter().position(seals) {
            match self.goes_on_above(from + place, proven) {
                Some(above) => from = above,
                None => return from + place,
            }
        }
        proven
    }

    /// The place behind a block, if later roots show that it did not seal the epoch. The first
    /// `proven` blocks are decided.
    fn goes_on_above(&self, place: usize, proven: usize) -> Option<usize> {
        let root = |at: usize| self.verifier.carried_root(&self.held_back[at].block);
        // The first block whose root is of a state at or above `place`: its ancestors decide that.
        let are_few = |at: &usize| self.verifier.decided(&self.held_back[..*at]) <= place;
        let later: Vec<usize> = (place + 1..proven).collect();
        let first = *later.get(later.partition_point(are_few))?;
        let told = root(first)?;
        let differs = (first + 1..proven).any(|at| root(at).is_some_and(|root| root != told));
        differs.then_some(place + 1)
    }

    fn drain(&mut self, proven: usize) -> Vec<FullBlockOf<V::Types>> {
        let decided: Vec<_> = self.held_back.drain(..proven).collect();
        if let Some(full) = decided.last() {
            self.last = Some(full.block.header().clone());
            self.proven_below = full.block.height().next();
        }
        decided
    }
}

/// A decided block, as an executor reads it, whatever the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecidedBlock {
    /// Its identity.
    pub id: BlockId,
    /// The block it extends.
    pub parent: BlockId,
    /// Its parent's height plus one.
    pub height: Height,
    /// The view it was proposed in; 0 where the protocol has none.
    pub view: View,
    /// Who proposed it, where the protocol has proposers.
    pub proposer: Option<ReplicaId>,
    /// Its frames, in the order of execution.
    pub frames: Vec<SharedFrame>,
    /// All of it, as replicas send it: with what it carries of evidence.
    pub encoded: Bytes,
}

/// [`Decided`], of whatever protocol.
pub trait Follow: Send {
    /// See [`Decided::wanted`].
    fn wanted(&self) -> Height;

    /// See [`Decided::ends_at`].
    fn ends_at(&mut self, end: Height, block: BlockId) -> Vec<DecidedBlock>;

    /// See [`Decided::is_over`].
    fn is_over(&self) -> bool;

    /// See [`Decided::take`].
    ///
    /// # Errors
    /// As there.
    fn take(
        &mut self,
        blocks: &[Bytes],
        scheme: &dyn Scheme,
    ) -> Result<Vec<DecidedBlock>, NotDecided>;

    /// Whether blocks are held back that the newest evidence may prove.
    fn wants_newest(&self) -> bool;

    /// See [`Decided::prove`].
    ///
    /// # Errors
    /// As there.
    fn prove(
        &mut self,
        newest: &Bytes,
        scheme: &dyn Scheme,
    ) -> Result<Vec<DecidedBlock>, NotDecided>;

    /// The blocks that are held back, encoded: they may prove those that were handed out.
    fn held_back(&self) -> Vec<Bytes>;
}

impl<V: Verifier> Decided<V> {
    fn told(&self, full: FullBlockOf<V::Types>) -> DecidedBlock {
        let encoded = full.to_bytes().into();
        let FullBlockOf::<V::Types> { block, frames } = full;
        DecidedBlock {
            id: block.id(),
            parent: block.parent(),
            height: block.height(),
            view: block.view(),
            proposer: self.verifier.proposer(&block),
            frames,
            encoded,
        }
    }
}

impl<V: Verifier> Follow for Decided<V> {
    fn wanted(&self) -> Height {
        Self::wanted(self)
    }

    fn ends_at(&mut self, end: Height, block: BlockId) -> Vec<DecidedBlock> {
        let decided = Self::ends_at(self, end, block);
        decided.into_iter().map(|full| self.told(full)).collect()
    }

    fn is_over(&self) -> bool {
        Self::is_over(self)
    }

    fn take(
        &mut self,
        blocks: &[Bytes],
        scheme: &dyn Scheme,
    ) -> Result<Vec<DecidedBlock>, NotDecided> {
        let decided = Self::take(self, blocks, scheme)?;
        Ok(decided.into_iter().map(|full| self.told(full)).collect())
    }

    fn wants_newest(&self) -> bool {
        V::EVIDENCE_DECIDES && !self.held_back.is_empty()
    }

    fn prove(
        &mut self,
        newest: &Bytes,
        scheme: &dyn Scheme,
    ) -> Result<Vec<DecidedBlock>, NotDecided> {
        let decided = Self::prove(self, newest, scheme)?;
        Ok(decided.into_iter().map(|full| self.told(full)).collect())
    }

    fn held_back(&self) -> Vec<Bytes> {
        self.held_back.iter().map(|full| full.to_bytes().into()).collect()
    }
}
