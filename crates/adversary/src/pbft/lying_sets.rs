//! View changes whose sets P and Q lie, well formed and signed: blocks that were prepared are left
//! out, blocks that nobody saw are said to be prepared last, or old ones in the latest view; to
//! each replica another lie.
//!
//! What the conditions of the new view are for (*Practical Byzantine Fault Tolerance and Proactive
//! Recovery*, section 4.5.2): a liar may hide and may invent.
//!
//! Answered by both: q view changes in which nothing speaks against a block, and f + 1 that
//! pre-prepared it.

use quorate_core::protocols::pbft::Message;
use quorate_core::protocols::pbft::words::{Entry, ViewChange};
use quorate_core::replica::message::PeerMessage;
use quorate_core::{Height, ReplicaId, View};

use super::{Adversary, Context, Peer, Sent, made_up};
use crate::Rng;

#[derive(Debug)]
struct LyingSets {
    rng: Rng,
}

pub(crate) fn make(seed: u64) -> Box<dyn Adversary> {
    Box::new(LyingSets { rng: Rng::new(seed) })
}

impl LyingSets {
    fn bend(&mut self, change: &mut ViewChange) {
        let latest = View(change.view.0.saturating_sub(1));
        match self.rng.below(5) {
            // Nothing was prepared.
            0 => change.prepared.clear(),
            // Nor pre-prepared.
            1 => {
                change.prepared.clear();
                change.pre_prepared.clear();
            }
            // Of each height an earlier block, prepared last.
            2 => {
                for entry in &mut change.prepared {
                    let at = |known: &&Entry| known.height == entry.height;
                    if let Some(other) = change.pre_prepared.iter().find(at) {
                        *entry = Entry { view: latest, ..*other };
                    }
                }
            }
            // All as late as can be.
            3 => change.prepared.iter_mut().for_each(|entry| entry.view = latest),
            // A block that nobody saw.
            _ => {
                let low = change.stable.as_ref().map_or(0, |stable| stable.checkpoint.height.0);
                let (block, parent) = (made_up(self.rng.draw()), made_up(self.rng.draw()));
                let height = Height(low + 1 + self.rng.below(3));
                let entry = Entry { height, view: latest, block, parent };
                change.prepared.retain(|known| known.height != height);
                change.prepared.push(entry);
                change.pre_prepared.push(entry);
                change.prepared.sort_unstable();
                change.pre_prepared.sort_unstable();
            }
        }
        change.pre_prepared.dedup();
    }
}

impl Adversary for LyingSets {
    fn sends(&mut self, cx: &Context<'_>, to: ReplicaId, message: Peer, out: &mut Vec<Sent>) {
        match message {
            PeerMessage::Protocol { message: Message::ViewChange(mut signed), .. } => {
                self.bend(&mut signed.change);
                out.push(Sent::of(to, cx.change(signed.change)));
            }
            message => out.push(Sent::now(to, message)),
        }
    }
}
