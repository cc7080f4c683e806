//! What a session makes of what replicas say.

use std::sync::Arc;

use super::error::{ClientError, Fatal, NotExecuted, Unknown};
use super::session::{InFlight, Output, Phase, Session, SessionConfig};
use super::votes::{Needed, Votes};
use crate::base::types::{Duration, ReplicaId, Sequence, SessionId, Time, View};
use crate::ledger::message::{Outcome, Refusal, Rejection, Response};
use crate::ledger::packed::Packed;

/// Which frame an answer is about.
enum Subject {
    Opening,
    /// The place in `in_flight`.
    Frame(usize),
}

impl Session {
    pub(super) fn respond(
        &mut self,
        now: Time,
        from: ReplicaId,
        response: Response,
        outputs: &mut Vec<Output>,
    ) {
        match response {
            Response::Outcome(outcome) => self.vote(now, from, outcome, None, outputs),
            Response::Tentative { view, outcome, .. } => {
                self.vote(now, from, outcome, Some(view), outputs);
            }
            Response::Refused { session, first, reason } => {
                if let Some(subject) = self.subject(session, first) {
                    self.refuse(now, from, &subject, reason, outputs);
                }
            }
            // Signed outcomes are for the driver to verify; the rest answers what a session does
            // not ask.
            Response::Signed { .. }
            | Response::Answer { .. }
            | Response::Blocks { .. }
            | Response::Proven { .. }
            | Response::Newest { .. }
            | Response::Unproven { .. }
            | Response::Handovers { .. }
            | Response::Clients { .. }
            | Response::Ready { .. }
            | Response::NotReady { .. }
            | Response::ReadyWithShares { .. }
            | Response::Generation { .. }
            | Response::Dealing { .. }
            | Response::Offer { .. }
            | Response::Chunk { .. }
            | Response::Changes { .. }
            | Response::Lists { .. }
            | Response::Program { .. }
            | Response::ReadIndex { .. }
            | Response::Reads { .. } => {}
        }
    }

    /// That a session is open under this key says something if this session is to be opened, and
    /// not under a higher incarnation still.
    fn opening_told(&self, incarnation: u64) -> Option<Subject> {
        let is_asked = matches!(self.phase, Phase::Opening(_)) && incarnation >= self.incarnation;
        is_asked.then_some(Subject::Opening)
    }

    fn subject(&self, session: SessionId, first: Sequence) -> Option<Subject> {
        if session == SessionId(0) {
            let asked = matches!(self.phase, Phase::Opening(_)) && first.0 == self.incarnation;
            return asked.then_some(Subject::Opening);
        }
        let is_it =
            |sent: &InFlight| sent.frame.session() == session && sent.frame.first() == first;
        self.in_flight.iter().position(is_it).map(Subject::Frame)
    }

    /// The frame that replies to the commands from `first` to before `end` belong to. They cover
    /// it to its end, but not from its beginning if those replies are forgotten.
    fn answered(&self, session: SessionId, first: Sequence, end: Sequence) -> Option<Subject> {
        let is_it = |sent: &InFlight| {
            let frame = &sent.frame;
            frame.session() == session
                && frame.end() == end
                && (frame.first()..end).contains(&first)
        };
        self.in_flight.iter().position(is_it).map(Subject::Frame)
    }

    /// A replica says what became of a frame, or, tentatively, what does so in a view.
    fn vote(
        &mut self,
        now: Time,
        from: ReplicaId,
        outcome: Outcome,
        tentative: Option<View>,
        outputs: &mut Vec<Output>,
    ) {
        let subject = match &outcome {
            Outcome::Opened { incarnation, session } if *session != SessionId(0) => {
                self.opening_told(*incarnation)
            }
            Outcome::Opened { .. } => None,
            Outcome::Executed { session, first, count, .. } => {
                self.answered(*session, *first, first.plus(u64::from(*count)))
            }
            Outcome::Rejected { session, first, .. } => self.subject(*session, *first),
        };
        let SessionConfig { faults, tentative: takes, .. } = self.config;
        let weights = Arc::clone(&self.weights);
        let weight = weights.iter().sum::<usize>();
        let quorum = planted!("tentative-answers-of-a-witness", faults + 1, weight - faults);
        let needed = Needed {
            weights: &weights,
            committed: faults + mutant!("client-believes-f", 0, 1),
            tentative: takes.then_some(quorum),
        };
        let add = |votes: &mut Votes| match tentative {
            None => votes.add(from, outcome, needed),
            Some(view) => votes.add_tentative(from, view, outcome, needed),
        };
        match (subject, &mut self.phase) {
            (Some(Subject::Opening), Phase::Opening(opening)) => {
                if let Some(outcome) = add(&mut opening.votes) {
                    self.settle_opening(now, &outcome, outputs);
                }
            }
            (Some(Subject::Frame(at)), _) => {
                let Some(sent) = self.in_flight.get_mut(at) else { return };
                if let Some(outcome) = add(&mut sent.votes) {
                    self.settle(now, at, outcome, outputs);
                }
            }
            _ => {}
        }
    }

    fn settle_opening(&mut self, now: Time, outcome: &Outcome, outputs: &mut Vec<Output>) {
        match outcome {
            Outcome::Opened { incarnation, session } if *incarnation == self.incarnation => {
                self.phase = Phase::Open { session: *session, next: Sequence(1) };
                self.was_open = true;
                outputs.push(Output::Opened(*session));
            }
            Outcome::Opened { incarnation, .. } => {
                self.is_superseded(now, *incarnation, outputs);
            }
            Outcome::Rejected { reason: Rejection::TooManySessions, .. } => {
                self.fail_waiting(NotExecuted::NoRoomForSession.into(), outputs);
                // The replicas count how often they turn newcomers away.
                self.reopen(now, self.config.retry_least);
            }
            Outcome::Rejected { reason, .. } => self.die(Fatal::Rejected(*reason), outputs),
            Outcome::Executed { .. } => {}
        }
    }

    /// A session of a higher incarnation is open under this key. It may be that of a process that
    /// ended and had a clock ahead of this one's: if this session takes over, it asks under the
    /// next one.
    fn is_superseded(&mut self, now: Time, by: u64, outputs: &mut Vec<Output>) {
        if self.config.takes_over && !self.was_open && by < u64::MAX {
            self.incarnation = by;
            self.reopen(now, Duration::ZERO);
        } else {
            self.die(Fatal::Superseded { by }, outputs);
        }
    }

    /// The frame at `at` has an outcome that f + 1 replicas agree on.
    fn settle(&mut self, now: Time, at: usize, outcome: Outcome, outputs: &mut Vec<Output>) {
        match outcome {
            Outcome::Executed { first, count, replies, .. } => {
                let Some(sent) = self.in_flight.remove(at) else { return };
                let once = sent.attempts == 1;
                self.pace.answered(once.then(|| now.since(sent.sent_at)));
                match Packed::parse(replies, count as usize) {
                    Some(replies) => self.hand_out(sent, first, replies, outputs),
                    None => self.fail(sent, Unknown::Malformed.into(), outputs),
                }
            }
            Outcome::Rejected { reason: Rejection::UnknownSession, .. } => {
                for sent in std::mem::take(&mut self.in_flight) {
                    self.fail(sent, Unknown::SessionEnded.into(), outputs);
                }
                if !matches!(self.phase, Phase::Dead(_)) {
                    self.reopen(now, Duration::ZERO);
                }
            }
            Outcome::Rejected { reason, .. } if reason.is_of_rights() => {
                for sent in std::mem::take(&mut self.in_flight) {
                    self.fail(sent, Unknown::RightsLost(reason).into(), outputs);
                }
                self.die(Fatal::Rejected(reason), outputs);
            }
            Outcome::Rejected { reason: Rejection::AnswerForgotten, .. } => {
                let Some(sent) = self.in_flight.remove(at) else { return };
                self.fail(sent, Unknown::ReplyForgotten.into(), outputs);
            }
            Outcome::Rejected { reason: Rejection::BeyondWindow, .. } => self.defer(now, at),
            Outcome::Rejected { reason, .. } => {
                self.end_from(at, Fatal::Rejected(reason), outputs);
            }
            Outcome::Opened { .. } => {}
        }
    }

    /// Gives each batch of a frame its replies, which begin with that to `first`.
    fn hand_out(
        &mut self,
        sent: InFlight,
        first: Sequence,
        mut replies: Packed,
        outputs: &mut Vec<Output>,
    ) {
        let mut forgotten = first.0.saturating_sub(sent.frame.first().0) as usize;
        for part in sent.parts {
            let missing = forgotten.min(part.count);
            forgotten -= missing;
            let own = replies.split_to(part.count - missing);
            let result = if missing == 0 { Ok(own) } else { Err(Unknown::ReplyForgotten.into()) };
            self.finish(&part, result, outputs);
        }
    }

    /// The frame at `at` came too early: the same bytes again, later, and fewer at a time. The
    /// numbers are never used for anything else: a copy of this frame, replayed by whoever has
    /// it, may still execute.
    fn defer(&mut self, now: Time, at: usize) {
        self.pace.slow_down(now);
        let Some(sent) = self.in_flight.get_mut(at) else { return };
        sent.votes = Default::default();
        sent.refusals.clear();
        sent.retry_at = now.after(self.pace.breath(sent.attempts));
    }

    fn refuse(
        &mut self,
        now: Time,
        from: ReplicaId,
        subject: &Subject,
        reason: Refusal,
        outputs: &mut Vec<Output>,
    ) {
        let sent = match (subject, &mut self.phase) {
            (Subject::Opening, Phase::Opening(opening)) => opening,
            (Subject::Frame(at), _) if *at < self.in_flight.len() => &mut self.in_flight[*at],
            _ => return,
        };
        sent.refusals.retain(|(replica, _)| *replica != from);
        sent.refusals.push((from, reason));
        let agreeing = sent.refusals.iter().filter(|(_, other)| *other == reason);
        let weight = |replica: &ReplicaId| self.weights.get(replica.index()).copied();
        let weight: usize = agreeing.filter_map(|(replica, _)| weight(replica)).sum();
        let believed = weight > self.config.faults;
        let alone = sent.target == Some(from);
        match reason {
            Refusal::BadSignature | Refusal::ForeignSession | Refusal::TooLarge if believed => {
                match subject {
                    Subject::Opening => self.die(Fatal::Refused(reason), outputs),
                    Subject::Frame(at) => self.end_from(*at, Fatal::Refused(reason), outputs),
                }
                return;
            }
            Refusal::Busy | Refusal::Unavailable if believed => {
                sent.refusals.clear();
                let again = now.after(self.pace.breath(sent.attempts));
                sent.retry_at = sent.retry_at.min(again);
                self.pace.slow_down(now);
            }
            _ => {}
        }
        if alone {
            self.leave_target(now, from);
        }
    }

    /// The frame at `at` can never execute, so none after it can. Those before it go on.
    fn end_from(&mut self, at: usize, fatal: Fatal, outputs: &mut Vec<Output>) {
        for sent in self.in_flight.split_off(at) {
            self.fail(sent, ClientError::Fatal(fatal), outputs);
        }
        self.die(fatal, outputs);
    }

    fn die(&mut self, fatal: Fatal, outputs: &mut Vec<Output>) {
        self.phase = Phase::Dead(fatal);
        self.fail_waiting(fatal.into(), outputs);
        outputs.push(Output::Ended(fatal));
    }
}
