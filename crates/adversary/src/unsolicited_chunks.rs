//! Chunks of snapshots that nobody asked for, and bodies that nobody lacks.
//!
//! A replica that keeps answers unasked fills its memory. A chunk that it takes for part of another
//! transfer spoils that transfer.
//!
//! Answered by taking answers from whoever was asked, for what was asked, alone.

use bytes::Bytes;
use quorate_core::replica::message::PeerMessage;
use quorate_core::{Duration, Height};

use crate::{Adversary, Context, Rng, Sent};

const EVERY: Duration = Duration::from_millis(10);
/// Bytes of a chunk.
const CHUNK_BYTES: usize = 128 << 10;

#[derive(Debug)]
struct UnsolicitedChunks {
    rng: Rng,
}

pub(crate) fn make(seed: u64) -> Box<dyn Adversary> {
    Box::new(UnsolicitedChunks { rng: Rng::new(seed) })
}

impl Adversary for UnsolicitedChunks {
    fn tick(&mut self, cx: &Context<'_>, out: &mut Vec<Sent>) {
        let tip = cx.high_qc().block();
        let now = cx.seen.block(&tip).map_or(0, |block| block.height.0);
        let bytes = Bytes::from(vec![self.rng.below(256) as u8; CHUNK_BYTES]);
        let bodies: Vec<_> = cx.seen.frames().take(8).cloned().collect();
        for to in cx.others() {
            let height = Height(now.saturating_sub(self.rng.below(256)) + self.rng.below(512));
            let chunk = self.rng.below(4) as u32;
            let last = self.rng.percent(10);
            let bytes = bytes.clone();
            out.push(Sent::now(to, PeerMessage::Chunk { height, chunk, last, bytes }));
            out.push(Sent::now(to, PeerMessage::Frames(bodies.clone())));
        }
    }

    fn wants_tick(&self) -> Option<Duration> {
        Some(EVERY)
    }
}
