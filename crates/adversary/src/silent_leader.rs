//! A leader that says nothing in its views, and is a good replica otherwise.
//!
//! The plainest attack on liveness: each of its views is waited for in vain. With the votes of a
//! view going to the next leader, its silence costs two views: the block before its own loses its
//! certificate as well.
//!
//! Answered by the time-out of the view, time-outs that carry votes (the certificate of the block
//! before is made all the same), a shorter wait for a leader that failed, Carousel's blacklist of
//! the leaders that failed last, and leaders elected by reputation.

use quorate_core::ReplicaId;
use quorate_core::protocols::hotstuff::Message;
use quorate_core::replica::message::PeerMessage;

use crate::{Adversary, Context, Peer, Sent};

#[derive(Debug)]
struct SilentLeader;

pub(crate) fn make(_seed: u64) -> Box<dyn Adversary> {
    Box::new(SilentLeader)
}

impl Adversary for SilentLeader {
    fn sends(&mut self, _: &Context<'_>, to: ReplicaId, message: Peer, out: &mut Vec<Sent>) {
        let leads = matches!(
            &message,
            PeerMessage::Ancestors { .. }
                | PeerMessage::Protocol {
                    message: Message::Proposal { .. } | Message::Certificate(_),
                    ..
                }
        );
        if !leads {
            out.push(Sent::now(to, message));
        }
    }
}
