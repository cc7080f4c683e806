//! A session, told what happens line by line; what it does is written down.

use std::fmt::Write;
use std::sync::Arc;

use bytes::Bytes;
use quorate_core::base::types::{Digest, ReplicaId, Sequence, SessionId, Time};
use quorate_core::client::message::{Outcome, Refusal, Rejection, Response};
use quorate_core::client::{Input, Output, Packed, Session, SessionConfig};

use crate::MockSigner;

pub struct Script {
    pub session: Session,
    now: Time,
    trace: String,
}

pub const MILLISECOND: u64 = 1_000_000;

impl Script {
    pub fn new(change: impl FnOnce(&mut SessionConfig)) -> Self {
        let mut config = SessionConfig::new(Digest::default(), 4);
        change(&mut config);
        let session = Session::new(config, Arc::new(MockSigner), 10, Time(0));
        Self { session, now: Time(0), trace: String::new() }
    }

    /// A session that all four replicas know as number 5.
    pub fn opened(change: impl FnOnce(&mut SessionConfig)) -> Self {
        let mut script = Self::new(change);
        for replica in 0..4 {
            script.input(Input::Connected(ReplicaId(replica)));
        }
        for replica in 0..2 {
            script.say(replica, opened(10, 5));
        }
        script.trace.clear();
        script
    }

    pub fn input(&mut self, input: Input) {
        self.inputs([input]);
    }

    pub fn inputs(&mut self, inputs: impl IntoIterator<Item = Input>) {
        let mut outputs = Vec::new();
        self.session.step(self.now, inputs, &mut outputs);
        for output in outputs {
            self.write(&output);
        }
    }

    pub fn say(&mut self, from: u16, outcome: Outcome) {
        let response = Response::Outcome(outcome);
        self.input(Input::Response { from: ReplicaId(from), response });
    }

    pub fn refuse(&mut self, from: u16, session: u64, first: u64, reason: Refusal) {
        let (session, first) = (SessionId(session), Sequence(first));
        let response = Response::Refused { session, first, reason };
        self.input(Input::Response { from: ReplicaId(from), response });
    }

    /// Lets time pass without looking at the clock on the way.
    pub fn wait(&mut self, milliseconds: u64) {
        self.now = Time(self.now.0 + milliseconds * MILLISECOND);
        self.input(Input::Timeout);
    }

    pub fn now(&self) -> Time {
        self.now
    }

    /// Compares what was done since the last time with `expected`, line by line.
    pub fn expect(&mut self, expected: &str) {
        let lines = |text: &str| {
            let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        let trace = std::mem::take(&mut self.trace);
        assert_eq!(lines(&trace), lines(expected), "what the session did, and what it should");
    }

    fn write(&mut self, output: &Output) {
        let line = match output {
            Output::Send { to, relay, frame } => {
                let to = to.map_or("all".to_owned(), |to| format!("{to:?}"));
                let relay = if *relay { " relay" } else { "" };
                match frame.is_open() {
                    true => format!("{to}: open {}{relay}", frame.first().0),
                    false => format!(
                        "{to}: {:?} {:?}+{}{relay}",
                        frame.session(),
                        frame.first(),
                        frame.count()
                    ),
                }
            }
            Output::Opened(session) => format!("opened {session:?}"),
            Output::Done { id, result: Ok(replies) } => {
                let replies = replies.iter().map(|reply| String::from_utf8(reply.into()).unwrap());
                format!("{id} done: {}", replies.collect::<Vec<_>>().join(" "))
            }
            Output::Done { id, result: Err(error) } => format!("{id} failed: {error:?}"),
            Output::Ended(fatal) => format!("ended: {fatal:?}"),
        };
        writeln!(self.trace, "{line}").unwrap();
    }
}

pub fn submit(id: u64, commands: &[&str]) -> Input {
    Input::Submit { id, batch: Packed::commands(commands).unwrap(), give_up: None }
}

pub fn opened(incarnation: u64, session: u64) -> Outcome {
    Outcome::Opened { incarnation, session: SessionId(session) }
}

pub fn executed(session: u64, first: u64, replies: &[&str]) -> Outcome {
    Outcome::Executed {
        session: SessionId(session),
        first: Sequence(first),
        count: replies.len() as u32,
        replies: Packed::commands(replies).map_or(Bytes::new(), |packed| packed.body().clone()),
    }
}

pub fn rejected(session: u64, first: u64, reason: Rejection) -> Outcome {
    Outcome::Rejected { session: SessionId(session), first: Sequence(first), reason }
}
