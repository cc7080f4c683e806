//! A leader that proposes two blocks in one view, each to its own part of the replicas, and votes
//! for the one with more of them.
//!
//! Both are otherwise valid: real frames with their bodies, the right parent, height and root.
//! Every other time the parts are halves; in between only every third replica gets the second
//! block, so that the first is certified without those who saw the second.
//!
//! The attack every BFT protocol is made against; the framework Twins exists because its leaders
//! were never tested equivocating.
//!
//! Answered by one vote a view and quorums that share a correct replica; who saw the other block
//! fetches the certified one, and counts the equivocation.

use quorate_core::ReplicaId;
use quorate_core::ledger::block::BlockId;
use quorate_core::ledger::frame::SharedFrame;
use quorate_core::protocols::hotstuff::Message;
use quorate_core::protocols::hotstuff::block::SharedBlock;
use quorate_core::replica::message::PeerMessage;

use crate::{Adversary, Context, Peer, Rng, Sent, forge};

#[derive(Debug)]
struct EquivocatingLeader {
    rng: Rng,
    /// How many views it has equivocated in.
    views: usize,
    last: Option<Double>,
}

/// The two blocks of a view.
#[derive(Debug)]
struct Double {
    first: BlockId,
    second: SharedBlock,
    bodies: Vec<SharedFrame>,
    /// Whether only every third replica gets the second one.
    few: bool,
    /// Whether the vote for the second one has left.
    voted: bool,
}

impl Double {
    fn gets_second(&self, cx: &Context<'_>, to: ReplicaId) -> bool {
        let place = cx.place(to);
        if self.few { place.is_multiple_of(3) } else { !place.is_multiple_of(2) }
    }

    /// Whether at least as many get the second block as the first.
    fn second_leads(&self, cx: &Context<'_>) -> bool {
        let second = cx.others().filter(|to| self.gets_second(cx, *to)).count();
        2 * second >= cx.size() - 1
    }
}

pub(crate) fn make(seed: u64) -> Box<dyn Adversary> {
    Box::new(EquivocatingLeader { rng: Rng::new(seed), views: 0, last: None })
}

impl EquivocatingLeader {
    fn double(
        &mut self,
        cx: &Context<'_>,
        block: &SharedBlock,
        frames: &[SharedFrame],
    ) -> Option<&mut Double> {
        if self.last.as_ref().is_none_or(|last| last.first != block.id()) {
            let (second, bodies) = self.second(cx, block, frames)?;
            self.views += 1;
            let few = self.views.is_multiple_of(2);
            self.last = Some(Double { first: block.id(), second, bodies, few, voted: false });
        }
        self.last.as_mut()
    }

    /// Another block for the same view: without the last frame; or, where there is none, with an
    /// old one, which is executed no second time. `None` before the first frame of all.
    fn second(
        &mut self,
        cx: &Context<'_>,
        block: &SharedBlock,
        frames: &[SharedFrame],
    ) -> Option<(SharedBlock, Vec<SharedFrame>)> {
        if !block.is_empty() {
            let fewer = forge::changed(block, |content| {
                content.frames.pop();
            });
            let kept = frames.iter().filter(|frame| fewer.frames.contains(&frame.id()));
            let kept = kept.cloned().collect();
            return Some((fewer, kept));
        }
        let old: Vec<&SharedFrame> = cx.seen.frames().filter(|frame| !frame.is_open()).collect();
        let old = SharedFrame::clone(self.rng.pick(&old)?);
        let more = forge::changed(block, |content| content.frames.push(old.id()));
        Some((more, vec![old]))
    }
}

impl Adversary for EquivocatingLeader {
    fn sends(&mut self, cx: &Context<'_>, to: ReplicaId, message: Peer, out: &mut Vec<Sent>) {
        let PeerMessage::Protocol { epoch, message: inner, frames } = &message else {
            return out.push(Sent::now(to, message));
        };
        match inner {
            Message::Proposal { block, tc } => {
                let double = self.double(cx, block, frames);
                let Some(double) = double.filter(|double| double.gets_second(cx, to)) else {
                    return out.push(Sent::now(to, message));
                };
                let second = SharedBlock::clone(&double.second);
                let vote = cx.vote(second.view, 1, second.id());
                let votes = double.second_leads(cx) && !std::mem::replace(&mut double.voted, true);
                let proposal = Message::Proposal { block: second, tc: tc.clone() };
                let (epoch, frames) = (*epoch, double.bodies.clone());
                let message = PeerMessage::Protocol { epoch, message: proposal, frames };
                out.push(Sent::now(to, message));
                if votes {
                    out.extend(cx.others().map(|to| Sent::of(to, Message::Vote(vote))));
                }
            }
            // Its vote for the first block would be one too many.
            Message::Vote(vote)
                if self
                    .last
                    .as_ref()
                    .is_some_and(|last| last.first == vote.block && last.second_leads(cx)) => {}
            _ => out.push(Sent::now(to, message)),
        }
    }
}
