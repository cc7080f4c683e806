//! Checkpoints that are withheld from half of the replicas, and wrong for the others; and stable
//! ones that nobody signed.
//!
//! Poisoned state transfer, and a window that does not move (*Practical Byzantine Fault Tolerance*,
//! section 4.3, is what a checkpoint's proof is for).
//!
//! Answered by q equal signatures, which the others give; by the check of a stable checkpoint's
//! signers before any signature (`no_quorum`, `unordered_signers`) and of the signatures.

use quorate_core::base::crypto::Signature;
use quorate_core::protocols::checkpoint::{Checkpoint, Stable};
use quorate_core::protocols::pbft::Message;
use quorate_core::replica::message::PeerMessage;
use quorate_core::{Duration, Height, ReplicaId};

use super::{Adversary, Context, Peer, Sent, made_up};
use crate::Rng;

const EVERY: Duration = Duration::from_millis(50);

#[derive(Debug)]
struct LyingCheckpoints {
    rng: Rng,
}

pub(crate) fn make(seed: u64) -> Box<dyn Adversary> {
    Box::new(LyingCheckpoints { rng: Rng::new(seed) })
}

impl Adversary for LyingCheckpoints {
    fn sends(&mut self, cx: &Context<'_>, to: ReplicaId, message: Peer, out: &mut Vec<Sent>) {
        match &message {
            PeerMessage::Protocol { message: Message::Checkpoint { checkpoint, .. }, .. } => {
                if cx.is_second(to) {
                    let root = made_up(self.rng.draw());
                    let checkpoint = Checkpoint { root, ..*checkpoint };
                    let signature = cx.sign(&cx.domain.checkpoint(&checkpoint));
                    out.push(Sent::of(to, Message::Checkpoint { checkpoint, signature }));
                }
            }
            PeerMessage::Protocol { message: Message::Stable(_), .. } => {}
            _ => out.push(Sent::now(to, message)),
        }
    }

    fn tick(&mut self, cx: &Context<'_>, out: &mut Vec<Sent>) {
        let above = cx.seen.block.as_ref().map_or(0, |block| block.height.0) + self.rng.below(40);
        let number = self.rng.draw();
        let (block, root) = (made_up(number), made_up(!number));
        let checkpoint = Checkpoint { height: Height(above), block, root };
        let own = cx.sign(&cx.domain.checkpoint(&checkpoint));
        let all = cx.domain.committee().replicas();
        let signatures: Vec<(ReplicaId, Signature)> = match number % 3 {
            0 => vec![(cx.me, own)],
            1 => all.map(|_| (cx.me, own)).collect(),
            _ => all.map(|id| (id, own)).collect(),
        };
        for to in cx.others() {
            let stable = Stable { checkpoint, signatures: signatures.clone() };
            out.push(Sent::of(to, Message::Stable(Box::new(stable))));
        }
    }

    fn wants_tick(&self) -> Option<Duration> {
        Some(EVERY)
    }
}
