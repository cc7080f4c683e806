//! A flood of votes, time-outs, new-views and proposals of views far ahead, all signed with the
//! replica's own key.
//!
//! Six independent BFT code bases ran out of memory on it: maps keyed by a view that a peer
//! chooses.
//!
//! Answered by a few fixed places a peer for votes, one for time-outs, new-views and proposals
//! each, a limit on what of one peer waits for its verification (`flood`), and by joining no
//! time-out that fewer than f + 1 sent.

use quorate_core::protocols::hotstuff::Message;
use quorate_core::protocols::hotstuff::block::Block;
use quorate_core::{Digest, Duration, View};

use crate::{Adversary, Context, Rng, Sent, forge};

/// How often everybody gets a few of them, and how many.
const EVERY: Duration = Duration::from_millis(5);
const AT_ONCE: usize = 4;
/// The furthest view, counted from the present one.
const FURTHEST: u64 = 1 << 40;

#[derive(Debug)]
struct FutureViews {
    rng: Rng,
}

pub(crate) fn make(seed: u64) -> Box<dyn Adversary> {
    Box::new(FutureViews { rng: Rng::new(seed) })
}

impl FutureViews {
    /// Near views as often as far ones: the former fall into windows that the latter are beyond.
    fn ahead(&mut self, cx: &Context<'_>) -> View {
        let reach = [2, 16, 1000, FURTHEST];
        let reach = self.rng.pick(&reach).copied().unwrap_or(FURTHEST);
        cx.seen.view().plus(1 + self.rng.below(reach))
    }

    fn message(&mut self, cx: &Context<'_>) -> Option<Message> {
        let (view, high_qc) = (self.ahead(cx), cx.high_qc());
        Some(match self.rng.below(4) {
            0 => {
                let block = Digest::of("a block to come", &self.rng.draw().to_le_bytes());
                let phase = 1 + self.rng.below(u64::from(cx.facts.phases)) as u8;
                Message::Vote(cx.vote(view, phase, block))
            }
            1 => {
                let time_out = cx.time_out(view, &high_qc);
                Message::TimeOut { time_out, high_qc, high_tc: None, last_vote: None }
            }
            2 => Message::NewView { view, high_qc },
            _ => {
                let model: &Block = cx.seen.block(&high_qc.block())?;
                let block = forge::changed(model, |content| {
                    (content.view, content.proposer) = (view, cx.me);
                    (content.justify, content.height) = (high_qc, content.height.next());
                });
                Message::Proposal { block, tc: None }
            }
        })
    }
}

impl Adversary for FutureViews {
    fn tick(&mut self, cx: &Context<'_>, out: &mut Vec<Sent>) {
        for to in cx.others() {
            for _ in 0..AT_ONCE {
                out.extend(self.message(cx).map(|message| Sent::of(to, message)));
            }
        }
    }

    fn wants_tick(&self) -> Option<Duration> {
        Some(EVERY)
    }
}
