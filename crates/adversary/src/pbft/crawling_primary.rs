//! A primary that orders one block at a time, each so much later than the last that the view timer
//! does not run out.
//!
//! It took PBFT down to a fraction of its throughput (*Making Byzantine Fault Tolerant Systems
//! Tolerate Byzantine Faults*, NSDI 2009, section 2).
//!
//! Answered by the view timer, and by a minimum rate (`core/src/protocols/pbft/rate.rs`).

use quorate_core::ledger::block::BlockId;
use quorate_core::protocols::pbft::Message;
use quorate_core::replica::message::PeerMessage;
use quorate_core::{Duration, ReplicaId, Time};

use super::{Adversary, Context, Peer, Sent};
use crate::Rng;

/// Gaps that are drawn, in milliseconds.
const GAPS: [u64; 4] = [20, 80, 300, 900];

#[derive(Debug)]
struct CrawlingPrimary {
    gap: Duration,
    /// The block that left last, or is to leave, and when.
    last: Option<(BlockId, Time)>,
}

pub(crate) fn make(seed: u64) -> Box<dyn Adversary> {
    let gap = Rng::new(seed).pick(&GAPS).copied().unwrap_or_default();
    crawling(Duration::from_millis(gap))
}

/// The primary that waits so long from one block to the next.
#[must_use]
pub fn crawling(gap: Duration) -> Box<dyn Adversary> {
    Box::new(CrawlingPrimary { gap, last: None })
}

impl CrawlingPrimary {
    fn leaves(&mut self, now: Time, block: BlockId) -> Time {
        let at = match self.last {
            Some((known, at)) if known == block => return at.max(now),
            Some((_, at)) => at.after(self.gap).max(now),
            None => now,
        };
        self.last = Some((block, at));
        at
    }
}

impl Adversary for CrawlingPrimary {
    fn sends(&mut self, cx: &Context<'_>, to: ReplicaId, message: Peer, out: &mut Vec<Sent>) {
        let delay = match &message {
            PeerMessage::Protocol { message: Message::PrePrepare { block, .. }, .. } => {
                self.leaves(cx.now, block.id()).since(cx.now)
            }
            _ => Duration::ZERO,
        };
        out.push(Sent { to, delay, message });
    }
}
