//! A primary that gives two blocks the same number: half of the backups get one chain of blocks,
//! the others another.
//!
//! The fault that the prepare phase is for (*Practical Byzantine Fault Tolerance*, section 4.2).
//!
//! Answered by quorums that intersect: one of the two chains at most is prepared, and if none is,
//! the view is given up; who hears of the other block notes an equivocation.

use std::collections::BTreeMap;

use quorate_core::ReplicaId;
use quorate_core::ledger::block::BlockId;
use quorate_core::protocols::pbft::Message;
use quorate_core::protocols::pbft::words::Vote;
use quorate_core::replica::message::PeerMessage;

use super::{Adversary, Context, Peer, Sent, changed};

/// The other chain is forgotten after so many blocks.
const MOST: usize = 512;

#[derive(Debug, Default)]
struct EquivocatingPrimary {
    /// By block: the one of the other chain.
    other: BTreeMap<BlockId, BlockId>,
}

pub(crate) fn make(_seed: u64) -> Box<dyn Adversary> {
    Box::new(EquivocatingPrimary::default())
}

impl Adversary for EquivocatingPrimary {
    fn sends(&mut self, cx: &Context<'_>, to: ReplicaId, message: Peer, out: &mut Vec<Sent>) {
        let PeerMessage::Protocol { message: said, .. } = &message else {
            return out.push(Sent::now(to, message));
        };
        match said {
            Message::PrePrepare { block, .. } if cx.is_second(to) => {
                let parent = self.other.get(&block.parent).copied().unwrap_or(block.parent);
                let other = changed(block, |content| {
                    content.parent = parent;
                    content.frames.pop();
                });
                if self.other.len() > MOST {
                    self.other.clear();
                }
                self.other.insert(block.id(), other.id());
                out.push(Sent::of(to, cx.pre_prepare(&other)));
            }
            Message::Vote { vote, .. } if cx.is_second(to) => {
                let block = self.other.get(&vote.block).copied().unwrap_or(vote.block);
                let vote = Vote { block, ..*vote };
                let signature = cx.sign_direct(&cx.domain.vote(&vote));
                out.push(Sent::of(to, Message::Vote { vote, signature }));
            }
            _ => out.push(Sent::now(to, message)),
        }
    }
}
