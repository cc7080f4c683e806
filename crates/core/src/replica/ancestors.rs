//! Sending ancestors along with a proposal: for the laboratory, to learn what the chain costs (D4, D10).
//!
//! The dissertation's blocks carry the chain below them, truncated by what the slowest replica is
//! known to have. Here a block names its parent, and who lacks that one asks for it; these switches
//! send the blocks themselves as well, so that the three can be compared. What arrives is believed
//! as fetched blocks are: each is certified by its child's justify, the last one by the proposal's.

use std::sync::Arc;

use super::catch_up::BUDGET_BYTES;
use super::message::{FullBlock, PeerMessage, within};
use super::verify::Pending;
use super::{Action, Fx, Refused, Replica};
use crate::base::crypto::Claim;
use crate::base::types::{Height, ReplicaId, Time};
use crate::ledger::state_machine::StateMachine;
use crate::protocols::hotstuff::certificate::Qc;
use crate::protocols::protocol::Protocol;

/// Which uncommitted ancestors travel with a proposal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ancestors {
    /// None.
    #[default]
    None,
    /// Those that some replica is not known to hold.
    Missing,
    /// All.
    All,
}

impl<P: Protocol, S: StateMachine> Replica<P, S> {
    /// Notes what the sender of a message must hold to say it. It speaks for itself: a lie costs
    /// nobody but its sender.
    pub(super) fn note_held(&mut self, from: ReplicaId, message: &P::Message) {
        if self.settings.ancestors != Ancestors::Missing {
            return;
        }
        let block = P::held_block(message).and_then(|id| self.protocol.tree().find(id));
        if let (Some(block), Some(held)) = (block, self.held_by.get_mut(from.index())) {
            *held = block.height.max(*held);
        }
    }

    /// The ancestors to send ahead of a message, if it is a proposal and they are asked for.
    pub(super) fn ancestors_for(&self, message: &P::Message) -> Option<PeerMessage<P::Message>> {
        let block = P::carried_block(message)?;
        let tree = self.protocol.tree();
        let floor = match self.settings.ancestors {
            Ancestors::None => return None,
            Ancestors::All => Height(0),
            Ancestors::Missing => self.slowest()?,
        };
        let floor = floor.max(tree.root().height);
        let full = |block: &Arc<_>| {
            let block = Arc::clone(block);
            let frames = self.bodies.get(&crate::ledger::block::Block::id(&block))?.clone();
            Some(FullBlock { block, frames })
        };
        let mut blocks: Vec<FullBlock> =
            tree.blocks_above(floor, &block.parent()).map_while(full).collect();
        blocks.reverse();
        let certificate = block.justify.clone();
        let fits = |blocks: &Vec<FullBlock>| {
            blocks.last().is_some_and(|last| last.block.id() == certificate.block())
        };
        let blocks = Some(within(blocks, BUDGET_BYTES)).filter(fits)?;
        Some(PeerMessage::Ancestors { blocks, certificate })
    }

    /// The height that every other replica is known to hold.
    fn slowest(&self) -> Option<Height> {
        let me = self.settings.me.index();
        let others = self.held_by.iter().enumerate().filter(|(id, _)| *id != me);
        others.map(|(_, height)| *height).min()
    }

    pub(super) fn on_ancestors(
        &mut self,
        now: Time,
        from: ReplicaId,
        mut blocks: Vec<FullBlock>,
        certificate: &Qc,
        fx: &mut Fx<P::Message>,
    ) {
        let linked = blocks.windows(2).all(|pair| match pair {
            [parent, child] => child.block.parent() == parent.block.id(),
            _ => true,
        });
        let last = blocks.last().map(|last| last.block.id());
        if !linked || last != Some(certificate.block()) {
            fx.output(Action::Refused { from, reason: Refused::Unfit });
            return;
        }
        blocks.retain(|full| self.protocol.tree().find(&full.block.id()).is_none());
        if blocks.is_empty() {
            return;
        }
        let bytes = blocks.iter().map(FullBlock::size_bytes).sum();
        let claimed = self.chain_claims(blocks).and_then(|mut blocks| {
            let more = self.certificate_checks(certificate)?;
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
