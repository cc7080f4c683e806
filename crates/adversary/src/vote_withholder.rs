//! A replica that votes for some and not for others: half of the collectors never get its votes,
//! nor do its time-outs carry any.
//!
//! It makes some leaders look as if they had failed (their blocks lack one vote, and any other that
//! is late or lost is one too few), which matters where leaders are elected by whose certificates
//! came through.
//!
//! Answered by quorums that need no vote of f, votes in time-outs, and elections that judge by what
//! the chain shows of both proposers and voters.

use quorate_core::ReplicaId;
use quorate_core::protocols::hotstuff::Message;
use quorate_core::replica::message::PeerMessage;

use crate::{Adversary, Context, Peer, Sent};

#[derive(Debug)]
struct VoteWithholder;

pub(crate) fn make(_seed: u64) -> Box<dyn Adversary> {
    Box::new(VoteWithholder)
}

impl Adversary for VoteWithholder {
    fn sends(&mut self, cx: &Context<'_>, to: ReplicaId, message: Peer, out: &mut Vec<Sent>) {
        match message {
            PeerMessage::Protocol { message: Message::Vote(_), .. }
                if cx.place(to).is_multiple_of(2) => {}
            PeerMessage::Protocol {
                message: Message::TimeOut { time_out, high_qc, high_tc, last_vote: Some(_) },
                ..
            } => {
                let message = Message::TimeOut { time_out, high_qc, high_tc, last_vote: None };
                out.push(Sent::of(to, message));
            }
            message => out.push(Sent::now(to, message)),
        }
    }
}
