//! Old messages again: its own and others', to anybody, at any time; and old signatures under other
//! views, phases, kinds, epochs and names.
//!
//! Replay across chain, epoch and phase, and fields that do not match what
//! was signed (priority 0).
//!
//! Answered by a statement that names chain, epoch, protocol, kind, view and phase; by the channel,
//! which says whose message it is (`wrong_sender`); by `stale`; and by places that an old message
//! does not take from a newer one.

use std::collections::VecDeque;

use quorate_core::base::crypto::{Kind, Statement};
use quorate_core::protocols::hotstuff::Message;
use quorate_core::protocols::hotstuff::certificate::{TimeOut, Vote};
use quorate_core::protocols::protocol::Ballot;
use quorate_core::replica::message::PeerMessage;
use quorate_core::{Duration, ReplicaId, View};

use crate::{Adversary, Context, Peer, Rng, Sent};

const EVERY: Duration = Duration::from_millis(10);
/// Messages it remembers, of its own and of others each.
const REMEMBERED: usize = 128;

#[derive(Debug)]
struct Replayer {
    rng: Rng,
    own: VecDeque<Peer>,
    heard: VecDeque<Peer>,
}

pub(crate) fn make(seed: u64) -> Box<dyn Adversary> {
    Box::new(Replayer { rng: Rng::new(seed), own: VecDeque::new(), heard: VecDeque::new() })
}

/// Keeps one message; when there are many, every other of the older ones goes, so that some of long
/// ago stay.
fn remember(kept: &mut VecDeque<Peer>, message: &Peer) {
    kept.push_back(message.clone());
    if kept.len() > REMEMBERED {
        let mut at = 0;
        kept.retain(|_| {
            at += 1;
            at % 2 == 0
        });
    }
}

impl Replayer {
    /// The signature of an old vote or time-out of its own, said to be of something else.
    fn passed_off(&mut self, cx: &Context<'_>) -> Option<Message> {
        let own: Vec<&Message> = self
            .own
            .iter()
            .filter_map(|message| match message {
                PeerMessage::Protocol { message, .. } => Some(message),
                _ => None,
            })
            .collect();
        let old = Message::clone(self.rng.pick(&own)?);
        let view = View(cx.seen.view().0 + self.rng.below(3));
        let high_qc = cx.high_qc();
        Some(match old {
            Message::Vote(vote) if self.rng.percent(50) => {
                let ballot = Ballot { view, ..vote.ballot };
                Message::Vote(Vote { ballot, ..vote })
            }
            Message::Vote(vote) => {
                let (high_qc_view, replica) = (high_qc.view(), cx.me);
                let signature = vote.signature;
                let time_out = TimeOut { view, high_qc_view, replica, signature };
                Message::TimeOut { time_out, high_qc, high_tc: None, last_vote: None }
            }
            Message::TimeOut { time_out, .. } => {
                let ballot = Ballot { view, phase: 1, block: high_qc.block() };
                let (voter, signature) = (cx.me, time_out.signature);
                Message::Vote(Vote { ballot, voter, signature })
            }
            _ => Message::Vote(self.of_next_epoch(cx, view)),
        })
    }

    /// A vote as it would be signed in the next epoch.
    fn of_next_epoch(&mut self, cx: &Context<'_>, view: View) -> Vote {
        let committee = cx.domain.committee();
        let ballot = Ballot { view, phase: 1, block: cx.high_qc().block() };
        let (chain, epoch) = (committee.chain(), committee.epoch().next());
        let number = cx.facts.number;
        let statement = Statement::new(&chain, epoch, number, Kind::Vote, view, 1, &ballot.block);
        Vote { ballot, voter: cx.me, signature: cx.sign(&statement) }
    }
}

impl Adversary for Replayer {
    fn sends(&mut self, _: &Context<'_>, to: ReplicaId, message: Peer, out: &mut Vec<Sent>) {
        remember(&mut self.own, &message);
        out.push(Sent::now(to, message));
    }

    fn receives(&mut self, _: &Context<'_>, _: ReplicaId, message: &Peer) {
        remember(&mut self.heard, message);
    }

    fn tick(&mut self, cx: &Context<'_>, out: &mut Vec<Sent>) {
        for to in cx.others() {
            let message = match self.rng.below(3) {
                0 => self.own.get(self.rng.below(self.own.len() as u64) as usize).cloned(),
                1 => self.heard.get(self.rng.below(self.heard.len() as u64) as usize).cloned(),
                _ => self.passed_off(cx).map(PeerMessage::of),
            };
            out.extend(message.map(|message| Sent::now(to, message)));
        }
    }

    fn wants_tick(&self) -> Option<Duration> {
        Some(EVERY)
    }
}
