//! Votes for two blocks at one height, votes of other views and heights, and votes with signatures
//! that do not hold or should not be there.
//!
//! Answered by one place for a replica's vote at each height (the second of a view is noted), by
//! heights between the water marks alone (`stale`), and by the form that the authentication asks
//! for (`wrong_form`, bad signatures).

use quorate_core::base::crypto::Signature;
use quorate_core::protocols::pbft::Message;
use quorate_core::protocols::pbft::words::Vote;
use quorate_core::replica::message::PeerMessage;
use quorate_core::{Height, ReplicaId, View};

use super::{Adversary, Context, Peer, Sent, made_up};
use crate::Rng;

#[derive(Debug)]
struct DoubleVoter {
    rng: Rng,
}

pub(crate) fn make(seed: u64) -> Box<dyn Adversary> {
    Box::new(DoubleVoter { rng: Rng::new(seed) })
}

impl DoubleVoter {
    fn bend(&mut self, cx: &Context<'_>, vote: Vote) -> Message {
        let other = match self.rng.below(6) {
            0 => Vote { block: made_up(self.rng.draw()), ..vote },
            1 => Vote { view: View(vote.view.0.saturating_sub(1)), ..vote },
            2 => Vote { view: vote.view.next(), ..vote },
            3 => Vote { height: vote.height.next(), ..vote },
            4 => Vote { height: Height(vote.height.0 + 10_000), ..vote },
            _ => {
                // Signed where nothing is, and not signed where everything is.
                let statement = cx.domain.vote(&vote);
                let signs = cx.domain.signs();
                let signature = if signs { Signature::NONE } else { cx.sign(&statement) };
                return Message::Vote { vote, signature };
            }
        };
        let signature = cx.sign_direct(&cx.domain.vote(&other));
        Message::Vote { vote: other, signature }
    }
}

impl Adversary for DoubleVoter {
    fn sends(&mut self, cx: &Context<'_>, to: ReplicaId, message: Peer, out: &mut Vec<Sent>) {
        if let PeerMessage::Protocol { message: Message::Vote { vote, .. }, .. } = &message {
            out.push(Sent::of(to, self.bend(cx, *vote)));
        }
        out.push(Sent::now(to, message));
    }
}
