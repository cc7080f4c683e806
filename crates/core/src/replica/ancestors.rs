//! Sending ancestors along with a proposal: for the laboratory, to learn what the chain costs.
//!
//! The dissertation's blocks carry the chain below them, truncated by what the slowest replica is
//! known to have. Here a block names its parent, and who lacks that one asks for it; these switches
//! send the blocks themselves as well, so that the three can be compared. What arrives is believed
//! as fetched blocks are: each is certified by its child's justify, the last one by the proposal's.

use super::catch_up::BUDGET_BYTES;
use super::message::{PeerMessage, within};
use super::pending::Pending;
use super::{Action, Ancestors, Fx, Refused, Replica};
use crate::base::crypto::Claim;
use crate::base::types::{Height, ReplicaId, Time};
use crate::ledger::block::FullBlock;
use crate::ledger::state_machine::StateMachine;
use crate::protocols::protocol::{
    Ancestry, BlockOf, EvidenceOf, FullBlockOf, MessageOf, Protocol, Verifier as _,
};

impl<P: Protocol, S: StateMachine> Replica<P, S> {
    /// Notes what the sender of a message must hold to say it. It speaks for itself: a lie costs
    /// nobody but its sender.
    pub(super) fn note_held(&mut self, from: ReplicaId, message: &MessageOf<P>) {
        if self.settings.ancestors != Ancestors::Missing {
            return;
        }
        let height = P::held_block(message).and_then(|id| self.protocol.height_of(id));
        if let (Some(height), Some(held)) = (height, self.held_by.get_mut(from)) {
            *held = height.max(*held);
        }
    }

    /// The ancestors to send ahead of a message, if it is a proposal and they are asked for.
    pub(super) fn ancestors_for(&self, message: &MessageOf<P>) -> Option<PeerMessage<P::Types>> {
        let block = P::carried_block(message)?;
        let floor = match self.settings.ancestors {
            Ancestors::None => return None,
            Ancestors::All => Height(0),
            Ancestors::Missing => self.slowest()?,
        };
        let floor = floor.max(self.protocol.committed().height());
        let Ancestry { blocks, evidence } = self.protocol.ancestors(block, floor)?;
        // Those from the first on whose frames, and all later ones' frames, are here.
        let full = |block: BlockOf<P::Types>| {
            let frames = self.payload.bodies(&block.id())?.clone();
            Some(FullBlock { block, frames })
        };
        let mut blocks: Vec<_> = blocks.into_iter().rev().map_while(full).collect();
        blocks.reverse();
        let parent = block.parent();
        let fits = |blocks: &Vec<FullBlockOf<P::Types>>| {
            blocks.last().is_some_and(|last| last.block.id() == parent)
        };
        let blocks = Some(within(blocks, BUDGET_BYTES)).filter(fits)?;
        Some(PeerMessage::Ancestors { blocks, evidence })
    }

    /// The height that every other replica is known to hold.
    fn slowest(&self) -> Option<Height> {
        let others = self.held_by.of_each().filter(|(id, _)| *id != self.settings.me);
        others.map(|(_, height)| *height).min()
    }

    pub(super) fn on_ancestors(
        &mut self,
        now: Time,
        from: ReplicaId,
        mut blocks: Vec<FullBlockOf<P::Types>>,
        evidence: &EvidenceOf<P>,
        fx: &mut Fx<P::Types>,
    ) {
        let linked = blocks.windows(2).all(|pair| match pair {
            [parent, child] => child.block.parent() == parent.block.id(),
            _ => true,
        });
        let Some(last) = blocks.last().filter(|_| linked).map(|last| last.block.id()) else {
            fx.output(Action::Refused { from, reason: Refused::Unfit });
            return;
        };
        blocks.retain(|full| !self.protocol.knows(&full.block.id()));
        if blocks.is_empty() {
            return;
        }
        let bytes = blocks.iter().map(FullBlock::size_bytes).sum();
        let claimed = self.chain_claims(blocks).and_then(|mut blocks| {
            let more = self.protocol.verifier().claim_evidence(&last, evidence)?;
            if let Some((claim, frames)) = blocks.pop() {
                let checks = claim.checks().iter().cloned().chain(more).collect();
                blocks.push((Claim::new(claim.unverified().clone(), checks), frames));
            }
            Ok(blocks)
        });
        match claimed {
            Ok(blocks) => {
                self.verify(now, Pending::Chain { from, blocks }, Some((from, bytes)), fx);
            }
            Err(reason) => {
                fx.output(Action::Refused { from, reason: Refused::Malformed(reason) });
            }
        }
    }
}
