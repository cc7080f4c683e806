//! Asking samples, and what their answers come to.

use std::sync::Arc;

use super::super::sampling::Asked;
use super::Avalanche;
use super::interface::{Effects, Output, Past};
use super::message::{Message, Vote};
use super::polls::Poll;
use super::settings::Counters;
use super::state::Fate;
use super::vertex::Transaction;
use super::why::LastPoll;
use crate::base::types::{ReplicaId, Time};

impl<T: Transaction> Avalanche<T> {
    /// Begins polls, as many as may be under way.
    pub(super) fn ask(&mut self, now: Time, fx: &mut Effects<T>) {
        let mut asked = Vec::new();
        while self.polls.open.len() < self.settings.polls {
            let Some((id, own, repeated)) = self.polls.queue.pop_front() else { return };
            let Some(at) = self.dag.vertices.get(&id).copied() else {
                self.polls.own -= usize::from(own);
                continue;
            };
            let vertex = Arc::clone(&self.dag.slots[at].vertex);
            self.sampler.draw(&mut self.random, self.settings.parameters.sample, &mut asked);
            let silent = |peer| self.silent.0.contains(&peer);
            let (dumb, waiting): (Vec<_>, Vec<_>) =
                asked.iter().copied().partition(|asked| silent(asked.peer));
            let missing = dumb.iter().map(|asked| asked.seats).sum();
            let peers: Vec<_> = waiting.iter().map(|asked| asked.peer).collect();
            let against = Vec::new();
            let poll = Poll { vertex: id, waiting, yes: 0, no: 0, missing, against, repeated, own };
            let poll = self.polls.add(poll, now.after(self.settings.poll_timeout));
            for to in peers {
                let message = Message::Query { poll, vertex: Arc::clone(&vertex) };
                fx.output(Output::Send { to, message });
            }
        }
    }

    pub(super) fn on_answer(
        &mut self,
        now: Time,
        from: ReplicaId,
        number: u64,
        vote: Vote,
        past: &dyn Past,
        fx: &mut Effects<T>,
    ) {
        let Some(poll) = self.polls.open.get_mut(&number) else {
            // Most are answers to polls that ended early; they are not told from made-up ones.
            self.counts.unasked += 1;
            return;
        };
        let is_asked =
            |asked: &Asked| planted!("avalanche-unasked-answer-counts", true, asked.peer == from);
        let Some(place) = poll.waiting.iter().position(is_asked) else {
            self.counts.unasked += 1;
            return;
        };
        let Asked { seats, .. } = planted!(
            "avalanche-answer-counts-twice",
            poll.waiting[place],
            poll.waiting.swap_remove(place)
        );
        match vote {
            Vote::Yes => poll.yes += seats,
            Vote::No(mut against) => {
                poll.no += seats;
                against.truncate(super::message::MAX_AGAINST);
                poll.against.push((seats, against));
            }
        }
        self.end_if_decided(now, number, past, fx);
    }

    /// A peer that was asked will not answer.
    pub(super) fn unanswered(
        &mut self,
        now: Time,
        peer: ReplicaId,
        number: u64,
        past: &dyn Past,
        fx: &mut Effects<T>,
    ) {
        if let Some(poll) = self.polls.open.get_mut(&number) {
            poll.waiting.retain(|asked| {
                let gone = asked.peer == peer;
                poll.missing += if gone { asked.seats } else { 0 };
                !gone
            });
            self.end_if_decided(now, number, past, fx);
        }
    }

    /// The time of a poll is over.
    pub(super) fn expire(&mut self, now: Time, number: u64, past: &dyn Past, fx: &mut Effects<T>) {
        if let Some(poll) = self.polls.open.get_mut(&number) {
            let silent: u32 = poll.waiting.drain(..).map(|asked| asked.seats).sum();
            poll.yes += planted!("avalanche-silence-is-assent", silent, 0);
            poll.missing += silent;
            self.end_if_decided(now, number, past, fx);
        }
    }

    fn end_if_decided(&mut self, now: Time, number: u64, past: &dyn Past, fx: &mut Effects<T>) {
        let Some(poll) = self.polls.open.get(&number) else { return };
        let numbers = self.settings.parameters;
        let needed = planted!("avalanche-won-below-alpha", numbers.quorum - 1, numbers.quorum);
        let (won, lost) = (poll.yes >= needed, poll.no > numbers.sample - numbers.quorum);
        let still = poll.waiting.iter().map(|asked| asked.seats).sum::<u32>();
        let hopeless = poll.yes + still < numbers.quorum;
        if !(won || lost || hopeless) {
            return;
        }
        let Some(poll) = self.polls.remove(number) else { return };
        let at = self.dag.vertices.get(&poll.vertex).copied();
        let repeat = !won && !lost && poll.repeated < self.settings.repeats;
        if repeat && at.is_some() {
            self.counts.polls_repeated += 1;
            self.polls.queue.push_back((poll.vertex, poll.own, poll.repeated + 1));
            return;
        }
        self.polls.own -= usize::from(poll.own);
        self.counts.polls_won += u64::from(won);
        self.counts.polls_lost += u64::from(!won);
        let Some(at) = at else { return };
        let (yes, no, missing) = (poll.yes, poll.no, poll.missing + still);
        self.dag.slots[at].last_poll = Some(LastPoll { at: now, yes, no, missing });
        if won {
            self.own.progress(self.settings.no_op_after);
            let touched = self.dag.succeed(at);
            let mut decided = Vec::new();
            self.dag.decide(touched, &numbers, past, &mut decided);
            self.tell(decided, fx);
            if self.own.no_op_at.is_none() {
                self.await_no_op(now);
            }
        } else if self.dag.slots[at].fate == Fate::Pending {
            match self.settings.counters {
                Counters::WhitePaper => self.dag.fail_all(at),
                Counters::Glacier => {
                    self.dag.fail_named(at, &poll.against, numbers.sample - numbers.quorum);
                }
            }
        }
    }
}
