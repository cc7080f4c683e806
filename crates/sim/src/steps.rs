//! The protocol's steps in a run, in its own terms: for holding it against the specification in
//! `specs/`.
//!
//! Each correct replica's driver is watched from outside, step by step: what certificates came in,
//! how its safety record changed, what it decided, what was signed. No rule is applied here: what
//! is written down is what was done, and the specification says whether it may be done.
//! `docs/model.md` describes the format.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quorate_core::base::crypto::Statement;
use quorate_core::ledger::block::BlockId;
use quorate_core::protocols::hotstuff::block::Header;
use quorate_core::protocols::hotstuff::certificate::{Qc, Tc};
use quorate_core::protocols::hotstuff::safety::Safety;
use quorate_core::protocols::hotstuff::{HotStuff, Message, Types};
use quorate_core::protocols::protocol::{Ballot, Decision, Event, Input, Output, Record};
use quorate_core::{ReplicaId, View};

use super::mutant::Fx;

/// Votes of the phase of proposals: the certificates of other phases are no steps here.
const FIRST: u8 = 1;

/// One step. Blocks are called after their view, further ones of a view with primes; `b0` is the
/// first block of all. A certificate is called by its block.
#[allow(missing_docs, reason = "each variant says what its fields are")]
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "json", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "json", serde(tag = "step", rename_all = "kebab-case", deny_unknown_fields))]
pub enum Step {
    /// A replica runs, for the first time or again: what it remembers.
    Start {
        replica: usize,
        voted: Option<String>,
        gave_up: u64,
        high_qc: String,
        lock: String,
        high_tc: Option<u64>,
        committed: String,
    },
    /// A replica makes a block; a liar's is written down when a correct replica first sees it.
    Propose { replica: usize, block: String, view: u64, parent: String },
    /// A replica learns the certificate of a block.
    Qc { replica: usize, block: String },
    /// A replica learns a certificate of time-outs; the highest certificate told in it is of view
    /// `high`.
    Tc { replica: usize, view: u64, high: u64 },
    /// A replica locks on a certificate.
    Lock { replica: usize, block: String },
    /// A replica commits one block.
    Commit { replica: usize, block: String },
    /// A replica takes over the state after a block that others committed.
    Install { replica: usize, block: String },
    /// A replica decides to vote for a block.
    Vote { replica: usize, block: String },
    /// A replica decides to give up a view, with its highest certificate.
    TimeOut { replica: usize, view: u64, high_qc: String },
    /// A replica has signed a vote: it may be anywhere from now on.
    SignVote { replica: usize, block: String },
    /// A replica has signed that it gives up a view.
    SignTimeOut { replica: usize, view: u64, high_qc: String },
}

impl Step {
    /// Whose step it is.
    #[must_use]
    pub fn replica(&self) -> usize {
        match self {
            Self::Start { replica, .. }
            | Self::Propose { replica, .. }
            | Self::Qc { replica, .. }
            | Self::Tc { replica, .. }
            | Self::Lock { replica, .. }
            | Self::Commit { replica, .. }
            | Self::Install { replica, .. }
            | Self::Vote { replica, .. }
            | Self::TimeOut { replica, .. }
            | Self::SignVote { replica, .. }
            | Self::SignTimeOut { replica, .. } => *replica,
        }
    }
}

/// The steps of one run, shared by its replicas.
#[derive(Clone, Debug, Default)]
pub struct Steps(Arc<Mutex<Recording>>);

impl Steps {
    /// For the driver of `replica`.
    pub fn of(&self, replica: usize) -> Watch {
        Watch { steps: self.clone(), replica }
    }

    /// What was written down since this was last asked.
    #[must_use]
    pub fn take(&self) -> Vec<Step> {
        std::mem::take(&mut self.lock().steps)
    }

    fn lock(&self) -> MutexGuard<'_, Recording> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
struct Recording {
    steps: Vec<Step>,
    names: BTreeMap<BlockId, String>,
    by_view: BTreeMap<View, usize>,
    replicas: BTreeMap<usize, Memory>,
}

/// What was written down of one replica.
#[derive(Debug, Default)]
struct Memory {
    certificates: BTreeSet<(View, BlockId)>,
    lock: Option<BlockId>,
    time_outs: Option<(View, View)>,
    /// What it wants signed, and the step that this will be.
    unsigned: BTreeMap<Statement, Step>,
}

impl Recording {
    fn name(&self, id: &BlockId) -> String {
        self.names.get(id).cloned().unwrap_or_else(|| format!("unseen {id:?}"))
    }

    fn qc(&self, qc: &Qc) -> String {
        self.justify(&qc.ballot())
    }

    fn justify(&self, ballot: &Ballot) -> String {
        if ballot.view == View(0) { "b0".into() } else { self.name(&ballot.block) }
    }

    /// A block that may be new.
    fn sees(&mut self, block: &Header) {
        let (id, view) = (block.id(), block.view);
        if self.names.contains_key(&id) {
            return;
        }
        let count = self.by_view.entry(view).or_default();
        let name = format!("b{view}{}", "'".repeat(*count));
        *count += 1;
        self.names.insert(id, name.clone());
        if view > View(0) {
            let (replica, parent) = (block.proposer.index(), self.justify(&block.justify));
            self.steps.push(Step::Propose { replica, block: name, view: view.0, parent });
        }
    }

    fn learns(&mut self, replica: usize, qc: &Qc) {
        let memory = self.replicas.entry(replica).or_default();
        if qc.phase() == FIRST && memory.certificates.insert((qc.view(), qc.block())) {
            let block = self.name(&qc.block());
            self.steps.push(Step::Qc { replica, block });
        }
    }

    /// How its safety record has changed.
    fn holds(&mut self, replica: usize, safety: &Safety) {
        self.learns(replica, &safety.high_qc);
        let memory = self.replicas.entry(replica).or_default();
        let tc = safety.high_tc.as_ref().map(|tc| (tc.view(), tc.high_qc_view()));
        if let Some((view, high)) = tc.filter(|tc| memory.time_outs != Some(*tc)) {
            self.steps.push(Step::Tc { replica, view: view.0, high: high.0 });
        }
        memory.time_outs = tc.or(memory.time_outs);
        if memory.lock.replace(safety.lock.block()) != Some(safety.lock.block()) {
            let block = self.qc(&safety.lock);
            self.steps.push(Step::Lock { replica, block });
        }
    }

    /// It has taken in what it found; what that commits anew comes behind this.
    fn starts(&mut self, replica: usize, safety: &Safety, root: &BlockId) {
        let memory = self.replicas.entry(replica).or_default();
        memory.certificates.retain(|(view, _)| *view <= safety.high_qc.view());
        memory.certificates.insert((safety.high_qc.view(), safety.high_qc.block()));
        memory.lock = Some(safety.lock.block());
        memory.time_outs = safety.high_tc.as_ref().map(|tc| (tc.view(), tc.high_qc_view()));
        memory.unsigned.clear();
        let voted = safety.voted.filter(|ballot| ballot.phase == FIRST);
        let step = Step::Start {
            replica,
            voted: voted.map(|ballot| self.name(&ballot.block)),
            gave_up: safety.timed_out.0,
            high_qc: self.qc(&safety.high_qc),
            lock: self.qc(&safety.lock),
            high_tc: safety.high_tc.as_ref().map(|tc| tc.view().0),
            committed: self.name(root),
        };
        self.steps.push(step);
    }

    fn does(&mut self, replica: usize, driver: &HotStuff, output: &Output<Types>) {
        match output {
            Output::Commit(decisions) => {
                for block in decisions.iter().filter_map(Decision::block) {
                    let block = self.name(&block.id());
                    self.steps.push(Step::Commit { replica, block });
                }
            }
            Output::Event(Event::Proposed { block, .. }) => {
                if let Some(block) = driver.tree().find(block).cloned() {
                    self.sees(&block);
                }
            }
            Output::Event(Event::Voted(ballot)) if ballot.phase == FIRST => {
                let block = self.name(&ballot.block);
                self.steps.push(Step::Vote { replica, block });
            }
            Output::Sign(statement) => self.wants_signed(replica, driver, *statement),
            _ => {}
        }
    }

    fn wants_signed(&mut self, replica: usize, driver: &HotStuff, statement: Statement) {
        let (domain, safety) = (driver.domain(), driver.safety());
        let (high, timed_out) = (&safety.high_qc, safety.timed_out);
        let vote = safety.voted.filter(|b| domain.vote(b.view, b.phase, &b.block) == statement);
        let signed = match vote {
            Some(ballot) if ballot.phase != FIRST => return,
            Some(ballot) => Step::SignVote { replica, block: self.name(&ballot.block) },
            None => {
                // Of which view is in its bytes; the rest is checked against the record.
                let view = statement.as_bytes().get(58..66).and_then(|b| b.try_into().ok());
                let view = view.map_or(timed_out, |bytes| View(u64::from_le_bytes(bytes)));
                if domain.time_out(view, high.view(), &high.block()) != statement {
                    return;
                }
                let (view, high_qc) = (view.0, self.qc(high));
                self.steps.push(Step::TimeOut { replica, view, high_qc: high_qc.clone() });
                Step::SignTimeOut { replica, view, high_qc }
            }
        };
        self.replicas.entry(replica).or_default().unsigned.insert(statement, signed);
    }
}

/// Watches one replica's driver.
#[derive(Clone, Debug)]
pub struct Watch {
    steps: Steps,
    replica: usize,
}

/// What an input brings.
#[derive(Debug, Default)]
pub struct Brought {
    starts: bool,
    blocks: Vec<Header>,
    certificates: Vec<Qc>,
    /// Is learnt only if its block is taken in.
    fetched: Option<Qc>,
    installed: Option<BlockId>,
    /// The committed head before, or what was found on the disk.
    root: BlockId,
}

impl Watch {
    /// Before the driver takes an input.
    pub fn takes(&self, driver: &HotStuff, input: &Input<Types>) -> Brought {
        let mut brought = Brought { root: driver.tree().root().id(), ..Brought::default() };
        match input {
            Input::Start(recovered) => {
                brought.starts = true;
                brought.root = recovered.root.id();
                brought.blocks.push(recovered.root.header().clone());
                brought.blocks.extend(recovered.blocks.iter().map(|block| block.header().clone()));
            }
            Input::Message { message, .. } => {
                if let Message::Proposal { block, .. } = &**message {
                    brought.blocks.push(block.header().clone());
                }
                brought.certificates = certificates_of(message);
            }
            Input::Fetched { block, .. } => {
                brought.blocks.push(block.header().clone());
                brought.fetched = Some(block.justify.clone());
            }
            Input::Installed { root, recent, evidence } => {
                brought.blocks.extend(recent.iter().chain([root.header()]).cloned());
                brought.certificates.push(evidence.clone());
                brought.installed = Some(root.id());
            }
            Input::Signed { statement, .. } => {
                let mut recording = self.steps.lock();
                let memory = recording.replicas.entry(self.replica).or_default();
                if let Some(step) = memory.unsigned.remove(statement) {
                    recording.steps.push(step);
                }
            }
            _ => {}
        }
        brought
    }

    /// After it did.
    pub fn took(&self, driver: &HotStuff, brought: Brought, fx: &Fx) {
        let (mut recording, replica) = (self.steps.lock(), self.replica);
        for block in &brought.blocks {
            recording.sees(block);
        }
        if brought.starts {
            recording.starts(replica, driver.safety(), &brought.root);
        }
        for qc in &brought.certificates {
            recording.learns(replica, qc);
        }
        let mut records = Vec::new();
        let outputs = fx.clone().persist(|written| {
            records = written;
            Ok::<(), std::convert::Infallible>(())
        });
        let admitted = records.iter().any(|record| matches!(record, Record::Block(_)));
        if let Some(qc) = brought.fetched.filter(|_| admitted) {
            recording.learns(replica, &qc);
        }
        // Blocks that waited for this one have been taken in with it.
        for record in &records {
            if let Record::Block(block) = record
                && block.proposer != ReplicaId(replica as u16)
            {
                recording.learns(replica, &block.justify);
            }
        }
        recording.holds(replica, driver.safety());
        let root = driver.tree().root().id();
        if brought.installed == Some(root) && root != brought.root {
            let block = recording.name(&root);
            recording.steps.push(Step::Install { replica, block });
        }
        for output in outputs.unwrap_or_default() {
            recording.does(replica, driver, &output);
        }
    }
}

/// The certificates in a message.
fn certificates_of(message: &Message) -> Vec<Qc> {
    let of = |qc: &Qc, tc: Option<&Tc>| -> Vec<Qc> {
        [Some(qc), tc.map(Tc::high_qc)].into_iter().flatten().cloned().collect()
    };
    match message {
        Message::Proposal { block, tc } => of(&block.justify, tc.as_ref()),
        Message::Vote(_) => Vec::new(),
        Message::Certificate(qc) | Message::NewView { high_qc: qc, .. } => of(qc, None),
        Message::TimeOut { high_qc, high_tc, .. } => of(high_qc, high_tc.as_ref()),
        Message::Advance { high_qc, high_tc, decided, .. } => {
            let mut all = of(high_qc, high_tc.as_ref());
            all.extend(decided.clone());
            all
        }
    }
}
