//! Time-outs without end, of the present view and of past ones, whether anything is late or not.
//!
//! Where fewer than f + 1 time-outs make others give up, f liars end every view before it began;
//! where every old time-out is answered with certificates, one liar makes all others spend n times
//! what it spends.
//!
//! Answered by joining the (f + 1)-th highest only, by one place a peer, and by answering an old
//! time-out only if its sender is seen to be behind.

use quorate_core::protocols::hotstuff::Message;
use quorate_core::protocols::hotstuff::certificate::Qc;
use quorate_core::{Duration, View};

use crate::{Adversary, Context, Rng, Sent};

const EVERY: Duration = Duration::from_millis(2);

#[derive(Debug)]
struct TimeOutSpammer {
    rng: Rng,
}

pub(crate) fn make(seed: u64) -> Box<dyn Adversary> {
    Box::new(TimeOutSpammer { rng: Rng::new(seed) })
}

impl Adversary for TimeOutSpammer {
    fn tick(&mut self, cx: &Context<'_>, out: &mut Vec<Sent>) {
        let now = cx.seen.view();
        if now == View(0) {
            return;
        }
        let (view, high_qc) = if self.rng.percent(70) {
            let ahead = self.rng.below(2);
            (now.plus(ahead), cx.high_qc())
        } else {
            (View(1 + self.rng.below(now.0)), Qc::genesis(cx.genesis()))
        };
        if high_qc.view() > view {
            return;
        }
        let time_out = cx.time_out(view, &high_qc);
        let message = Message::TimeOut { time_out, high_qc, high_tc: None, last_vote: None };
        out.extend(cx.others().map(|to| Sent::of(to, message.clone())));
    }

    fn wants_tick(&self) -> Option<Duration> {
        Some(EVERY)
    }
}
