//! What happens to a decided block: its frames pass the session table, the commands left go to
//! the application, and the state both are in gets a root.
//!
//! The root of a state is H(height ‖ block id ‖ application's root ‖ session table's root ‖ digest
//! of the members ‖ digest of the list of clients), see [`StateSummary`]. Blocks carry the root of
//! an ancestor's state, so replicas that disagree find out, and a snapshot is believed when its
//! root is one that a quorum signed. So is what a [`View`] of the state proves to a client.

mod error;
mod kept;
mod members;
mod panics;
mod refusing;
mod restoring;
mod rules;
mod tentative;
mod view;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;

use crate::base::crypto::PublicKey;
use crate::base::format::Tag;
use crate::base::membership::{Committee, Opening};
use crate::base::types;
use crate::base::types::{Digest, Height};
use crate::ledger::approvals;
use crate::ledger::change::SignedChange;
use crate::ledger::clients::Clients;
use crate::ledger::directive::{self, SignedDirective};
use crate::ledger::frame::{Frame, SharedFrame};
use crate::ledger::generation::{Generations, Step};
use crate::ledger::outcome::Outcome;
use crate::ledger::sessions::{
    Limits, LimitsError, Plan, Planned, Sessions, SessionsSnapshot, Standing,
};
use crate::ledger::state_machine::{
    Checkpoint, Decided, Excess, KeepError, Reader, Replies, Snapshot, StateMachine, Usage,
};

pub use crate::ledger::approvals::CHANGED;
pub use crate::ledger::progress::{Poison, Progress, command_digest};
pub use error::{ExecutionError, SnapshotError};
pub use kept::{KeptNote, NOTE_TAG, ResumeError, whole};
pub use members::Members;
pub use panics::panic_message;
pub use restoring::{Header, Restoring};
pub use rules::UnknownRules;
use tentative::Tentative;
pub use view::{StateSummary, View};

/// Of how many of the latest states the roots are kept. A block names the state of an ancestor
/// that may be this far behind what is executed here when the block is checked.
pub const ROOT_WINDOW: usize = 1024;

/// What a snapshot's first chunk begins with.
pub const STATE_TAG: &Tag = b"quorate state 05";
/// The same of what is beside a checkpoint of the application's.
pub const BESIDE_TAG: &Tag = b"quorate beside05";

/// The replicated state of one replica: an application behind its session table.
#[derive(Debug)]
pub struct Execution<S> {
    application: S,
    sessions: Sessions,
    members: Members,
    height: Height,
    block_id: Digest,
    /// The height of the last block with commands, or a later one.
    written: Height,
    /// The roots of the states up to `height`, the latest last.
    roots: VecDeque<Digest>,
    /// The latest of them, taken apart.
    summary: StateSummary,
    /// Bytes of the frames executed since the state was frozen last.
    executed_bytes: u64,
    /// A block above `height` that was executed before it was committed.
    tentative: Option<Tentative>,
    /// Commands that are not given to the application.
    skipped: BTreeSet<Digest>,
    /// Why nothing executes any more.
    halted: Option<ExecutionError>,
}

/// What executing a block came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executed {
    /// The block's height.
    pub height: Height,
    /// The root of the state behind it.
    pub root: Digest,
    /// What became of frames, in order, each with the key of the client that is to hear of it. A
    /// frame that waits for earlier numbers has no outcome yet; frames of earlier blocks that
    /// waited may have theirs here.
    pub outcomes: Vec<(PublicKey, Outcome)>,
    /// How many commands executed, retries not counted.
    pub commands: u64,
    /// Whether the block sealed its epoch.
    pub sealed: bool,
}

impl<S: StateMachine> Execution<S> {
    /// The state behind the genesis block: no sessions, and `application` as it is.
    ///
    /// # Errors
    /// [`LimitsError`] if the limits are of no use.
    pub fn new(application: S, limits: Limits, genesis: Digest) -> Result<Self, LimitsError> {
        let sessions = Sessions::new(limits)?;
        Ok(Self::at(application, sessions, (Height(0), genesis), Members::fixed()))
    }

    /// The same state, with members that may change: by now those of `committee`, if it has
    /// administrators.
    #[must_use]
    pub fn governed_by(mut self, committee: &Committee) -> Self {
        self.members = Members::of(Some(committee.clone()));
        let clients = Arc::clone(self.sessions.clients());
        self.serving(clients)
    }

    /// The same state, with this list of clients.
    #[must_use]
    pub fn serving(mut self, clients: Arc<Clients>) -> Self {
        self.sessions = self.sessions.with_rights(clients, self.members.committee().cloned());
        self.roots.pop_back();
        self.keep_root();
        self
    }

    /// With the list of clients that `sessions` have.
    fn at(
        application: S,
        sessions: Sessions,
        (height, block_id): (Height, Digest),
        members: Members,
    ) -> Self {
        let roots = VecDeque::with_capacity(ROOT_WINDOW);
        let (summary, executed_bytes, halted) = (StateSummary::default(), 0, None);
        let skipped = BTreeSet::new();
        let clients = Arc::clone(sessions.clients());
        let mut sessions = sessions.with_rights(clients, members.committee().cloned());
        sessions.admit_dealers(members.generations());
        let mut state = Self {
            application,
            sessions,
            members,
            height,
            block_id,
            written: height,
            roots,
            summary,
            executed_bytes,
            tentative: None,
            skipped,
            halted,
        };
        state.keep_root();
        state
    }

    /// Executes the decided block at the next height, or keeps what was executed of it
    /// [tentatively](Self::execute_tentatively).
    ///
    /// # Errors
    /// [`ExecutionError`]. After a wrong number of replies, or where the state could not be kept,
    /// every further call fails in that way.
    pub fn execute(
        &mut self,
        height: Height,
        view: types::View,
        block_id: Digest,
        frames: &[SharedFrame],
    ) -> Result<Executed, ExecutionError> {
        if let Some(error) = &self.halted {
            return Err(error.clone());
        }
        self.check_rules()?;
        let expected = self.height.next();
        if height != expected {
            return Err(ExecutionError::Height { expected, found: height });
        }
        let sealed = self.members.sealed().is_some();
        let (outcomes, commands) = match self.keep_tentative(&block_id) {
            Some(executed) => executed,
            None => self.carry_out(height, view, block_id, frames)?,
        };
        (self.height, self.block_id) = (height, block_id);
        if !frames.is_empty() {
            self.written = height;
        }
        self.executed_bytes +=
            frames.iter().map(|frame| frame.encoded_bytes().len() as u64).sum::<u64>();
        let finished = panics::guarded(|| self.check_kept().map(|()| self.keep_root()));
        let finished = finished.map_err(|message| self.halt_panicked(height, None, message))?;
        let root = finished.map_err(|source| self.halt_unkept(height, source))?;
        let sealed = !sealed && self.members.sealed().is_some();
        Ok(Executed { height, root, outcomes, commands, sealed })
    }

    /// What becomes of the frames of a block, and how many commands it executed.
    fn carry_out(
        &mut self,
        height: Height,
        view: types::View,
        block_id: Digest,
        frames: &[SharedFrame],
    ) -> Result<(Vec<(PublicKey, Outcome)>, u64), ExecutionError> {
        let plan = self.sessions.plan(height, frames);
        let generations = Arc::clone(self.members.generations());
        let (replies, commands) = self.apply(height, view, block_id, &plan)?;
        if !Arc::ptr_eq(&generations, self.members.generations()) {
            self.sessions.admit_dealers(self.members.generations());
        }
        let outcomes = self.sessions.settle(plan, &replies).map_err(|source| {
            let error = ExecutionError::ReplyCount { height, source };
            self.halted = Some(error.clone());
            error
        })?;
        Ok((outcomes, commands))
    }

    /// Has the application apply what is planned, and counts the commands.
    fn apply(
        &mut self,
        height: Height,
        view: types::View,
        block_id: Digest,
        plan: &Plan,
    ) -> Result<(Replies, u64), ExecutionError> {
        let mut commands = Vec::with_capacity(plan.command_count());
        let mut callers = Vec::with_capacity(plan.command_count());
        let mut left_out = Vec::new();
        let opening = Opening { after: block_id, height: height.next() };
        for (at, planned) in plan.planned().enumerate() {
            let Planned { command, caller, is_alone, directed } = planned;
            if SignedChange::is_one(command) {
                left_out.push((at, self.members.change(command, is_alone, opening)));
            } else if Step::is_one(command, self.members.rules()) {
                left_out.push((at, self.members.step(command, caller.key, is_alone, height)));
            } else if SignedDirective::is_one(command) {
                let not_alone = || approvals::reply(Err(directive::Refusal::NotAlone));
                left_out.push((at, directed.map_or_else(not_alone, <[u8]>::to_vec)));
            } else if !self.skipped.is_empty() && self.skipped.contains(&command_digest(command)) {
                left_out.push((at, Vec::new()));
            } else {
                commands.push(command);
                callers.push(caller);
            }
        }
        let places = left_out.iter().map(|(at, _)| *at).collect();
        let progress = Arc::new(Progress::new(plan.runs(), places));
        let mut replies = Replies::told_to(Arc::clone(&progress));
        let rules = self.members.rules().application;
        let block = Decided { height, view, rules, commands: &commands, callers: &callers };
        let application = &mut self.application;
        if let Err(message) = panics::guarded(|| application.apply(&block, &mut replies)) {
            return Err(self.halt_panicked(height, progress.at_work(), message));
        }
        if let Some(Excess { at, bytes }) = replies.excess() {
            let error = ExecutionError::ReplyTooLong { height, at: progress.command(at), bytes };
            self.halted = Some(error.clone());
            return Err(error);
        }
        let executed = (commands.len() + left_out.len()) as u64;
        let replies = if left_out.is_empty() { replies } else { replies.with(&left_out) };
        Ok((replies, executed))
    }

    fn halt_panicked(
        &mut self,
        height: Height,
        at: Option<Poison>,
        message: String,
    ) -> ExecutionError {
        let error = ExecutionError::Panicked { height, at, message };
        self.halted = Some(error.clone());
        error
    }

    fn halt_unkept(&mut self, height: Height, source: KeepError) -> ExecutionError {
        let error = ExecutionError::Kept { height, source };
        self.halted = Some(error.clone());
        error
    }

    /// Computes the root of the state as it is now.
    fn keep_root(&mut self) -> Digest {
        self.summary = StateSummary {
            height: self.height,
            block_id: self.block_id,
            application: self.application.root(),
            sessions: self.sessions.root(),
            members: self.members.digest(),
            clients: self.sessions.clients().digest(),
        };
        let root = self.summary.root();
        if self.roots.len() == ROOT_WINDOW {
            self.roots.pop_front();
        }
        self.roots.push_back(root);
        root
    }

    /// The height of the latest state.
    #[must_use]
    pub fn height(&self) -> Height {
        self.height
    }

    /// The height of the last executed block with commands. Where that is not known, since the
    /// state was restored, the height of the restored state.
    #[must_use]
    pub fn written(&self) -> Height {
        self.written
    }

    /// The block behind which the latest state stands.
    #[must_use]
    pub fn block_id(&self) -> Digest {
        self.block_id
    }

    /// The root of the latest state.
    #[must_use]
    pub fn state_root(&self) -> Digest {
        self.roots.back().copied().unwrap_or_default()
    }

    /// The root of the state at `height`, if that was executed here (not restored from a later
    /// snapshot) and is among the latest [`ROOT_WINDOW`].
    #[must_use]
    pub fn root_at(&self, height: Height) -> Option<Digest> {
        let back = self.height.0.checked_sub(height.0)?;
        let from_end = usize::try_from(back).ok()?.checked_add(1)?;
        self.roots.get(self.roots.len().checked_sub(from_end)?).copied()
    }

    /// The roots of the latest `count` states at most, the latest last.
    #[must_use]
    pub fn latest_roots(&self, count: usize) -> Vec<Digest> {
        self.roots.iter().skip(self.roots.len().saturating_sub(count)).copied().collect()
    }

    /// After a restart from this replica's own snapshot: the roots of the states before it, the
    /// latest last. Blocks right above a snapshot name states below it.
    pub fn recall_roots(&mut self, earlier: &[Digest]) {
        for root in earlier.iter().rev().take(ROOT_WINDOW - self.roots.len()) {
            self.roots.push_front(*root);
        }
    }

    /// The lowest height whose root is known.
    #[must_use]
    pub fn lowest_root(&self) -> Height {
        Height((self.height.0 + 1).saturating_sub(self.roots.len() as u64))
    }

    /// The members, and how their epoch ends.
    #[must_use]
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// The next epoch begins, behind the block that sealed the last one: its genesis, `block_id`,
    /// is executed. It holds no command.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    pub fn open_epoch(&mut self, block_id: Digest) -> Result<Executed, ExecutionError> {
        self.members.begin();
        self.sessions.begin_epoch(self.members.committee().cloned());
        self.execute(self.height.next(), types::View(0), block_id, &[])
    }

    /// What the root of the latest state is the hash of.
    #[must_use]
    pub fn summary(&self) -> &StateSummary {
        &self.summary
    }

    /// The session table, as committed blocks left it.
    #[must_use]
    pub fn sessions(&self) -> &Sessions {
        self.tentative.as_ref().map_or(&self.sessions, Tentative::sessions)
    }

    /// The application.
    #[must_use]
    pub fn application(&self) -> &S {
        &self.application
    }

    /// How a frame stands with the latest state; see [`Sessions::standing`].
    #[must_use]
    pub fn standing(&self, frame: &Frame) -> Standing {
        self.sessions().standing(frame)
    }

    /// The application's answer from the latest state, without ordering the question.
    #[must_use]
    pub fn query(&self, question: &[u8]) -> Bytes {
        self.application.query(question)
    }

    /// The latest state, to be asked while execution goes on; see [`StateMachine::reader`].
    #[must_use]
    pub fn reader(&self) -> Option<Box<dyn Reader>> {
        self.application.reader()
    }

    /// What the application's state takes; see [`StateMachine::usage`].
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        self.application.usage()
    }

    /// The latest state, for proofs of what it holds while execution goes on; `None` if the
    /// application makes none. Copies nothing.
    #[must_use]
    pub fn view(&self) -> Option<View> {
        let prover = self.application.prover()?;
        Some(View { summary: self.summary, prover })
    }

    /// The latest state as a whole, to be written out while execution goes on. Copies nothing.
    #[must_use]
    pub fn snapshot(&self) -> SnapshotHandle {
        self.handle(Part::Whole(self.application.snapshot()))
    }

    fn handle(&self, application: Part) -> SnapshotHandle {
        let committee = self.members.committee().cloned().map(Box::new);
        let sessions = self.sessions().snapshot();
        let clients = Arc::clone(self.sessions().clients());
        let generations = Arc::clone(self.members.generations());
        SnapshotHandle {
            summary: self.summary,
            sessions,
            committee,
            clients,
            generations,
            application,
        }
    }

    /// The state that `chunks` hold, if it has the root `expected`; see [`Restoring`], which takes
    /// them one by one.
    ///
    /// # Errors
    /// [`SnapshotError`]. `application` is then gone: its state would be unspecified.
    pub fn restore(
        application: S,
        limits: Limits,
        chunks: &mut dyn Iterator<Item = Bytes>,
        expected: Digest,
    ) -> Result<Self, SnapshotError> {
        let mut restoring = Restoring::new(application, limits, expected);
        for chunk in chunks {
            restoring.take(chunk)?;
        }
        restoring.finish()
    }

    /// The same with a session table as at the start.
    #[cfg(quorate_mutants)]
    fn without_sessions(self) -> Self {
        let limits = *self.sessions.limits();
        Self { sessions: Sessions::new(limits).unwrap_or(self.sessions), ..self }
    }
}

/// A frozen state: its chunks are a [`Header`], those of the session table and those of the
/// application, unless that is kept as a checkpoint. Equal states have equal chunks.
pub struct SnapshotHandle {
    summary: StateSummary,
    sessions: SessionsSnapshot,
    committee: Option<Box<Committee>>,
    clients: Arc<Clients>,
    generations: Arc<Generations>,
    application: Part,
}

/// The application's part of a frozen state.
enum Part {
    Whole(Box<dyn Snapshot>),
    Kept(Box<dyn Checkpoint>),
}

impl SnapshotHandle {
    /// The height of the state.
    #[must_use]
    pub fn height(&self) -> Height {
        self.summary.height
    }

    /// The block behind which the state stands.
    #[must_use]
    pub fn block_id(&self) -> Digest {
        self.summary.block_id
    }

    /// The root that a restored state must have.
    #[must_use]
    pub fn root(&self) -> Digest {
        self.summary.root()
    }
}

impl Snapshot for SnapshotHandle {
    fn failure(&self) -> Option<KeepError> {
        match &self.application {
            Part::Whole(snapshot) => snapshot.failure(),
            Part::Kept(_) => None,
        }
    }

    fn chunks(&self, sink: &mut dyn FnMut(&[u8]) -> bool) {
        let magic = if self.is_whole() { STATE_TAG } else { BESIDE_TAG };
        let mut session_chunks = 0;
        self.sessions.chunks(&mut |_| {
            session_chunks += 1;
            true
        });
        let (summary, committee) = (self.summary, self.committee.as_deref().cloned());
        let clients = Arc::clone(&self.clients);
        let generations = Arc::clone(&self.generations);
        let header = Header { summary, session_chunks, committee, clients, generations };
        let mut wants_more = sink(&header.encode(magic));
        let mut parts: Vec<&dyn Snapshot> = vec![&self.sessions];
        if let Part::Whole(application) = &self.application {
            parts.push(application.as_ref());
        }
        for part in parts {
            if wants_more {
                part.chunks(&mut |chunk| {
                    // An empty one says nothing, and is none.
                    wants_more = chunk.is_empty() || sink(chunk);
                    wants_more
                });
            }
        }
    }
}

impl std::fmt::Debug for SnapshotHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "snapshot of {:?}", self.summary)
    }
}
