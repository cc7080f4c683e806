//! Asking samples, answering others, and what answers come to.

use super::tree::{Answers, Vote};
use super::words::{Message, Place};
use super::{Fx, Snowman};
use crate::base::types::{Height, ReplicaId, Time};
use crate::ledger::block::BlockId;
use crate::protocols::protocol::Output;
use crate::protocols::snow::sampling::Asked;

impl Snowman {
    /// Begins polls and ends them, as far as that is possible now.
    pub(super) fn poll(&mut self, now: Time, fx: &mut Fx) {
        loop {
            let ended = self.end_polls(now, fx);
            let began = self.begin_poll(now, fx);
            if !ended && !began {
                return;
            }
        }
    }

    /// When polls are to be looked at again.
    pub(super) fn poll_deadline(&self) -> Option<Time> {
        if self.tree.is_empty() || self.is_frozen() {
            return None;
        }
        let may_begin = self.polls.open.len() < self.settings.polls;
        let first = self.polls.open.front().map(|poll| poll.ends);
        first.into_iter().chain(may_begin.then_some(self.pace.next)).min()
    }

    fn begin_poll(&mut self, now: Time, fx: &mut Fx) -> bool {
        let may = self.polls.open.len() < self.settings.polls.max(1) && now >= self.pace.next;
        if self.tree.is_empty() || self.is_frozen() || !may {
            return false;
        }
        let mut asked = Vec::new();
        match &mut self.sampler {
            Some(sampler) => {
                sampler.draw(&mut self.random, self.domain.parameters().sample, &mut asked);
            }
            None => {
                let others = self.domain.committee().replicas().filter(|id| *id != self.me);
                asked.extend(others.map(|peer| Asked { peer, seats: 1 }));
            }
        }
        let poll = self.polls.begin(now, asked);
        let (tip, accepted) = (self.tip(), self.accepted.head().height());
        let waiting = self.polls.open.back().map(|poll| poll.waiting.as_slice());
        for Asked { peer, .. } in waiting.unwrap_or_default() {
            fx.output(Output::Send { to: *peer, message: Message::Query { poll, tip, accepted } });
        }
        // At about even distances, so that each sees another state of the others.
        let spacing = self.polls.spacing(self.settings.polls);
        let jitter = self.random.below(spacing.as_nanos() as u64 + 1);
        self.pace.wait_until(Time(now.after(spacing / 2).0.saturating_add(jitter)));
        true
    }

    /// Ends polls in the order in which they began. Says whether one was.
    fn end_polls(&mut self, now: Time, fx: &mut Fx) -> bool {
        if self.tree.is_empty() {
            self.polls.open.clear();
            return false;
        }
        let quorum = self.domain.parameters().quorum;
        let mut has_ended = false;
        while let Some(poll) = self.polls.open.front() {
            let own = self.domain.asks_all().then(|| self.tree.tip());
            let mut votes = poll.votes.clone();
            let accepted = self.accepted.head().height();
            votes.extend(own.map(|block| Vote { block, seats: 1, accepted }));
            let seats = poll.seats + u32::from(own.is_some());
            let last_words = match self.domain.asks_all() {
                true => {
                    planted!("snowman-last-words-forgotten", vec![], self.polls.last_words(now))
                }
                false => Vec::new(),
            };
            let (waiting, last_words) = (poll.waiting_seats(), &last_words[..]);
            let answers = Answers { poll: poll.number, votes: &votes, last_words, waiting };
            if now < poll.ends && !self.tree.is_final(answers) {
                break;
            }
            let successful = self.tree.polled(answers, &mut self.random);
            self.polls.open.pop_front();
            self.polls.ended(seats >= quorum);
            has_ended = true;
            if let Some(frosty) = self.frosty.as_mut().filter(|_| !successful) {
                frosty.failed();
            }
            self.pace.ended(now, successful, &mut self.random);
            while let Some(decided) = self.tree.decided() {
                self.accept(vec![decided], fx);
            }
        }
        has_ended
    }

    /// The tip of the chain that this replica prefers.
    pub(super) fn tip(&self) -> Place {
        let preferred = self.tree.preferred();
        Place::of(preferred.last().unwrap_or(self.accepted.head()))
    }

    /// The block of the preferred chain at a height, as far as it is known.
    pub(super) fn preferred_at(&self, height: Height) -> Option<BlockId> {
        let head = self.accepted.head().height();
        match height.0.checked_sub(head.0 + 1) {
            None => self.accepted.name_at(height),
            Some(place) => self.tree.preferred().get(usize::try_from(place).ok()?).map(|b| b.id()),
        }
    }

    pub(super) fn on_query(&mut self, from: ReplicaId, poll: u64, theirs: Place, fx: &mut Fx) {
        let (tip, at) = self.answer(theirs.height);
        let message = Message::Answer { poll, tip, at, accepted: self.accepted_of_answer() };
        fx.output(Output::Send { to: from, message });
    }

    pub(super) fn on_answer(
        &mut self,
        now: Time,
        from: ReplicaId,
        poll: u64,
        (tip, at, accepted): (Place, Option<BlockId>, Height),
    ) {
        let named = [Some(tip.block), at].into_iter().flatten();
        let vote = named.into_iter().find(|block| self.tree.get(block).is_some());
        self.polls.answered(now, from, poll, vote, accepted);
    }
}
