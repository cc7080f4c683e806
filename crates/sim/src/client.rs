//! A client: it opens a session, sends frames of commands, sends them again until f + 1 replicas
//! have given the same answer.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use quorate_core::client::message::Outcome;
use quorate_core::crypto::{ClientSigner as _, Scheme, Signer as _, Verified};
use quorate_core::frame::{Frame, SharedFrame};
use quorate_core::{Sequence, SessionId};

use super::keys::{CHAIN, Key, Mock};

/// To which replicas a client sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Targets {
    All,
    /// To this one alone, asking it to pass the frame on at once or not.
    One {
        replica: usize,
        relay: bool,
    },
}

#[derive(Clone, Debug)]
pub struct Client {
    pub id: usize,
    key: Key,
    pub targets: Targets,
    session: Option<SessionId>,
    opening: bool,
    /// Numbers of commands, and of frames in the session.
    next_command: u64,
    next_first: u64,
    unsent: VecDeque<Vec<String>>,
    /// By first number: frames without f + 1 equal answers.
    pub unanswered: BTreeMap<u64, SharedFrame>,
    /// It will send again what is not answered by then.
    pub is_patient: bool,
    /// Commands acknowledged.
    pub acknowledged: u64,
}

impl Client {
    pub fn new(id: usize) -> Self {
        Self {
            id,
            key: Key::of_client(id),
            targets: Targets::All,
            session: None,
            opening: false,
            next_command: 1,
            next_first: 1,
            unsent: VecDeque::new(),
            unanswered: BTreeMap::new(),
            is_patient: false,
            acknowledged: 0,
        }
    }

    pub fn key(&self) -> quorate_core::crypto::PublicKey {
        self.key.public_key()
    }

    /// Wants `count` more commands of about `bytes` bytes executed, in one frame. Returns what
    /// to send now.
    pub fn request(&mut self, count: u64, bytes: usize) -> Vec<SharedFrame> {
        let commands = (0..count).map(|i| {
            let text = format!("c{}:{} ", self.id, self.next_command + i);
            let padding = bytes.saturating_sub(text.len());
            text + &".".repeat(padding)
        });
        self.unsent.push_back(commands.collect());
        self.next_command += count;
        self.send()
    }

    fn send(&mut self) -> Vec<SharedFrame> {
        let Some(session) = self.session else {
            if self.opening {
                return Vec::new();
            }
            self.opening = true;
            let frame = Frame::open(self.key(), 1, &CHAIN, |statement| self.key.sign(statement));
            let frame = Arc::new(frame);
            self.unanswered.insert(0, Arc::clone(&frame));
            return vec![frame];
        };
        let mut frames = Vec::new();
        while let Some(commands) = self.unsent.pop_front() {
            let bytes = commands.iter().map(|command| command.as_bytes());
            let first = Sequence(self.next_first);
            let sign = |statement: &_| self.key.sign(statement);
            let frame = Frame::build(self.key(), session, first, bytes, &CHAIN, sign);
            let frame = Arc::new(frame.expect("a frame within the limits"));
            self.unanswered.insert(self.next_first, Arc::clone(&frame));
            self.next_first += commands.len() as u64;
            frames.push(frame);
        }
        frames
    }

    /// f + 1 replicas gave this answer. Returns what to send now.
    pub fn believe(&mut self, outcome: &Outcome) -> Vec<SharedFrame> {
        match outcome {
            Outcome::Opened { session, .. } => {
                self.unanswered.remove(&0);
                self.session = Some(*session);
                self.send()
            }
            Outcome::Executed { first, count, .. } => {
                if self.unanswered.remove(&first.0).is_some() {
                    self.acknowledged += u64::from(*count);
                }
                Vec::new()
            }
            Outcome::Rejected { reason, .. } => {
                panic!("client {} was rejected: {reason:?}", self.id)
            }
        }
    }

    pub fn is_done(&self) -> bool {
        self.unanswered.is_empty() && self.unsent.is_empty()
    }
}

/// A frame as the edge of a replica hands it on: its signature checked. `None` if it does not hold.
pub fn verified(frame: &SharedFrame) -> Option<Verified<SharedFrame>> {
    let claim = Arc::clone(frame).claim(&CHAIN);
    let verdicts = Mock.verify(claim.checks());
    claim.settle(&verdicts)
}
