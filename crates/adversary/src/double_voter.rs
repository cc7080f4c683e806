//! A replica that votes for two blocks in one view and phase: the true vote, and one for another
//! block, now the one first and now the other.
//!
//! Amnesia by intent: what a replica does that signs before its record is durable, or runs twice
//! with one key. The other block is the one another
//! proposal of that view named, if there was one: two double voters and an equivocating leader
//! together would fork a protocol whose quorums share no correct replica (2f + 1 of 3f + 3).
//!
//! Answered by one vote a replica, view and phase in every collector: the first counts, the second
//! is noted (`double_votes_total`) and counts for nothing.

use quorate_core::protocols::hotstuff::Message;
use quorate_core::replica::message::PeerMessage;
use quorate_core::{Digest, ReplicaId, View};

use crate::{Adversary, Context, Peer, Rng, Sent};

#[derive(Debug)]
struct DoubleVoter {
    rng: Rng,
    /// Blocks that were proposed of late.
    proposed: Vec<(View, Digest)>,
}

/// How many proposals it remembers.
const PROPOSALS: usize = 32;

pub(crate) fn make(seed: u64) -> Box<dyn Adversary> {
    Box::new(DoubleVoter { rng: Rng::new(seed), proposed: Vec::new() })
}

impl Adversary for DoubleVoter {
    fn sends(&mut self, cx: &Context<'_>, to: ReplicaId, message: Peer, out: &mut Vec<Sent>) {
        let PeerMessage::Protocol { message: Message::Vote(vote), .. } = &message else {
            return out.push(Sent::now(to, message));
        };
        let other = |(view, block): &&(_, _)| *view == vote.view && *block != vote.block;
        let made_up = Digest::of("another block", &vote.block.0);
        let block = self.proposed.iter().find(other).map_or(made_up, |(_, block)| *block);
        let second = Sent::of(to, Message::Vote(cx.vote(vote.view, vote.phase, block)));
        let first = Sent::now(to, message);
        out.extend(if self.rng.percent(50) { [first, second] } else { [second, first] });
    }

    fn receives(&mut self, _: &Context<'_>, _: ReplicaId, message: &Peer) {
        if let PeerMessage::Protocol { message: Message::Proposal { block, .. }, .. } = message {
            self.proposed.push((block.view, block.id()));
            if self.proposed.len() > PROPOSALS {
                self.proposed.remove(0);
            }
        }
    }
}
