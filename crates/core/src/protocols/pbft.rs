//! PBFT, with a window of blocks under way at once.
//!
//! After *Practical Byzantine Fault Tolerance* (Castro and Liskov, OSDI 1999; "the paper" below)
//! and *Practical Byzantine Fault Tolerance and Proactive Recovery* (the same, TOCS 2002; "its
//! successor"), as pipelined by *Towards Improving the Performance of BFT Consensus For Future
//! Permissioned Blockchains* (Bravo, István and Sit), section IV.
//!
//! # Normal case (the paper, section 4.2)
//! The view's *primary* gives the next sequence number, here a block's height, to a block of frames
//! and sends it (PRE-PREPARE). Each backup that accepts it says so to all (PREPARE). A block that q
//! replicas have accepted in one view is *prepared*; who has a prepared block says so to all
//! (COMMIT). q COMMITs of one view commit a block. Replicas execute blocks in order, and a client
//! believes f + 1 equal answers: five message delays from the request to the answer.
//!
//! The primary waits for no block to commit before it orders the next: up to
//! [`under_way`](Settings::under_way) blocks are, between the *water marks* h (the stable
//! checkpoint) and H = h + [`window`](Settings::window).
//!
//! # Tentative execution (section 5.1.2), an option
//! A replica executes a block as soon as it is prepared and all below are committed, and answers
//! tentatively. n - f equal answers of one view tell the client that the block is committed: four
//! message delays instead of five (`pbft/tentative.rs`).
//!
//! # Checkpoints (section 4.3)
//! Every [`checkpoint_every`](Settings::checkpoint_every) blocks replicas sign the root of their
//! state. q equal ones make the checkpoint *stable*: what is below is forgotten, and the q
//! signatures convince who was not there. In an idle cluster the last state becomes stable when
//! somebody asks for a proof.
//!
//! # View changes (section 4.4; its successor, section 4.5)
//! A replica that waited in vain gives up on the view: it accepts nothing in it any more and says
//! what it prepared (P) and pre-prepared (Q) above its stable checkpoint (VIEW-CHANGE). q of these
//! determine what the next view begins with ([`choice`]); its primary shows them (NEW-VIEW) and all
//! recompute the choice. A replica joins f + 1 others that gave up. Waits double from one view
//! change to the next.
//!
//! # Deviations, and why they are sound
//! - **Blocks have parents.** A backup accepts a block only on the one it accepted before, in the
//!   same view, and holds a block to be prepared only if all below are. So whoever prepared a block
//!   prepared its ancestors in the same view, or knew that they are committed. Where a block was
//!   committed in view v, q replicas prepared it, and each ancestor, in v or knew it committed; for
//!   the ancestor's earliest commit they all prepared it in one view. The successor's proof holds
//!   for that view and that height: every later view chooses it there. Hence the choice, made
//!   height by height, never parts a committed block from its ancestors, and may end at the first
//!   height where nothing is chosen or the block chosen does not extend the one below. To choose
//!   the highest prepared *tip* instead, by height or by view, would be unsafe.
//! - **No null requests**: there are no gaps to fill.
//! - **View changes are signed** with either [`Authentication`], so that a new view is checked by
//!   anybody and no acknowledgements are needed: view changes are rare, and the MACs' view change
//!   was made when a signature took milliseconds. The sets P and Q decide in both: they need no
//!   proofs, and so no signature of a PREPARE is kept.
//! - **f + 1 PREPAREs stand for a pre-prepare** that did not arrive: one of them is of a correct
//!   replica that had it from the primary.
//! - **The view timer** is reset by commits alone. It waits at least four times as long as blocks
//!   took in the views before, and so does not fire because the network is slow; the view's own
//!   primary cannot make it longer.
//! - **A minimum rate**: a primary that orders just inside that time is given up for its rate,
//!   which is measured by what the group takes for a block (`pbft/rate.rs`).
//! - **Q is bounded**: a replica remembers four pre-prepared blocks of a height. It lets an earlier
//!   one go with a proof that this was not committed (`pbft/forgetting.rs`).
//! - **Mercy**: a replica that gave up alone can vote in no view that the others are in. They leave
//!   their view for it if that has lasted long.
//! - q is n − f for every n, not 2f + 1.
//! - **A replica that lost its data comes back** by view changes instead of new keys ([`amnesia`]).

pub mod amnesia;
mod behind;
mod chain;
mod changes;
pub mod choice;
mod clock;
pub mod domain;
mod forgetting;
mod helping;
mod known;
mod limits;
mod order;
mod ordering;
#[cfg(quorate_mutants)]
mod planted;
mod rate;
mod seam;
mod tentative;
mod verifier;
mod view_change;
mod watching;
mod window;
pub mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use clock::Patience;
pub use domain::{Authentication, Domain};
pub use limits::memory_bytes;
pub use words::{Message, Types};

use crate::base::crypto::{Signature, Statement};
use crate::base::membership::Committee;
use crate::base::per_peer::PerPeer;
use crate::base::types::{Height, ReplicaId, Time, View};
use crate::ledger::block::{Block, BlockId};
use crate::protocols::checkpoint::{Checkpoint, Checkpoints, Stable};
use crate::protocols::protocol::{
    BlockOf, Decision, Effects, Ledger, Origin, Output, Record, Recovered,
};
use behind::Behind;
use chain::Chain;
use changes::Changes;
use clock::Clock;
use known::Known;
use order::Order;
use rate::Rate;
use window::Window;
use words::{Content, Forgotten, Memory, NewView, ViewChange, Vote};

/// Its name in configuration.
pub const NAME: &str = "pbft";
/// One-way message delays from a pre-prepare to its commit at every replica, while the primary is
/// correct: pre-prepare, prepare, commit.
pub const MESSAGE_DELAYS: u64 = 3;
/// Kinds of votes in a view: prepares and commits.
pub const PHASES: u8 = 2;
/// What a view change costs.
pub const VIEW_CHANGE: &str = "O(n²) broadcast view changes, then a new view of q";
/// Where it is from.
pub const SOURCE: &str = "Castro, Liskov 1999";

type Fx = Effects<Output<Types>, Record<Types>>;

/// What a replica is told at its making. All but the patience is the cluster's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How replicas know who says what.
    pub authentication: Authentication,
    /// L of the paper: blocks between the water marks. At least twice
    /// [`checkpoint_every`](Self::checkpoint_every), and at most [`words::MAX_WINDOW`].
    pub window: u64,
    /// K of the paper: blocks from one checkpoint to the next.
    pub checkpoint_every: u64,
    /// Most blocks that a primary has under way at once, in blocks.
    pub under_way: u64,
    /// Prepared blocks are executed tentatively (section 5.1.2 of the paper).
    pub tentative: bool,
    /// How long a replica waits for the primary.
    pub patience: Patience,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            authentication: Authentication::default(),
            window: 64,
            checkpoint_every: 32,
            under_way: 8,
            tentative: false,
            patience: Patience::default(),
        }
    }
}

/// A replica's share in the protocol.
#[derive(Clone, Debug)]
pub struct Pbft {
    me: ReplicaId,
    domain: Domain,
    settings: Settings,
    genesis: BlockId,
    view: View,
    /// It has given up on the views before, and this one has not begun.
    is_changing: bool,
    /// When the view began here, if that was since the last start.
    entered: Option<Time>,
    chain: Chain,
    order: Order,
    window: Window,
    known: Known,
    /// Why it need not remember more than it knows.
    forgotten: Option<Forgotten>,
    checkpoints: Checkpoints,
    /// The block that was executed tentatively last, in which view, if nothing was committed since.
    ahead: Option<(View, BlockId)>,
    /// The highest stable checkpoint that a committed block names.
    said: Height,
    changes: Changes,
    clock: Clock,
    rate: Rate,
    behind: Option<Behind>,
    /// It lost its memory, and abstains until it enters this view or a later one.
    awaits: Option<View>,
    helped: PerPeer<Option<Time>>,
    /// When a peer was last shown what became of blocks that it prepared.
    shown: PerPeer<Option<Time>>,
    /// What is being signed, and to whom it goes; `None` is everybody.
    unsigned: BTreeMap<Statement, (Unsigned, Vec<Option<ReplicaId>>)>,
    must_write: bool,
}

/// A message without its signature.
#[derive(Clone, Debug)]
enum Unsigned {
    PrePrepare(BlockOf<Types>),
    Vote(Vote),
    Checkpoint(Checkpoint),
    ViewChange(ViewChange),
    NewView(NewView),
}

/// What the data of a replica of `committee` begins with, if `window` blocks are between the water
/// marks.
#[must_use]
pub fn origin(committee: &Committee, window: u64) -> Origin<Types> {
    Origin {
        committee: committee.clone(),
        genesis: Arc::new(Block::new(Content::genesis(committee))),
        memory: Memory { view: View(1), ..Memory::default() },
        memory_bytes: memory_bytes(committee.most_replicas(), window),
    }
}

impl Pbft {
    /// The protocol of replica `me` of `committee`, before its
    /// [`Input::Start`](crate::protocols::protocol::Input::Start).
    #[must_use]
    pub fn new(committee: Committee, me: ReplicaId, settings: Settings) -> Self {
        let genesis = origin(&committee, settings.window).genesis;
        Self {
            me,
            settings,
            genesis: genesis.id(),
            view: View(1),
            is_changing: false,
            entered: None,
            order: Order::new(genesis.height(), genesis.id()),
            chain: Chain::new(genesis),
            window: Window::new(committee.clone()),
            known: Known::default(),
            forgotten: None,
            checkpoints: Checkpoints::new(committee.clone(), committee.quorum()),
            ahead: None,
            said: Height(0),
            changes: Changes::new(committee.clone()),
            clock: Clock::new(settings.patience, committee.size()),
            rate: Rate::new(settings.patience.base),
            behind: None,
            awaits: None,
            helped: PerPeer::new(committee.size()),
            shown: PerPeer::new(committee.size()),
            unsigned: BTreeMap::new(),
            must_write: false,
            domain: Domain::new(committee, settings.authentication),
        }
    }

    /// Whether this replica says nothing that counts: it lost its memory, or it is a learner.
    fn abstains(&self) -> bool {
        self.awaits.is_some() || self.domain.committee().weight(self.me) == 0
    }

    /// What must not be forgotten, as it is now.
    fn memory(&self) -> Memory {
        let sets = self.known.sets();
        let (prepared, pre_prepared) =
            mutant!("pbft-sets-not-persisted", (Vec::new(), Vec::new()), sets);
        let head = self.chain.head();
        Memory {
            view: self.view,
            is_changing: self.is_changing,
            stable: self.checkpoints.stable().cloned(),
            committed: Some((head.height(), head.id())),
            prepared,
            pre_prepared,
            forgotten: self.forgotten.clone(),
            awaits: self.awaits,
        }
    }

    fn start(&mut self, recovered: Recovered<Types>, fx: &mut Fx) {
        let Recovered { memory, root, blocks, .. } = recovered;
        self.chain = Chain::new(root);
        blocks.into_iter().for_each(|block| self.chain.insert(block));
        let Some(memory) = memory else { return self.resume() };
        (self.view, self.is_changing) = (memory.view, memory.is_changing);
        self.awaits = memory.awaits;
        self.known = Known::recovered(&memory.prepared, &memory.pre_prepared);
        self.forgotten = memory.forgotten;
        let proof = self.forgotten.as_ref();
        if let Some(proof) = proof.filter(|it| !self.is_changing && it.new_view.view == self.view) {
            self.changes.begin(proof.new_view.clone(), proof.signature);
        }
        if self.domain.committee().size() == 1 {
            // Nobody else has a block that was lost before it was said; nor was it.
            let root = self.chain.head().height();
            let chain = &self.chain;
            self.known.retain(|entry| entry.height <= root || chain.get(&entry.block).is_some());
        }
        let stable = memory.stable.as_ref().map(|stable| stable.checkpoint);
        let stable = stable.map(|checkpoint| (checkpoint.height, checkpoint.block));
        if let Some(stable) = memory.stable {
            self.raise_stable(stable);
        }
        // A memory may have survived a power failure that the last block did not.
        let committed = stable.into_iter().chain(memory.committed);
        let paths = committed.filter_map(|(_, id)| self.chain.path(&id));
        let path = paths.max_by_key(Vec::len).unwrap_or_default();
        for block in &path {
            self.chain.commit(block);
        }
        let said =
            |block: &BlockOf<Types>| block.stable.as_ref().map(|said| said.checkpoint.height);
        self.said = path.iter().filter_map(said).max().unwrap_or_default();
        if !path.is_empty() {
            fx.output(Output::Commit(path.into_iter().map(Decision::Block).collect()));
        }
        self.resume();
        if self.is_changing {
            self.say_change(fx);
        }
    }

    /// Takes up the order of the current view where it was left.
    fn resume(&mut self) {
        let head = self.chain.head();
        self.order = Order::new(head.height(), head.id());
        // What the view began with is among these, as far as it was accepted.
        self.order.began_with = self.known.highest().unwrap_or_default();
        if self.is_changing {
            return;
        }
        let (view, mut height) = (self.view, head.height().next());
        while let Some(block) = self.known.pre_prepared_in(view, height) {
            let (tip, phase) = (self.order.tip.1, words::Phase::Prepare);
            if self.chain.get(&block).is_none_or(|block| block.parent() != tip) {
                break;
            }
            self.order.tip = (height, block);
            let prepare = Vote { phase, view, height, block };
            self.window.add(self.domain.primary(view), &prepare);
            self.window.add(self.me, &prepare);
            if self.known.prepared_in(view, height) == Some(block) {
                self.window.add(self.me, &Vote { phase: words::Phase::Commit, ..prepare });
                self.order.prepared = height;
            }
            height = height.next();
        }
    }

    /// A state was taken over.
    fn install(&mut self, root: BlockOf<Types>, evidence: Stable) {
        if root.height() > self.chain.head().height() {
            self.raise_stable(evidence);
            self.chain.install(root);
            self.must_write = true;
        }
    }

    fn on_message(&mut self, now: Time, from: ReplicaId, message: Message, fx: &mut Fx) {
        match message {
            Message::PrePrepare { block, .. } => self.on_pre_prepare(from, block, fx),
            Message::Vote { vote, .. } => self.on_vote(from, &vote, fx),
            Message::Checkpoint { checkpoint, signature } => {
                self.on_checkpoint(from, checkpoint, signature);
            }
            Message::ViewChange(signed) => self.on_change(now, *signed, fx),
            Message::NewView { new_view, signature } => {
                self.on_new_view(now, *new_view, signature, fx);
            }
            Message::Stable(stable) => self.raise_stable(*stable),
            Message::Standing(standing) => self.on_standing(now, from, standing, fx),
        }
    }

    /// Signs the checkpoints that are due: every so many blocks; where somebody waits for a proof,
    /// of the state that is wanted, so that all sign the same one; and of the last state where a
    /// later one is wanted and nothing is under way.
    fn sign_checkpoints(&mut self, ledger: &dyn Ledger, fx: &mut Fx) {
        let every = self.settings.checkpoint_every;
        let (executed, head) = (ledger.executed(), self.chain.head().height());
        let is_idle = self.order.tip.0 <= head && executed == head && !ledger.has_pending();
        let is_asked = ledger.root_wanted() > Some(self.checkpoints.low());
        let first = self.checkpoints.signed().max(self.checkpoints.low()).0 / every * every + every;
        let regular = (first..=executed.0).step_by(every as usize).map(Height);
        let asked = Some(head).filter(|_| is_idle && is_asked);
        let wanted = ledger.root_wanted().filter(|wanted| *wanted <= executed);
        let due: BTreeSet<Height> = regular.chain(wanted).chain(asked).collect();
        for height in due {
            if height <= self.checkpoints.signed().max(self.checkpoints.low()) {
                continue;
            }
            let Some(root) = ledger.state_root(height) else { continue };
            let Some(block) = self.chain.at(height).map(|block| block.id()) else { continue };
            self.checkpoints.sign(height);
            self.say(Unsigned::Checkpoint(Checkpoint { height, block, root }), None, fx);
        }
    }

    fn on_checkpoint(&mut self, from: ReplicaId, checkpoint: Checkpoint, signature: Signature) {
        if let Some(stable) = self.checkpoints.add(from, checkpoint, signature) {
            self.raise_stable(stable);
        }
    }

    /// A checkpoint is stable: the water marks move, and what is below is forgotten.
    fn raise_stable(&mut self, stable: Stable) {
        let low = stable.checkpoint.height;
        if self.checkpoints.raise(stable) {
            self.window.forget(low);
            let early = mutant!("pbft-low-water-mark", self.settings.checkpoint_every, 0);
            self.known.forget(low.plus(early));
            self.forgotten.take_if(|forgotten| forgotten.up_to <= low);
            self.must_write = true;
        }
    }

    /// Says something to one replica or to all, signed if it has to be.
    fn say(&mut self, what: Unsigned, to: Option<ReplicaId>, fx: &mut Fx) {
        let (statement, is_direct) = match &what {
            Unsigned::PrePrepare(block) => {
                (self.domain.pre_prepare(block.view(), block.height(), &block.id()), true)
            }
            Unsigned::Vote(vote) => (self.domain.vote(vote), true),
            Unsigned::Checkpoint(checkpoint) => (self.domain.checkpoint(checkpoint), false),
            Unsigned::ViewChange(change) => (self.domain.view_change(change), false),
            Unsigned::NewView(new_view) => (self.domain.new_view(new_view), false),
        };
        if is_direct && !self.domain.signs() {
            return deliver(self.message(what, Signature::NONE), &[to], fx);
        }
        let (_, receivers) = self.unsigned.entry(statement).or_insert_with(|| (what, Vec::new()));
        if !receivers.contains(&to) {
            receivers.push(to);
        }
        fx.output(Output::Sign(statement));
    }

    fn message(&self, what: Unsigned, signature: Signature) -> Message {
        match what {
            Unsigned::PrePrepare(block) => Message::PrePrepare { block, signature },
            Unsigned::Vote(vote) => Message::Vote { vote, signature },
            Unsigned::Checkpoint(checkpoint) => Message::Checkpoint { checkpoint, signature },
            Unsigned::ViewChange(change) => {
                let from = self.me;
                Message::ViewChange(Box::new(words::SignedChange { from, change, signature }))
            }
            Unsigned::NewView(new_view) => {
                Message::NewView { new_view: Box::new(new_view), signature }
            }
        }
    }

    fn on_signed(&mut self, now: Time, statement: &Statement, signature: Signature, fx: &mut Fx) {
        let Some((what, receivers)) = self.unsigned.remove(statement) else { return };
        match &what {
            Unsigned::Checkpoint(checkpoint) => self.on_checkpoint(self.me, *checkpoint, signature),
            Unsigned::ViewChange(change) if change.view < self.view => return,
            Unsigned::ViewChange(change) => self.signed_change(change.clone(), signature),
            Unsigned::NewView(new_view) => {
                if !self.signed_new_view(now, new_view, signature, fx) {
                    return;
                }
            }
            Unsigned::PrePrepare(_) | Unsigned::Vote(_) => {}
        }
        deliver(self.message(what, signature), &receivers, fx);
    }
}

fn deliver(message: Message, receivers: &[Option<ReplicaId>], fx: &mut Fx) {
    for to in receivers {
        let message = message.clone();
        fx.output(match to {
            Some(to) => Output::Send { to: *to, message },
            None => Output::Broadcast(message),
        });
    }
}
