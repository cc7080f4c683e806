//! A small cluster with a true ledger: replicas that lie, lose connections and answer late must
//! not make the client believe a wrong answer, and with a quorum alive everything completes.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use quorate_core::base::membership;
use quorate_core::base::types::{Digest, ReplicaId, Sequence, SessionId, Time};
use quorate_core::client::message::{Outcome, Refusal, Rejection, Response};
use quorate_core::client::{ClientError, Input, Output, Packed, Route, Session, SessionConfig};
use quorate_core::ledger::frame::SharedFrame;

use crate::MockSigner;

/// What the correct replicas agree on.
#[derive(Default)]
struct Ledger {
    sessions: u64,
    /// The session that counts, and its request's incarnation.
    open: Option<(SessionId, u64)>,
    next: u64,
    answers: BTreeMap<(SessionId, Sequence), Outcome>,
    /// Commands executed, in order.
    executed: Vec<Bytes>,
}

impl Ledger {
    /// Orders `frame`; what every correct replica answers, if anything yet.
    fn order(&mut self, frame: &SharedFrame) -> Option<Outcome> {
        let (session, first) = (frame.session(), frame.first());
        let reject = |reason| Some(Outcome::Rejected { session, first, reason });
        if frame.is_open() {
            match self.open {
                Some((_, incarnation)) if incarnation >= first.0 => {}
                _ => {
                    self.sessions += 1;
                    self.open = Some((SessionId(self.sessions), first.0));
                    self.next = 1;
                }
            }
            let (session, incarnation) = self.open?;
            return Some(Outcome::Opened { incarnation, session });
        }
        if self.open.is_none_or(|(open, _)| open != session) {
            return reject(Rejection::UnknownSession);
        }
        if let Some(answer) = self.answers.get(&(session, first)) {
            return Some(answer.clone());
        }
        if first.0 != self.next {
            return None;
        }
        let mut replies = Vec::new();
        for command in frame.commands() {
            replies.push(reply(command, self.next));
            self.next += 1;
            self.executed.push(Bytes::copy_from_slice(command));
        }
        let replies = Packed::commands(replies).unwrap().body().clone();
        let outcome = Outcome::Executed { session, first, count: frame.count(), replies };
        self.answers.insert((session, first), outcome.clone());
        Some(outcome)
    }
}

/// The one right reply to a command at a place in its session.
fn reply(command: &[u8], place: u64) -> Vec<u8> {
    [command, b"@", &place.to_le_bytes()].concat()
}

struct World {
    session: Session,
    now: Time,
    n: u16,
    liars: u16,
    ledger: Ledger,
    /// Frames that correct replicas hold.
    pool: Vec<SharedFrame>,
    /// Answers on their way, in order for each replica.
    answers: BTreeMap<u16, Vec<Outcome>>,
    connected: Vec<bool>,
    submitted: u64,
    done: BTreeMap<u64, Result<Packed, ClientError>>,
}

const BATCH: u64 = 3;

impl World {
    fn new(n: u16, route: Route, window: usize) -> Self {
        let mut config = SessionConfig::new(Digest::default(), usize::from(n));
        config.route = route;
        config.window = window;
        config.frame_commands = 7;
        let session = Session::new(config, Arc::new(MockSigner), 1, Time(0));
        let liars = membership::faults(usize::from(n)) as u16;
        Self {
            session,
            now: Time(0),
            n,
            liars,
            ledger: Ledger::default(),
            pool: Vec::new(),
            answers: BTreeMap::new(),
            connected: vec![false; usize::from(n)],
            submitted: 0,
            done: BTreeMap::new(),
        }
    }

    fn step(&mut self, input: Input) {
        let mut outputs = Vec::new();
        self.session.step(self.now, [input], &mut outputs);
        for output in outputs {
            match output {
                Output::Send { to, relay, frame } => self.carry(to, relay, &frame),
                Output::Done { id, result } => {
                    assert!(self.done.insert(id, result).is_none(), "batch {id} done twice");
                }
                Output::Opened(session) => {
                    assert!(session.0 <= self.ledger.sessions, "{session:?} was never opened");
                }
                Output::Ended(fatal) => panic!("liars ended the session: {fatal}"),
            }
        }
    }

    /// A frame arrives at the correct replicas among its receivers. A liar drops it.
    fn carry(&mut self, to: Option<ReplicaId>, relay: bool, frame: &SharedFrame) {
        let arrives = (self.liars..self.n).any(|replica| {
            self.connected[usize::from(replica)] && to.is_none_or(|to| to == ReplicaId(replica))
        });
        assert!(relay || to.is_some() || self.connected.iter().all(|connected| *connected));
        if arrives {
            self.pool.push(frame.clone());
        }
    }

    fn connect(&mut self, replica: u16) {
        self.connected[usize::from(replica)] = true;
        self.step(Input::Connected(ReplicaId(replica)));
    }

    fn submit(&mut self) {
        let id = self.submitted;
        self.submitted += 1;
        let commands = (0..=id % BATCH).map(|i| format!("{id}.{i}"));
        let batch = Packed::commands(commands).unwrap();
        self.step(Input::Submit { id, batch, give_up: None });
    }

    /// Orders one of the frames held, with its answers on their way from all correct replicas.
    fn order(&mut self, choice: usize) {
        if self.pool.is_empty() {
            return;
        }
        let frame = self.pool[choice % self.pool.len()].clone();
        let Some(outcome) = self.ledger.order(&frame) else { return };
        for replica in self.liars..self.n {
            if self.connected[usize::from(replica)] {
                self.answers.entry(replica).or_default().push(outcome.clone());
            }
        }
    }

    fn deliver(&mut self, replica: u16) {
        let Some(queue) = self.answers.get_mut(&replica) else { return };
        if !queue.is_empty() {
            let response = Response::Outcome(queue.remove(0));
            self.step(Input::Response { from: ReplicaId(replica), response });
        }
    }

    /// A liar says something about a frame the client may be waiting for. All liars agree.
    fn lie(&mut self, choice: u64) {
        let session = SessionId(self.ledger.sessions.max(1));
        let first = Sequence(1 + (choice / 8) % (self.ledger.next + 8));
        let count = 1 + (choice / 64 % 7) as u32;
        let replies = Packed::commands(vec!["lie"; count as usize]).unwrap().body().clone();
        let incarnation = 1 + choice / 8 % 4;
        let response = match choice % 8 {
            0 => Response::Outcome(Outcome::Opened { incarnation, session: SessionId(77) }),
            1 => Response::Outcome(Outcome::Rejected {
                session,
                first,
                reason: Rejection::UnknownSession,
            }),
            2 => Response::Outcome(Outcome::Rejected {
                session: SessionId(0),
                first: Sequence(incarnation),
                reason: Rejection::TooManySessions,
            }),
            3 => Response::Refused { session, first, reason: Refusal::TooLarge },
            4 => Response::Refused { session, first, reason: Refusal::Busy },
            5 => Response::Refused {
                session: SessionId(0),
                first: Sequence(incarnation),
                reason: Refusal::BadSignature,
            },
            _ => Response::Outcome(Outcome::Executed { session, first, count, replies }),
        };
        for liar in 0..self.liars {
            self.step(Input::Response { from: ReplicaId(liar), response: response.clone() });
        }
    }

    fn disconnect(&mut self, replica: u16) {
        self.connected[usize::from(replica)] = false;
        self.answers.remove(&replica);
        self.step(Input::Disconnected(ReplicaId(replica)));
    }

    fn act(&mut self, kind: u8, choice: u64) {
        let replica = (choice % u64::from(self.n)) as u16;
        match kind {
            0..=2 => self.submit(),
            3..=6 => self.order(choice as usize),
            7..=10 => self.deliver(replica),
            11..=12 => self.lie(choice),
            13 => match self.connected[usize::from(replica)] {
                true => self.disconnect(replica),
                false => self.connect(replica),
            },
            14 => {
                self.now = Time(self.now.0 + choice % 1_000_000_000);
                self.step(Input::Timeout);
            }
            // The session expires, as every correct replica agrees.
            _ if choice.is_multiple_of(4) => self.ledger.open = None,
            _ => {}
        }
    }

    /// The correct replicas are connected and everything is ordered and delivered, while the
    /// liars go on.
    fn settle(&mut self, lies: &[u64]) {
        for replica in self.liars..self.n {
            if !self.connected[usize::from(replica)] {
                self.connect(replica);
            }
        }
        for round in 0..200 {
            for choice in 0..self.pool.len() {
                self.order(choice);
            }
            for replica in self.liars..self.n {
                while self.answers.get(&replica).is_some_and(|queue| !queue.is_empty()) {
                    self.deliver(replica);
                    if let Some(lie) = lies.get(round % lies.len().max(1)) {
                        self.lie(*lie);
                    }
                }
            }
            if self.done.len() as u64 == self.submitted {
                return;
            }
            let deadline = self.session.deadline().expect("something is under way");
            self.now = self.now.max(deadline);
            self.step(Input::Timeout);
        }
        panic!("{} of {} batches are done", self.done.len(), self.submitted);
    }

    fn check(&self) {
        let executed = &self.ledger.executed;
        let times = |command: &str| executed.iter().filter(|other| **other == command).count();
        for (id, result) in &self.done {
            let commands = (0..=id % BATCH).map(|i| format!("{id}.{i}")).collect::<Vec<_>>();
            match result {
                Ok(replies) => {
                    assert_eq!(replies.len(), commands.len());
                    for (command, reply) in commands.iter().zip(replies.iter()) {
                        assert_eq!(times(command), 1);
                        let is_right = reply.starts_with(format!("{command}@").as_bytes());
                        assert!(is_right, "a lie was believed: {command} {reply:?}");
                    }
                }
                Err(ClientError::Ambiguous(_)) => {
                    assert!(commands.iter().all(|command| times(command) <= 1));
                }
                Err(error) => panic!("batch {id}: {error}"),
            }
        }
        let ids = executed.iter().map(|command| {
            let text = std::str::from_utf8(command).unwrap();
            let (id, place) = text.split_once('.').unwrap();
            (id.parse::<u64>().unwrap(), place.parse::<u64>().unwrap())
        });
        assert!(ids.collect::<Vec<_>>().is_sorted(), "commands were executed out of order");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..Default::default() })]

    #[test]
    fn no_lie_is_believed_and_everything_completes_once(
        n in prop::sample::select(vec![1u16, 2, 4, 5, 7]),
        one in any::<bool>(),
        window in 1usize..5,
        expiries in any::<bool>(),
        acts in prop::collection::vec((0u8..16, any::<u64>()), 0..300),
        lies in prop::collection::vec(any::<u64>(), 1..20),
    ) {
        let route = if one { Route::One { first: ReplicaId(0) } } else { Route::All };
        let mut world = World::new(n, route, window);
        for replica in 0..n {
            world.connect(replica);
        }
        for (kind, choice) in acts {
            if kind < 15 || expiries {
                world.act(kind, choice);
            }
        }
        world.settle(&lies);
        world.check();
        if !expiries {
            prop_assert!(world.done.values().all(Result::is_ok));
            let commands = (0..world.submitted).map(|id| id % BATCH + 1).sum::<u64>();
            prop_assert_eq!(world.ledger.executed.len() as u64, commands);
        }
    }
}
