//! Junk that costs its receivers a verification: frames in the names of clients it has seen, with
//! signatures that do not hold, passed on as if a client had sent them.
//!
//! One liar that signs nothing makes all others check signatures, and its junk stands in the same
//! queue as their votes.
//!
//! Answered by bounds on the checks that a peer has under way, by turns between peers with the
//! protocol's messages first, and by a penalty for signatures that do not hold.

use std::sync::Arc;

use quorate_core::base::crypto::Signature;
use quorate_core::ledger::frame::{Frame, SharedFrame};
use quorate_core::replica::message::PeerMessage;
use quorate_core::{Duration, Sequence};

use crate::{Adversary, Context, Rng, Sent};

const EVERY: Duration = Duration::from_millis(5);
/// Frames in a message.
const FRAMES: usize = 32;

#[derive(Debug)]
struct JunkToVerify {
    rng: Rng,
}

pub(crate) fn make(seed: u64) -> Box<dyn Adversary> {
    Box::new(JunkToVerify { rng: Rng::new(seed) })
}

impl JunkToVerify {
    /// A command that nobody asked for, in the name of whoever sent `seen`.
    fn forged(&mut self, cx: &Context<'_>, seen: &Frame) -> Option<SharedFrame> {
        let command = self.rng.below(u64::MAX).to_le_bytes();
        let first = Sequence(self.rng.below(u64::MAX / 2));
        let chain = cx.domain.committee().chain();
        let sign = |_: &_| Signature::from([7; 64]);
        let commands = [command.as_slice()];
        Frame::build(seen.key(), seen.session(), first, commands, &chain, sign).map(Arc::new)
    }
}

impl Adversary for JunkToVerify {
    fn tick(&mut self, cx: &Context<'_>, out: &mut Vec<Sent>) {
        let Some(seen) = cx.seen.frames().next().cloned() else { return };
        let junk: Vec<SharedFrame> = (0..FRAMES).filter_map(|_| self.forged(cx, &seen)).collect();
        out.extend(cx.others().map(|to| Sent::now(to, PeerMessage::Relay(junk.clone()))));
    }

    fn wants_tick(&self) -> Option<Duration> {
        Some(EVERY)
    }
}
