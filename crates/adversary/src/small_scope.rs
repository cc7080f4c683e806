//! Small changes to whatever the replica sends: a view more or less, a value of another message, a
//! signature that does not hold, a block with one field changed, a message twice, to all, or not at
//! all.
//!
//! The small-scope hypothesis (Jackson 2006; Winter et al., *Randomized testing of Byzantine fault
//! tolerant algorithms*, 2023): what breaks a protocol is near what it expects. Random bytes never
//! get beyond the decoder.
//!
//! Answered by checking every field before its signature and signing all of them.

use quorate_core::base::crypto::Signature;
use quorate_core::protocols::hotstuff::Message;
use quorate_core::protocols::hotstuff::block::{Block, SharedBlock};
use quorate_core::protocols::hotstuff::certificate::Vote;
use quorate_core::replica::message::PeerMessage;
use quorate_core::{Digest, ReplicaId, View};

use crate::{Adversary, Context, Peer, Rng, Sent, forge};

/// Most frames in a block it made up.
const FRAMES: usize = 100;

#[derive(Debug)]
struct SmallScope {
    rng: Rng,
}

pub(crate) fn make(seed: u64) -> Box<dyn Adversary> {
    Box::new(SmallScope { rng: Rng::new(seed) })
}

impl SmallScope {
    /// A view nearby.
    fn near(&mut self, view: View) -> View {
        View((view.0 + self.rng.below(4)).saturating_sub(1))
    }

    fn bend(
        &mut self,
        cx: &Context<'_>,
        to: ReplicaId,
        inner: &Message,
    ) -> Vec<(ReplicaId, Message)> {
        match inner {
            Message::Proposal { block, tc } => {
                let other = self.other_block(cx, block);
                let vote = Message::Vote(cx.vote(other.view, 1, other.id()));
                let bent = |tc| Message::Proposal { block: SharedBlock::clone(&other), tc };
                match self.rng.below(5) {
                    0 => Vec::new(),
                    1 => vec![(to, inner.clone()), (to, bent(tc.clone()))],
                    2 => vec![(to, bent(tc.clone())), (to, vote)],
                    3 => vec![(to, bent(None))],
                    _ => vec![(to, bent(tc.clone()))],
                }
            }
            Message::Vote(vote) => self.bend_vote(cx, to, *vote),
            Message::TimeOut { time_out, high_qc, high_tc, last_vote } => {
                let view = self.near(time_out.view);
                let time_out = cx.time_out(view, high_qc);
                let last_vote = last_vote.clone().filter(|_| self.rng.percent(50));
                let (high_qc, high_tc) = (high_qc.clone(), high_tc.clone());
                let bent = Message::TimeOut { time_out, high_qc, high_tc, last_vote };
                if self.rng.percent(33) { Vec::new() } else { vec![(to, bent)] }
            }
            Message::NewView { view, high_qc } => {
                let bent = Message::NewView { view: self.near(*view), high_qc: high_qc.clone() };
                if self.rng.percent(50) { Vec::new() } else { vec![(to, bent)] }
            }
            Message::Certificate(_) | Message::Advance { .. } => Vec::new(),
        }
    }

    fn bend_vote(
        &mut self,
        cx: &Context<'_>,
        to: ReplicaId,
        vote: Vote,
    ) -> Vec<(ReplicaId, Message)> {
        let good = Message::Vote(vote);
        match self.rng.below(6) {
            0 => Vec::new(),
            1 => cx.others().map(|to| (to, good.clone())).collect(),
            2 => {
                let signature = Signature::from([9; 64]);
                vec![(to, Message::Vote(Vote { signature, ..vote }))]
            }
            3 => {
                let ahead = View(vote.view.0 + 1 + self.rng.below(1000));
                vec![(to, Message::Vote(cx.vote(ahead, vote.phase, vote.block))), (to, good)]
            }
            4 => {
                // Somebody else's, word for word.
                let others: Vec<Vote> = cx.seen.votes().copied().collect();
                let other = self.rng.pick(&others).copied().unwrap_or(vote);
                vec![(to, Message::Vote(other)), (to, good)]
            }
            _ => {
                let other = cx.vote(vote.view, vote.phase, Digest([7; 32]));
                vec![(to, Message::Vote(other)), (to, good)]
            }
        }
    }

    fn other_block(&mut self, cx: &Context<'_>, block: &Block) -> SharedBlock {
        let choice = self.rng.below(7);
        forge::changed(block, |content| {
            match choice {
                0 => content.state_root = Digest([1; 32]),
                1 => content.view = content.view.plus(cx.size() as u64),
                2 => content.height = content.height.next(),
                3 => content.frames.push(Digest([5; 32])),
                4 => content.frames.extend(content.frames.clone()),
                5 => content.view = content.view.next(),
                _ => content.frames.clear(),
            }
            content.frames.truncate(FRAMES);
        })
    }
}

impl Adversary for SmallScope {
    fn sends(&mut self, cx: &Context<'_>, to: ReplicaId, message: Peer, out: &mut Vec<Sent>) {
        if self.rng.percent(60) {
            return out.push(Sent::now(to, message));
        }
        let PeerMessage::Protocol { epoch, message: inner, frames } = &message else {
            if self.rng.percent(50) {
                out.push(Sent::now(to, message));
            }
            return;
        };
        for (to, message) in self.bend(cx, to, inner) {
            let (epoch, frames) = (*epoch, frames.clone());
            out.push(Sent::now(to, PeerMessage::Protocol { epoch, message, frames }));
        }
    }
}
