//! The session table spelled out: one command at a time, every reply by its number.

use std::collections::BTreeMap;

use quorate_core::base::crypto::PublicKey;
use quorate_core::client::message::{Outcome, Rejection};
use quorate_core::ledger::frame::SharedFrame;
use quorate_core::ledger::sessions::{ANSWER_OVERHEAD_BYTES, Limits};
use quorate_core::{Sequence, SessionId};

use crate::fixtures::journal_reply;

pub struct Model {
    limits: Limits,
    sessions: BTreeMap<u64, Session>,
    opened: u64,
    /// How many blocks turned newcomers away since a session gave way for it.
    turned_away: u64,
    pub journal: Vec<Vec<u8>>,
}

struct Session {
    key: PublicKey,
    incarnation: u64,
    active: u64,
    next: u64,
    waiting: Vec<SharedFrame>,
    /// The executions whose replies are kept, oldest first.
    kept: Vec<BTreeMap<u64, Vec<u8>>>,
}

type Told = Vec<(PublicKey, Outcome)>;

impl Model {
    pub fn new(limits: Limits) -> Self {
        Self { limits, sessions: BTreeMap::new(), opened: 0, turned_away: 0, journal: Vec::new() }
    }

    pub fn execute(&mut self, height: u64, frames: &[SharedFrame]) -> Told {
        let mut told = Vec::new();
        for frame in frames {
            if frame.is_open() {
                self.open(height, frame, &mut told);
            } else {
                self.commands(height, frame, &mut told);
            }
        }
        let full = |(_, outcome): &(_, Outcome)| {
            matches!(outcome, Outcome::Rejected { reason: Rejection::TooManySessions, .. })
        };
        self.turned_away += u64::from(told.iter().any(full));
        told
    }

    fn open(&mut self, height: u64, frame: &SharedFrame, told: &mut Told) {
        let (key, incarnation) = (frame.key(), frame.first().0);
        let own = self.sessions.iter().find(|(_, session)| session.key == key);
        let own = own.map(|(id, session)| (*id, session.incarnation));
        let mut verdict = Ok(());
        match own {
            Some((id, live)) if live >= incarnation => {
                let outcome = Outcome::Opened { incarnation: live, session: SessionId(id) };
                return told.push((key, outcome));
            }
            Some((id, _)) => self.end(id, told),
            None if self.sessions.len() == self.limits.max_sessions as usize => {
                let idlest = self.sessions.iter().min_by_key(|(id, s)| (s.active, **id));
                let (id, active) = idlest.map(|(id, s)| (*id, s.active)).expect("a full table");
                let idle = height - active;
                let waited = self.turned_away * (self.limits.min_idle_blocks / 8).max(1);
                if idle >= self.limits.min_idle_blocks {
                    self.end(id, told);
                } else if idle > 0 && idle + waited >= self.limits.min_idle_blocks {
                    self.turned_away = 0;
                    self.end(id, told);
                } else {
                    verdict = Err(Rejection::TooManySessions);
                }
            }
            None => {}
        }
        if let Err(reason) = verdict {
            return told.push((key, reject(frame, reason)));
        }
        self.opened += 1;
        let (waiting, kept) = (Vec::new(), Vec::new());
        let session = Session { key, incarnation, active: height, next: 1, waiting, kept };
        self.sessions.insert(self.opened, session);
        told.push((key, Outcome::Opened { incarnation, session: SessionId(self.opened) }));
    }

    fn end(&mut self, id: u64, told: &mut Told) {
        let mut session = self.sessions.remove(&id).expect("a live session");
        session.waiting.sort_by_key(|frame| (frame.first(), frame.id()));
        for frame in session.waiting {
            told.push((session.key, reject(&frame, Rejection::UnknownSession)));
        }
    }

    fn commands(&mut self, height: u64, frame: &SharedFrame, told: &mut Told) {
        let (key, limits) = (frame.key(), self.limits);
        let Some(session) = self.sessions.get_mut(&frame.session().0) else {
            return told.push((key, reject(frame, Rejection::UnknownSession)));
        };
        if session.key != key {
            return told.push((key, reject(frame, Rejection::ForeignSession)));
        }
        if frame.first().0 > session.next {
            if session.waiting.iter().any(|waiting| waiting.id() == frame.id()) {
                return;
            }
            let bytes: usize = session.waiting.iter().map(|f| f.encoded_bytes().len()).sum();
            if session.waiting.len() >= limits.window_frames as usize
                || bytes + frame.encoded_bytes().len() > limits.window_bytes as usize
                || frame.first().0 - session.next >= limits.window_commands
            {
                return told.push((key, reject(frame, Rejection::BeyondWindow)));
            }
            session.waiting.push(frame.clone());
            session.active = height;
            return;
        }
        if frame.end().0 > session.next {
            session.active = height;
        }
        told.push((key, session.run(frame, &mut self.journal, &limits)));
        loop {
            let ready = session.waiting.iter().filter(|waiting| waiting.first().0 <= session.next);
            let Some(ready) = ready.min_by_key(|f| (f.first(), f.id())).cloned() else { break };
            session.waiting.retain(|waiting| waiting.id() != ready.id());
            told.push((key, session.run(&ready, &mut self.journal, &limits)));
        }
    }
}

impl Session {
    fn run(&mut self, frame: &SharedFrame, journal: &mut Vec<Vec<u8>>, limits: &Limits) -> Outcome {
        let mut known: BTreeMap<u64, Vec<u8>> = self.kept.iter().flatten().map(own).collect();
        let mut replies = BTreeMap::new();
        for (number, command) in (frame.first().0..).zip(frame.commands()) {
            if number == self.next {
                replies.insert(number, journal_reply(journal.len(), command));
                journal.push(command.to_vec());
                self.next += 1;
            }
        }
        known.extend(replies.iter().map(own));
        if !replies.is_empty() {
            self.kept.push(replies);
        }
        while self.kept_bytes() > limits.answer_bytes as usize {
            self.kept.remove(0);
        }
        let answered: Vec<_> = known.range(frame.first().0..frame.end().0).collect();
        let Some((first, _)) = answered.first() else {
            return reject(frame, Rejection::AnswerForgotten);
        };
        let body = answered.iter().flat_map(|(_, reply)| {
            (reply.len() as u32).to_le_bytes().into_iter().chain(reply.iter().copied())
        });
        Outcome::Executed {
            session: frame.session(),
            first: Sequence(**first),
            count: answered.len() as u32,
            replies: body.collect::<Vec<u8>>().into(),
        }
    }

    fn kept_bytes(&self) -> usize {
        let run = |replies: &BTreeMap<u64, Vec<u8>>| {
            ANSWER_OVERHEAD_BYTES + replies.values().map(|reply| 4 + reply.len()).sum::<usize>()
        };
        self.kept.iter().map(run).sum()
    }
}

fn own((number, reply): (&u64, &Vec<u8>)) -> (u64, Vec<u8>) {
    (*number, reply.clone())
}

fn reject(frame: &SharedFrame, reason: Rejection) -> Outcome {
    Outcome::Rejected { session: frame.session(), first: frame.first(), reason }
}
