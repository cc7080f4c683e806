//! A client on virtual time: the session of production, with commands that name themselves.
//!
//! A command reads `client:number`, numbered from 1 without a gap, so that whoever sees the list of
//! executed commands knows which are missing, twice there, or made up.

use std::collections::BTreeMap;
use std::sync::Arc;

use quorate_core::base::crypto::{Check, ClientSigner as _, PublicKey, Verified};
use quorate_core::base::membership::Rules;
use quorate_core::base::types::Sequence;
use quorate_core::client::message::Response;
use quorate_core::client::{BatchId, Input, Output, Packed, Session, SessionConfig};
use quorate_core::ledger::frame::SharedFrame;
use quorate_core::{Duration, ReplicaId, Time};

use super::config::Config;
use super::keys::{CHAIN, Key};

/// To which replicas a client is connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Targets {
    /// To every replica.
    All,
    /// To this one alone, asking it to pass new frames on at once or not (repeated ones: always).
    One {
        /// Which.
        replica: usize,
        /// Pass new frames on.
        relay: bool,
    },
}

/// What a client wants sent.
pub struct Sent {
    /// To whom; `None`: to all it is connected to.
    pub to: Option<usize>,
    /// The request's flag.
    pub relay: bool,
    /// The frame.
    pub frame: SharedFrame,
}

/// A client and what it knows of its commands.
pub struct Client {
    /// Names it.
    pub id: usize,
    key: Key,
    session: Session,
    targets: Targets,
    /// It connects when it is first used.
    connected: bool,
    replicas: usize,
    patience: Duration,
    /// It takes tentative answers.
    tentative: bool,
    incarnation: u64,
    next_command: u64,
    next_batch: BatchId,
    /// Its session's frames up to here were sent once.
    sent: Sequence,
    /// The first command of each batch that is not done, and how many it has.
    under_way: BTreeMap<BatchId, (u64, u64)>,
    /// Commands acknowledged lately, by number, and which place each has in the list, as replied.
    pub replies: Vec<(u64, u64)>,
    /// Commands acknowledged.
    pub acknowledged: u64,
    /// When it is to be woken, at the latest, by what is scheduled.
    pub wakes: Option<Time>,
}

impl Client {
    /// A client of such a cluster that has said nothing yet.
    pub fn new(id: usize, config: &Config) -> Self {
        let (key, replicas, tentative) =
            (Key::of_client(id), config.replicas, config.pbft.tentative);
        let patience = Duration::from_micros(config.client_patience);
        Self {
            id,
            key,
            session: session((key, replicas), (patience, tentative), 1, Time(0)),
            tentative,
            targets: Targets::All,
            connected: false,
            replicas,
            patience,
            incarnation: 1,
            next_command: 1,
            next_batch: 1,
            sent: Sequence(0),
            under_way: BTreeMap::new(),
            replies: Vec::new(),
            acknowledged: 0,
            wakes: None,
        }
    }

    /// Its public key.
    pub fn key(&self) -> PublicKey {
        self.key.public_key()
    }

    /// Whether it is connected to a replica.
    pub fn reaches(&self, replica: usize) -> bool {
        match self.targets {
            Targets::All => true,
            Targets::One { replica: only, .. } => only == replica,
        }
    }

    /// Turns to these from now on. Returns what to send.
    pub fn turn_to(&mut self, now: Time, targets: Targets) -> Vec<Sent> {
        if std::mem::replace(&mut self.targets, targets) == self.targets || !self.connected {
            return Vec::new();
        }
        self.connect(now)
    }

    fn connect(&mut self, now: Time) -> Vec<Sent> {
        self.connected = true;
        let inputs: Vec<Input> = (0..self.replicas)
            .map(|replica| match self.reaches(replica) {
                true => Input::Connected(ReplicaId(replica as u16)),
                false => Input::Disconnected(ReplicaId(replica as u16)),
            })
            .collect();
        self.step(now, inputs)
    }

    /// A replica has come back. Returns what to send.
    pub fn reconnected(&mut self, now: Time, replica: usize) -> Vec<Sent> {
        match self.connected && self.reaches(replica) && !self.is_done() {
            true => self.step(now, [Input::Connected(ReplicaId(replica as u16))]),
            false => Vec::new(),
        }
    }

    /// Wants `count` more commands of about `bytes` bytes executed, in one frame. Returns what
    /// to send.
    pub fn request(&mut self, now: Time, count: u64, bytes: usize) -> Vec<Sent> {
        let commands = (0..count)
            .map(|i| {
                let text = self.head(i);
                let padding = bytes.saturating_sub(text.len());
                (text + &".".repeat(padding)).into_bytes()
            })
            .collect();
        self.ask(now, commands)
    }

    /// As [`request`](Self::request), with these behind the commands' heads.
    pub fn request_these(&mut self, now: Time, bodies: &[Vec<u8>]) -> Vec<Sent> {
        let command = |(i, body): (u64, &Vec<u8>)| [self.head(i).as_bytes(), body].concat();
        let commands = (0..).zip(bodies).map(command).collect();
        self.ask(now, commands)
    }

    /// The head of the command that comes so many behind the next one.
    fn head(&self, behind: u64) -> String {
        format!("c{}:{} ", self.id, self.next_command + behind)
    }

    fn ask(&mut self, now: Time, commands: Vec<Vec<u8>>) -> Vec<Sent> {
        let count = commands.len() as u64;
        let id = self.next_batch;
        self.next_batch += 1;
        self.under_way.insert(id, (self.next_command, count));
        self.next_command += count;
        let mut sent = if self.connected { Vec::new() } else { self.connect(now) };
        let batch = Packed::commands(&commands).expect("a batch within the limits");
        sent.extend(self.step(now, [Input::Submit { id, batch, give_up: None }]));
        sent
    }

    /// A replica answers. Returns what to send.
    pub fn respond(&mut self, now: Time, from: usize, response: Response) -> Vec<Sent> {
        self.step(now, [Input::Response { from: ReplicaId(from as u16), response }])
    }

    /// Its time has come. Returns what to send.
    pub fn wake(&mut self, now: Time) -> Vec<Sent> {
        self.step(now, [Input::Timeout])
    }

    /// When it wants to be woken.
    pub fn deadline(&self) -> Option<Time> {
        if self.is_done() { None } else { self.session.deadline() }
    }

    /// Forgets what it asked for, and opens another session when it is used again.
    pub fn give_up(&mut self, now: Time) {
        self.incarnation += 1;
        let (who, how) = ((self.key, self.replicas), (self.patience, self.tentative));
        self.session = session(who, how, self.incarnation, now);
        self.connected = false;
        self.sent = Sequence(0);
        self.under_way.clear();
    }

    /// Whether everything it asked for was acknowledged.
    pub fn is_done(&self) -> bool {
        self.under_way.is_empty()
    }

    fn step(&mut self, now: Time, inputs: impl IntoIterator<Item = Input>) -> Vec<Sent> {
        let mut outputs = Vec::new();
        self.session.step(now, inputs, &mut outputs);
        let mut sent = Vec::new();
        for output in outputs {
            match output {
                Output::Send { to, relay, frame } => {
                    let repeated = frame.end() <= self.sent;
                    self.sent = self.sent.max(frame.end());
                    let relay = match self.targets {
                        // It connects to one after the other, but in one instant.
                        Targets::All => false,
                        Targets::One { relay: at_once, .. } => relay && (at_once || repeated),
                    };
                    sent.push(Sent { to: to.map(ReplicaId::index), relay, frame });
                }
                Output::Opened(_) => {}
                Output::Done { id, result } => self.done(id, result),
                Output::Ended(fatal) => panic!("validity: client {}: {fatal}", self.id),
            }
        }
        sent
    }

    fn done(&mut self, id: BatchId, result: Result<Packed, quorate_core::client::ClientError>) {
        let Some((first, count)) = self.under_way.remove(&id) else {
            panic!("exactly once: client {} was told of batch {id} twice", self.id)
        };
        let replies = result
            .unwrap_or_else(|error| panic!("validity: client {}, batch {id}: {error}", self.id));
        assert_eq!(replies.len() as u64, count, "validity: client {} has too few replies", self.id);
        self.acknowledged += count;
        self.replies.extend((first..).zip(replies.iter().map(|reply| {
            u64::from_le_bytes(*reply.first_chunk().expect("the register replies with a place"))
        })));
    }
}

fn session(
    (key, replicas): (Key, usize),
    (patience, tentative): (Duration, bool),
    incarnation: u64,
    now: Time,
) -> Session {
    let config = SessionConfig {
        tentative,
        retry_least: patience,
        retry_most: patience * 8,
        window: 32,
        ..SessionConfig::new(CHAIN, replicas)
    };
    Session::new(config, Arc::new(key), incarnation, now)
}

/// A frame as the edge of a replica hands it on: its signatures checked as the replica does, whose
/// program knows the formats of these rules.
pub fn verified(
    frame: &SharedFrame,
    formats: Rules,
    verify: impl Fn(&[Check]) -> Vec<bool>,
) -> Option<Verified<SharedFrame>> {
    let claim = Arc::clone(frame).claim_with_approvals(&CHAIN, formats);
    let verdicts = verify(claim.checks());
    claim.settle(&verdicts)
}
