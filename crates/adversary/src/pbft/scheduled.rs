//! Several adversaries, each in its window: what one leaves goes through the next.

use quorate_core::{Duration, ReplicaId, Time};

use super::{Adversary, Context, Peer, Sent};
use crate::Window;

#[derive(Debug)]
struct Part {
    window: Window,
    adversary: Box<dyn Adversary>,
    tick_due: Time,
}

#[derive(Debug)]
struct Scheduled {
    parts: Vec<Part>,
}

/// All of them, each in its window.
pub(crate) fn scheduled(parts: Vec<(Window, Box<dyn Adversary>)>) -> Box<dyn Adversary> {
    let part = |(window, adversary)| Part { window, adversary, tick_due: Time(0) };
    Box::new(Scheduled { parts: parts.into_iter().map(part).collect() })
}

impl Scheduled {
    fn open(&mut self, now: Time) -> impl Iterator<Item = &mut Part> {
        self.parts.iter_mut().filter(move |part| part.window.is_open(now))
    }
}

impl Adversary for Scheduled {
    fn sends(&mut self, cx: &Context<'_>, to: ReplicaId, message: Peer, out: &mut Vec<Sent>) {
        let mut under_way = vec![Sent::now(to, message)];
        for part in self.open(cx.now) {
            let mut behind = Vec::new();
            for Sent { to, delay, message } in under_way.drain(..) {
                let first = behind.len();
                part.adversary.sends(cx, to, message, &mut behind);
                behind[first..].iter_mut().for_each(|sent| sent.delay += delay);
            }
            under_way = behind;
        }
        out.append(&mut under_way);
    }

    fn tick(&mut self, cx: &Context<'_>, out: &mut Vec<Sent>) {
        for part in self.open(cx.now) {
            if let Some(span) = part.adversary.wants_tick()
                && part.tick_due <= cx.now
            {
                part.tick_due = cx.now.after(span);
                part.adversary.tick(cx, out);
            }
        }
    }

    /// The shortest of all.
    fn wants_tick(&self) -> Option<Duration> {
        self.parts.iter().filter_map(|part| part.adversary.wants_tick()).min()
    }
}
