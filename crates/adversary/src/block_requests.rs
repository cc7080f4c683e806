//! Requests for blocks, bodies, chunks and certificates, without end, for as much as an answer may
//! hold.
//!
//! A request of a hundred bytes is answered with megabytes: one liar makes all others read their
//! disks and fill their links.
//!
//! Answered by one disk task a peer, answers of 4 MiB at most, and bounded queues towards a peer.

use quorate_core::replica::message::PeerMessage;
use quorate_core::{Duration, Height};

use crate::{Adversary, Context, Sent};

const EVERY: Duration = Duration::from_millis(5);
/// Bodies asked for in a message.
const BODIES: usize = 64;

#[derive(Debug)]
struct BlockRequests;

pub(crate) fn make(_seed: u64) -> Box<dyn Adversary> {
    Box::new(BlockRequests)
}

impl Adversary for BlockRequests {
    fn tick(&mut self, cx: &Context<'_>, out: &mut Vec<Sent>) {
        let tip = cx.high_qc().block();
        let height = cx.seen.block(&tip).map_or(Height(1), |block| block.height);
        let bodies: Vec<_> = cx.seen.frames().take(BODIES).map(|frame| frame.id()).collect();
        for to in cx.others() {
            let wanted = PeerMessage::FetchChain { tip, above: Height(0), budget_bytes: u32::MAX };
            out.push(Sent::now(to, wanted));
            out.push(Sent::now(to, PeerMessage::NeedFrames(bodies.clone())));
            out.push(Sent::now(to, PeerMessage::FetchChunk { height, chunk: 0 }));
            out.push(Sent::now(to, PeerMessage::Show(height)));
        }
    }

    fn wants_tick(&self) -> Option<Duration> {
        Some(EVERY)
    }
}
