//! A leader that tells its block to just enough replicas to have it certified, and to no others.
//!
//! Selective delivery: the others learn of the block from its certificate, and have to fetch it
//! before they can vote again. Public implementations stalled on it for ever, as they asked the
//! leader alone. Whom it leaves out changes from view to view. It sends no bodies and answers no
//! question for its blocks either.
//!
//! Answered by fetching from the voters of the certificate, one after the other, and by keeping a
//! certificate whose block is missing.

use quorate_core::ReplicaId;
use quorate_core::protocols::hotstuff::Message;
use quorate_core::replica::message::PeerMessage;

use crate::{Adversary, Context, Peer, Sent};

#[derive(Debug)]
struct ProposalWithholder;

pub(crate) fn make(_seed: u64) -> Box<dyn Adversary> {
    Box::new(ProposalWithholder)
}

/// Whether `to` is one of the f that are left out in this view of its own.
fn is_left_out(cx: &Context<'_>, to: ReplicaId, view: u64) -> bool {
    let (others, n) = (cx.size() - 1, cx.size() as u64);
    // It leads every n-th view or so: this turns through the others.
    let first = (view / n.max(1)) as usize % others.max(1);
    let distance = (cx.place(to) + others - first) % others.max(1);
    distance < cx.domain.committee().faults()
}

impl Adversary for ProposalWithholder {
    fn sends(&mut self, cx: &Context<'_>, to: ReplicaId, message: Peer, out: &mut Vec<Sent>) {
        match message {
            PeerMessage::Protocol { message: Message::Proposal { block, tc }, .. } => {
                if !is_left_out(cx, to, block.view.0) {
                    out.push(Sent::of(to, Message::Proposal { block, tc }));
                }
            }
            PeerMessage::Chain(_) | PeerMessage::Ancestors { .. } => {}
            message => out.push(Sent::now(to, message)),
        }
    }
}
