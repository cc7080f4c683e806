//! A leader that proposes as late as it may without losing its view.
//!
//! It begins with a small delay and raises it by a half as long as its blocks are certified; when a
//! view of its own is given up it goes back to a half. So it takes the most time it can get away
//! with, which a fixed delay would not: the attack on protocols whose time-outs are long
//! (Aardvark, 2009: a slow primary takes PBFT down to a fraction of its throughput).
//!
//! Answered by the pacemaker's accounts: what its views take beyond twice the usual it has to make
//! up for, or they are given up, and the election leaves it out. And by rotation: it can slow its
//! own views, no others.

use quorate_core::ledger::block::BlockId;
use quorate_core::protocols::hotstuff::Message;
use quorate_core::replica::message::PeerMessage;
use quorate_core::{Duration, ReplicaId, View};

use crate::{Adversary, Context, Peer, Sent};

const FIRST: Duration = Duration::from_millis(20);
const LEAST: Duration = Duration::from_millis(5);
const MOST: Duration = Duration::from_secs(10);

#[derive(Debug)]
struct SlowLeader {
    delay: Duration,
    /// Its proposal of the view it leads.
    last: Option<(View, BlockId)>,
}

pub(crate) fn make(_seed: u64) -> Box<dyn Adversary> {
    Box::new(SlowLeader { delay: FIRST, last: None })
}

impl SlowLeader {
    /// How late a proposal leaves.
    fn delay(&mut self, cx: &Context<'_>, view: View, block: BlockId) -> Duration {
        match self.last {
            Some((_, known)) if known == block => return self.delay,
            Some((last, _)) if cx.seen.certified(last) => self.delay = self.delay * 3 / 2,
            Some(_) => self.delay /= 2,
            None => {}
        }
        self.delay = self.delay.clamp(LEAST, MOST);
        self.last = Some((view, block));
        self.delay
    }
}

impl Adversary for SlowLeader {
    fn sends(&mut self, cx: &Context<'_>, to: ReplicaId, message: Peer, out: &mut Vec<Sent>) {
        let delay = match &message {
            PeerMessage::Protocol { message: Message::Proposal { block, .. }, .. } => {
                self.delay(cx, block.view, block.id())
            }
            _ => Duration::ZERO,
        };
        out.push(Sent { to, delay, message });
    }
}
