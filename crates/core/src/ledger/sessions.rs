//! The session table: what makes every command execute exactly once, and in its client's order.
//!
//! It is replicated state: a function of the decided blocks alone, expiry included, and its
//! [root](Sessions::root) is part of every state root.
//!
//! # Rules
//!
//! *Opening.* A frame that opens a session for a key gets the next number of a counter that starts
//! at 1 and never goes back. A key has one session at a time: a higher incarnation ends the older
//! session, the same one is answered with the same session, and a lower one is told of the session
//! that is open and its incarnation. When the table is full, the session that was active longest
//! ago (of equals the one with the lowest number) expires if it has been idle for
//! [`Limits::min_idle_blocks`]; else the newcomer is [turned away](Rejection::TooManySessions). An
//! idle cluster decides no blocks, and a table full of the dead would stay full: so a block that
//! turns newcomers away counts for [an eighth](Limits::waited_blocks) of that time, for the one
//! session that gives way next. A flood of newcomers cannot drive out all that are idle for a
//! moment: each of them takes eight blocks. Only opening, executing a command and letting a frame
//! wait are activity. A retry is none: anybody who saw a frame can replay it, and could keep a dead
//! session alive.
//!
//! *Rights.* A key that the [list of clients](crate::ledger::clients) does not admit gets no
//! session. A directive that takes its rights from a key [ends its session](Rejection::Revoked)
//! where the directive executes: the frames behind it in the same block are turned down, as all
//! later ones. Administrators have sessions whatever the list says, for what administrators sign.
//!
//! *Commands.* Numbers begin at 1 and execute without gaps.
//! - A frame that begins at the next number, or overlaps it, executes from the next number on.
//!   A retry may cut the commands into other frames.
//! - A frame all of whose commands were executed is answered from the answers kept, which are the
//!   newest ones within [`Limits::answer_commands`] and [`Limits::answer_bytes`].
//! - A frame that begins later waits, within the window's limits, and executes in the same block
//!   as the frame that closes the gap. It is answered then. Of waiting frames with the same first
//!   number that of the lowest id goes first.
//!
//! *Outcomes.* An answer covers the commands of its frame from the first whose reply is known to
//! the frame's end: all of them, unless the answers to the first were forgotten, or all replies
//! together exceed [`MAX_REPLY_BYTES`]. If none is known
//! the outcome is [`Rejection::AnswerForgotten`]. When a session ends, the frames that waited in
//! it are [turned down](Rejection::UnknownSession).
//!
//! # Memory
//!
//! The replies to a frame are copied once out of the block's reply buffer, and that copy serves
//! both the client and the answers kept. Slices of the buffer would cost less to make, but one
//! small slice of an idle session would hold on to the replies of a whole block. So what is
//! counted is what is held: at most [`Limits::ceiling_bytes`]. A waiting frame is copied for the
//! same reason.

mod answers;
mod limits;
mod rights;
mod session;
mod snapshot;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;

pub use limits::{ANSWER_OVERHEAD_BYTES, Limits, LimitsError};
pub use snapshot::SessionsSnapshot;

use crate::base::crypto::PublicKey;
use crate::base::membership::Committee;
use crate::base::types::{Digest, Height, Sequence, SessionId};
use crate::base::wire::Encode;
use crate::ledger::clients::{Clients, Grant};
use crate::ledger::frame::{Frame, SharedFrame};
use crate::ledger::outcome::{MAX_REPLY_BYTES, Outcome, Rejection};
use crate::ledger::state_machine::{Caller, Replies};
use answers::Run;
use quorate_merkle::MerkleMap;
use rights::Rights;
use session::Session;

/// The table of live sessions. A clone shares the sessions themselves.
#[derive(Clone, Debug)]
pub struct Sessions {
    limits: Limits,
    /// The number that the next session gets.
    next: SessionId,
    /// How many blocks turned newcomers away since a session gave way for it.
    turned_away: u64,
    live: MerkleMap<Session>,
    /// Derived from `live`: the session of each key.
    by_key: BTreeMap<PublicKey, SessionId>,
    /// Derived from `live`: the sessions by their last activity.
    by_activity: BTreeSet<(Height, SessionId)>,
    /// Replicated beside the table: its root does not cover them.
    rights: Rights,
}

/// What is to become of a decided block's frames. Made by [`Sessions::plan`]; the table is ahead
/// of its answers until [`Sessions::settle`] has taken the plan back.
#[derive(Debug)]
#[must_use = "the table waits for the replies"]
pub struct Plan {
    height: Height,
    turns_away: bool,
    steps: Vec<Step>,
    commands: usize,
    /// Sessions that this block ended after it may have used them.
    ended: BTreeMap<SessionId, Session>,
}

#[derive(Debug)]
enum Step {
    /// The outcome does not depend on any reply.
    Say(PublicKey, Outcome),
    /// The frame's commands execute, but for the first `skip`, which have before.
    Execute {
        frame: SharedFrame,
        skip: u32,
        /// What its client was granted by then.
        grant: Option<Arc<Grant>>,
        /// The reply, if the frame is a directive.
        directed: Option<Vec<u8>>,
    },
    /// All of the frame's commands have executed.
    Answer(SharedFrame),
}

/// A command that executes.
pub(super) struct Planned<'a> {
    pub command: &'a [u8],
    pub caller: Caller<'a>,
    /// Whether it is the only one of its frame.
    pub is_alone: bool,
    /// The reply, if it is a directive that was carried out or refused.
    pub directed: Option<&'a [u8]>,
}

/// The application gave a number of replies that is not the number of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the application gave {replies} replies to {commands} commands")]
pub struct ReplyCountError {
    /// How many commands it was given.
    pub commands: usize,
    /// How many replies it gave.
    pub replies: usize,
}

/// How a frame stands with the table, before it is ordered (again).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// What became of it is known, and ordering it would not change that.
    Settled(Outcome),
    /// It has been ordered, and waits for the numbers before it.
    Waiting,
    /// It has to be ordered.
    New,
}

impl Sessions {
    /// A table without sessions.
    ///
    /// # Errors
    /// [`LimitsError`] if the limits are of no use.
    pub fn new(limits: Limits) -> Result<Self, LimitsError> {
        limits.check()?;
        Ok(Self {
            limits,
            next: SessionId(1),
            turned_away: 0,
            live: MerkleMap::new(),
            by_key: BTreeMap::new(),
            by_activity: BTreeSet::new(),
            rights: Rights::default(),
        })
    }

    /// The same table, of clients with these rights.
    pub(super) fn with_rights(
        mut self,
        clients: Arc<Clients>,
        committee: Option<Committee>,
    ) -> Self {
        self.rights = Rights::new(clients, committee);
        self
    }

    /// The list of clients.
    #[must_use]
    pub fn clients(&self) -> &Arc<Clients> {
        self.rights.clients()
    }

    /// The number that the next session gets: all below have been opened, and may have ended.
    #[must_use]
    pub fn next_session(&self) -> SessionId {
        self.next
    }

    /// An epoch begins, whose administrators may be others. The sessions of those who are none any
    /// more, and not listed, end. (Frames that waited in them are turned down when they come
    /// again.) Newer rules of the core make directives of what were none: those go.
    pub(super) fn begin_epoch(&mut self, committee: Option<Committee>) {
        let former = self.rights.rules();
        self.rights = Rights::new(Arc::clone(self.clients()), committee);
        if self.rights.rules().core > former.core {
            self.drop_unverified(former);
        }
        let mut nobody_asks = Plan::at(Height(0), 0);
        self.end_sessions_without_rights(&mut nobody_asks);
    }

    /// How many sessions are live.
    #[must_use]
    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// Whether no session is live.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// The limits it keeps.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The next number to execute in a live session.
    #[must_use]
    pub fn next_number(&self, session: SessionId) -> Option<Sequence> {
        Some(self.live.get(&Session::place(session))?.next)
    }

    /// The digest of the table: of every live session and of the counters. Costs what changed.
    pub fn root(&mut self) -> Digest {
        let mut bytes = Vec::with_capacity(48);
        self.next.encode(&mut bytes);
        self.turned_away.encode(&mut bytes);
        bytes.extend_from_slice(&self.live.root());
        Digest::of("quorate sessions", &bytes)
    }

    /// The outcome of a frame whose commands have executed, or which never will: a retry is
    /// answered without being ordered again.
    #[must_use]
    pub fn answer(&self, frame: &Frame) -> Option<Outcome> {
        match self.standing(frame) {
            Standing::Settled(outcome) => Some(outcome),
            Standing::Waiting | Standing::New => None,
        }
    }

    /// How `frame` stands with this replica's latest state.
    #[must_use]
    pub fn standing(&self, frame: &Frame) -> Standing {
        if frame.is_open() {
            return self.standing_of_open(frame);
        }
        let outcome = match self.session_of(frame) {
            // Not opened yet, as far as this replica knows: it may be behind.
            Err(_) if frame.session() >= self.next => return Standing::New,
            Err(reason) => rejected(frame, reason),
            Ok(session) if frame.end() <= session.next => session.answer(frame),
            Ok(session) if session.waiting.contains(frame) => return Standing::Waiting,
            Ok(_) => match self.rights.may_execute(frame) {
                Ok(()) => return Standing::New,
                Err(reason) => rejected(frame, reason),
            },
        };
        Standing::Settled(outcome)
    }

    fn standing_of_open(&self, frame: &Frame) -> Standing {
        match self.session_of_key(&frame.key()) {
            Some(live) if frame.first().0 <= live.incarnation => {
                let (incarnation, session) = (live.incarnation, live.id);
                Standing::Settled(Outcome::Opened { incarnation, session })
            }
            _ => match self.rights.may_open(&frame.key()) {
                Ok(()) => Standing::New,
                Err(reason) => Standing::Settled(rejected(frame, reason)),
            },
        }
    }

    fn session_of_key(&self, key: &PublicKey) -> Option<&Session> {
        self.live.get(&Session::place(*self.by_key.get(key)?))
    }

    /// The live session that a frame of commands belongs to.
    fn session_of(&self, frame: &Frame) -> Result<&Session, Rejection> {
        let session = self.live.get(&Session::place(frame.session()));
        let Some(session) = session else {
            // It may have ended for that.
            self.rights.may_open(frame.key_in_place())?;
            return Err(Rejection::UnknownSession);
        };
        if session.key != frame.key() {
            return Err(Rejection::ForeignSession);
        }
        Ok(session)
    }

    /// Decides what becomes of the frames of the block at `height`, in order, and which of their
    /// commands execute.
    pub fn plan(&mut self, height: Height, frames: &[SharedFrame]) -> Plan {
        let mut plan = Plan::at(height, frames.len());
        for frame in frames {
            if frame.is_open() {
                self.open(frame, &mut plan);
            } else {
                self.take_in(frame, &mut plan);
            }
        }
        self.turned_away += u64::from(plan.turns_away);
        plan
    }

    fn open(&mut self, frame: &Frame, plan: &mut Plan) {
        let outcome = match self.standing_of_open(frame) {
            Standing::Settled(outcome) => outcome,
            Standing::Waiting | Standing::New => match self.make_room(&frame.key(), plan) {
                Ok(()) => self.insert(frame, plan.height),
                Err(reason) => {
                    plan.turns_away = true;
                    rejected(frame, reason)
                }
            },
        };
        plan.steps.push(Step::Say(frame.key(), outcome));
    }

    /// Ends the session whose place a new one of `key` takes, if it takes one.
    fn make_room(&mut self, key: &PublicKey, plan: &mut Plan) -> Result<(), Rejection> {
        if let Some(superseded) = self.by_key.get(key) {
            self.end(*superseded, Rejection::UnknownSession, plan);
        } else if self.live.len() >= self.limits.max_sessions as usize {
            let expired = self.idlest(plan.height).ok_or(Rejection::TooManySessions)?;
            self.end(expired, Rejection::UnknownSession, plan);
        }
        Ok(())
    }

    /// The session that may give way in the block at `height`. None that the block used may.
    fn idlest(&mut self, height: Height) -> Option<SessionId> {
        let (active, id) = *self.by_activity.first()?;
        let idle = height.0.saturating_sub(active.0);
        if idle >= self.limits.min_idle_blocks {
            return Some(id);
        }
        let waited = self.turned_away.saturating_mul(self.limits.waited_blocks());
        if idle == 0 || idle.saturating_add(waited) < self.limits.min_idle_blocks {
            return None;
        }
        self.turned_away = 0;
        Some(id)
    }

    fn end(&mut self, id: SessionId, reason: Rejection, plan: &mut Plan) {
        let Some(session) = self.live.remove(&Session::place(id)) else { return };
        self.by_key.remove(&session.key);
        self.by_activity.remove(&(session.active, id));
        for frame in session.waiting.frames() {
            plan.steps.push(Step::Say(session.key, rejected(frame, reason)));
        }
        plan.ended.insert(id, session);
    }

    fn insert(&mut self, frame: &Frame, height: Height) -> Outcome {
        let (id, incarnation) = (self.next, frame.first().0);
        self.next = id.next();
        let session = Session::new(id, frame.key(), incarnation, height);
        self.live.insert(Session::place(id), session);
        self.by_key.insert(frame.key(), id);
        self.by_activity.insert((height, id));
        Outcome::Opened { incarnation, session: id }
    }

    /// Executes a frame of commands, lets it wait, answers it again, or turns it down.
    fn take_in(&mut self, frame: &SharedFrame, plan: &mut Plan) {
        let next = match self.session_of(frame) {
            Ok(session) => session.next,
            Err(reason) => return plan.reject(frame, reason),
        };
        if mutant!("retry-executes-again", false, frame.end() <= next) {
            return plan.steps.push(Step::Answer(Arc::clone(frame)));
        }
        if let Err(reason) = self.rights.may_execute(frame) {
            return plan.reject(frame, reason);
        }
        let place = Session::place(frame.session());
        let Some(mut session) = self.live.get_mut(&place) else { return };
        let is_next = mutant!("session-order-not-enforced", true, frame.first() <= next);
        if !is_next {
            match session.waiting.insert(frame, next, &self.limits) {
                Some(true) => {}
                Some(false) => return,
                None => return plan.reject(frame, Rejection::BeyondWindow),
            }
        }
        if session.active != plan.height {
            self.by_activity.remove(&(session.active, session.id));
            self.by_activity.insert((plan.height, session.id));
            session.active = plan.height;
        }
        let mut ready = is_next.then(|| Arc::clone(frame));
        while let Some(frame) = ready {
            if let Err(reason) = self.rights.may_execute(&frame) {
                // It lost its rights while it waited. The numbers behind it wait in vain.
                return plan.reject(&frame, reason);
            }
            let grant = self.rights.grant(&session.key);
            // Of two that waited with one number, the second was never asked for.
            let is_new = frame.end() > session.next;
            let directed = if is_new { self.rights.carry_out(&frame) } else { None };
            let has_changed = directed.as_ref().is_some_and(|(_, has_changed)| *has_changed);
            session.execute(frame, grant, directed.map(|(reply, _)| reply), plan);
            if has_changed {
                self.end_sessions_without_rights(plan);
                // Its own directive may have ended it.
                let Some(same) = self.live.get_mut(&place) else { return };
                session = same;
            }
            ready = session.waiting.next_ready(session.next);
        }
    }

    /// Ends the sessions of keys that may have none any more.
    fn end_sessions_without_rights(&mut self, plan: &mut Plan) {
        let without = |(key, id): (&PublicKey, &SessionId)| {
            let reason = self.rights.may_open(key).err()?;
            Some((*id, reason))
        };
        let ends: Vec<_> = self.by_key.iter().filter_map(without).collect();
        for (id, reason) in planted!("revoked-session-goes-on", Vec::new(), ends) {
            self.end(id, reason, plan);
        }
    }

    /// Gives the commands of `plan` their replies: the outcomes of its frames, each with the key
    /// of the client that it is for. A frame that waits has none yet; one that no longer waits has
    /// its outcome behind that of the frame that closed the gap.
    ///
    /// # Errors
    /// [`ReplyCountError`] if there is not one reply for each command. The table must then not be
    /// used any further.
    pub fn settle(
        &mut self,
        plan: Plan,
        replies: &Replies,
    ) -> Result<Vec<(PublicKey, Outcome)>, ReplyCountError> {
        let (body, ends) = (replies.body(), replies.ends());
        if ends.len() != plan.commands {
            return Err(ReplyCountError { commands: plan.commands, replies: ends.len() });
        }
        let Plan { steps, mut ended, .. } = plan;
        let (mut at, mut answered) = (0, 0);
        let mut outcomes = Vec::with_capacity(steps.len());
        for step in steps {
            let outcome = match step {
                Step::Say(key, outcome) => (key, outcome),
                Step::Answer(frame) => {
                    let place = Session::place(frame.session());
                    let session = self.live.get(&place).or_else(|| ended.get(&frame.session()));
                    (frame.key(), session.map_or_else(|| forgotten(&frame), |s| s.answer(&frame)))
                }
                Step::Execute { frame, skip, .. } => {
                    answered += (frame.count() - skip) as usize;
                    let end = ends[answered - 1];
                    let replies = Bytes::copy_from_slice(&body[at..end]);
                    at = end;
                    let place = Session::place(frame.session());
                    let session = self.live.get_mut(&place);
                    let session = session.or_else(|| ended.get_mut(&frame.session()));
                    let outcome = match session {
                        Some(session) => session.settle(&frame, skip, replies, &self.limits),
                        None => forgotten(&frame),
                    };
                    (frame.key(), outcome)
                }
            };
            outcomes.push(outcome);
        }
        Ok(outcomes)
    }
}

impl Plan {
    fn at(height: Height, frames: usize) -> Self {
        let (turns_away, steps, ended) = (false, Vec::with_capacity(frames), BTreeMap::new());
        Self { height, turns_away, steps, commands: 0, ended }
    }

    /// The commands to execute, in order.
    pub fn commands(&self) -> impl Iterator<Item = &[u8]> {
        self.planned().map(|planned| planned.command)
    }

    /// The commands to execute, in order, and what is known of each.
    pub(super) fn planned(&self) -> impl Iterator<Item = Planned<'_>> {
        self.steps.iter().flat_map(|step| {
            let run = match step {
                Step::Execute { frame, skip, grant, directed } => {
                    Some((frame, *skip, grant.as_deref(), directed.as_deref()))
                }
                Step::Say(..) | Step::Answer(_) => None,
            };
            run.into_iter().flat_map(|(frame, skip, grant, directed)| {
                let caller = Caller { key: frame.key_in_place(), grant };
                let is_alone = frame.count() == 1;
                let commands = frame.commands().skip(skip as usize);
                commands.map(move |command| Planned { command, caller, is_alone, directed })
            })
        })
    }

    /// The frames whose commands execute, each with how many of them were executed before.
    pub(super) fn runs(&self) -> Vec<(SharedFrame, u32)> {
        let run = |step: &Step| match step {
            Step::Execute { frame, skip, .. } => Some((Arc::clone(frame), *skip)),
            Step::Say(..) | Step::Answer(_) => None,
        };
        self.steps.iter().filter_map(run).collect()
    }

    /// How many commands execute.
    #[must_use]
    pub fn command_count(&self) -> usize {
        self.commands
    }

    fn reject(&mut self, frame: &Frame, reason: Rejection) {
        self.steps.push(Step::Say(frame.key(), rejected(frame, reason)));
    }
}

impl Session {
    /// Plans the execution of a frame that begins at the next number or before.
    fn execute(
        &mut self,
        frame: SharedFrame,
        grant: Option<Arc<Grant>>,
        directed: Option<Vec<u8>>,
        plan: &mut Plan,
    ) {
        if mutant!("retry-executes-again", false, frame.end() <= self.next) {
            return plan.steps.push(Step::Answer(frame));
        }
        let first = frame.first().0;
        let next = mutant!("session-order-not-enforced", self.next.0.max(first), self.next.0);
        let skip = mutant!("retry-executes-again", 0, next - first) as u32;
        self.next = frame.end();
        plan.commands += (frame.count() - skip) as usize;
        plan.steps.push(Step::Execute { frame, skip, grant, directed });
    }

    /// Keeps the replies to a frame's commands from the one after `skip` on, and answers it.
    fn settle(&mut self, frame: &Frame, skip: u32, replies: Bytes, limits: &Limits) -> Outcome {
        let first = frame.first().plus(u64::from(skip));
        let count = frame.count() - skip;
        let before = self.answers.known(frame.first(), first);
        self.answers.push(first, count, replies.clone(), limits);
        if replies.len() > MAX_REPLY_BYTES {
            return forgotten(frame);
        }
        let before = before.filter(|run| run.2.len() + replies.len() <= MAX_REPLY_BYTES);
        let run = (first, count, replies);
        match before.and_then(|before| answers::concat(&[before, run.clone()])) {
            Some(whole) => executed(frame, whole),
            None => executed(frame, run),
        }
    }

    /// The outcome of a frame all of whose commands have executed.
    fn answer(&self, frame: &Frame) -> Outcome {
        match self.answers.known(frame.first(), frame.end()) {
            Some(run) => executed(frame, run),
            None => forgotten(frame),
        }
    }
}

fn executed(frame: &Frame, (first, count, replies): Run) -> Outcome {
    Outcome::Executed { session: frame.session(), first, count, replies }
}

fn rejected(frame: &Frame, reason: Rejection) -> Outcome {
    Outcome::Rejected { session: frame.session(), first: frame.first(), reason }
}

fn forgotten(frame: &Frame) -> Outcome {
    rejected(frame, Rejection::AnswerForgotten)
}
