//! A primary that sends its blocks to some backups only, to others each time.
//!
//! Also what a primary does whose authenticators hold for some of the backups (*Practical Byzantine
//! Fault Tolerance and Proactive Recovery*, section 3.2.2).
//!
//! Answered by f + 1 prepares, which stand for a pre-prepare; by fetching; and, where too few have
//! the block, by a view change.

use quorate_core::ReplicaId;
use quorate_core::ledger::block::BlockId;
use quorate_core::protocols::pbft::Message;
use quorate_core::replica::message::PeerMessage;

use super::{Adversary, Context, Peer, Sent};
use crate::Rng;

#[derive(Debug)]
struct PartialPrimary {
    rng: Rng,
    block: Option<BlockId>,
    /// A bit for each replica that gets it.
    gets: u64,
}

pub(crate) fn make(seed: u64) -> Box<dyn Adversary> {
    Box::new(PartialPrimary { rng: Rng::new(seed), block: None, gets: 0 })
}

impl Adversary for PartialPrimary {
    fn sends(&mut self, _: &Context<'_>, to: ReplicaId, message: Peer, out: &mut Vec<Sent>) {
        if let PeerMessage::Protocol { message: Message::PrePrepare { block, .. }, .. } = &message {
            if self.block != Some(block.id()) {
                // Most of the time most of them get it.
                self.gets = self.rng.draw() | self.rng.draw();
                self.block = Some(block.id());
            }
            if self.gets >> (to.index() % 64) & 1 == 0 {
                return;
            }
        }
        out.push(Sent::now(to, message));
    }
}
