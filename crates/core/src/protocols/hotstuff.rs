//! The HotStuff family.
//!
//! [`HotStuff`] is what all variants share: proposals, votes, certificates, the pacemaker and the
//! safety record. What tells the variants apart is in [`rules`], one small file each. By file:
//!
//! - `claim`: what a message must be before its signatures are worth checking;
//! - `leading`: who leads a view, and who collects votes;
//! - `proposing`: when a leader proposes, and what;
//! - `voting`: when a replica votes (with [`Rules::may_vote`](rules::Rules::may_vote));
//! - `collecting`: how votes and time-outs become certificates;
//! - `seam`: the answers to what the replica asks of its protocol;
//! - `verifier`: what certificates prove to those who run no replica;
//! - `state`: what it remembers, in rooms with few fields;
//! - `second_votes`: words that commit a block without a certificate of their own;
//! - `certificates`: what a QC or TC leads to: high QC, lock, commit (with
//!   [`Rules::on_qc`](rules::Rules::on_qc));
//! - `timeouts`: giving up on a view;
//! - `new_views`: what is told, and what a leader waits for, after a view without a certificate.
//!
//! Deviations from the papers:
//! - **Votes go to the leader of the next view**, which collects them before it enters that view
//!   (in variants with several phases: to the leader of their view).
//! - **Time-outs carry the sender's last vote**, and every replica that gets them completes the
//!   certificate of a dead collector: with votes sent to the next leader only, four replicas with
//!   one dead never see three consecutive certified views.
//! - **An idle cluster is silent**: a leader proposes only while commands are pending, a
//!   proposal is needed to tell the others of a commit, or somebody waits for the last state's root
//!   to be certified; and timers run only while there is work. With second votes, which tell of
//!   commits themselves, an empty block is put off for a moment.
//! - **A block carries a state root** (of the block that its parent committed). A replica that
//!   computed another one does not vote.

pub mod block;
pub mod certificate;
mod certificates;
mod claim;
mod collecting;
pub mod leader;
mod leading;
pub mod limits;
pub mod message;
mod new_views;
pub mod pacemaker;
mod proposing;
pub mod rules;
pub mod safety;
mod seam;
mod second_votes;
mod settings;
mod state;
pub mod testimony;
mod timeouts;
pub mod tree;
pub mod verifier;
pub mod votes;
mod voting;

use std::sync::Arc;

pub use message::Message;
use safety::Safety;
pub use settings::Settings;
use testimony::Testimony;

use crate::base::membership::Committee;
use crate::base::types::{Height, ReplicaId, Time, View};
use crate::ledger::block::BlockId;
use crate::protocols::hotstuff::block::{Block, Header, SharedBlock};
use crate::protocols::hotstuff::certificate::{Domain, Qc, Tc};
use crate::protocols::hotstuff::pacemaker::{End, Pacemaker};
use crate::protocols::hotstuff::tree::BlockTree;
use crate::protocols::protocol::{
    self, Ballot, Effects, Ledger, Origin, Output, Record, Recovered,
};
use rules::Facts;
use state::{Collecting, Decisions, Elections, NewViews, Proposals, Said};

type Fx = Effects<Output<Types>, Record<Types>>;

/// The words of HotStuff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Types {}

impl protocol::Types for Types {
    type Content = block::Content;
    type Message = Message;
    type Memory = Safety;
    type Evidence = Qc;
    type Testimony = Testimony;
}

/// What the data of a replica begins with whose signatures are bound to `domain`.
#[must_use]
pub fn origin(domain: &Domain) -> Origin<Types> {
    let committee = domain.committee();
    let genesis = Arc::new(Block::opening(committee.epoch(), committee.opening()));
    Origin {
        committee: committee.clone(),
        memory: Safety::new(genesis.id()),
        genesis,
        memory_bytes: limits::safety_bytes_of(committee.most_replicas(), domain.carries_all_qcs()),
    }
}

/// A replica's share in HotStuff. Cloned and compared (by what `Debug` writes) by model checkers
/// only.
#[derive(Clone, Debug)]
pub struct HotStuff {
    me: ReplicaId,
    settings: Settings,
    domain: Domain,
    genesis: BlockId,
    tree: BlockTree,
    safety: Safety,
    pacemaker: Pacemaker,
    elections: Elections,
    proposals: Proposals,
    collecting: Collecting,
    said: Said,
    new_views: NewViews,
    decisions: Decisions,
}

impl HotStuff {
    /// The protocol of replica `me` of `committee`, before its
    /// [`Input::Start`](protocol::Input::Start).
    #[must_use]
    pub fn new(committee: Committee, me: ReplicaId, settings: Settings) -> Self {
        let genesis = Arc::new(Block::opening(committee.epoch(), committee.opening()));
        let (kind, timing) = (settings.pacemaker, settings.timing);
        let chain_length = settings.rules.facts().chain_length;
        Self {
            me,
            genesis: genesis.id(),
            safety: Safety::new(genesis.id()),
            tree: BlockTree::new(Arc::clone(&genesis), genesis.height, Vec::new()),
            pacemaker: Pacemaker::new(&committee, kind, timing, chain_length),
            elections: Elections::default(),
            proposals: Proposals::new(committee.size()),
            collecting: Collecting::new(&committee),
            said: Said::default(),
            new_views: NewViews::new(committee.size()),
            decisions: Decisions::none(),
            domain: settings.domain(committee),
            settings,
        }
    }

    /// What this protocol's signatures are bound to.
    #[must_use]
    pub fn domain(&self) -> &Domain {
        &self.domain
    }

    /// The safety record as it is now.
    #[must_use]
    pub fn safety(&self) -> &Safety {
        &self.safety
    }

    /// How many votes it holds, for checkers.
    #[must_use]
    pub fn held_votes(&self) -> usize {
        self.collecting.votes.held()
    }

    /// The highest quorum certificate known.
    #[must_use]
    pub fn high_qc(&self) -> &Qc {
        &self.safety.high_qc
    }

    /// The highest time-out certificate known, if it is above the highest quorum certificate: the
    /// higher of the two is the one by which the current view was entered.
    #[must_use]
    pub fn high_tc(&self) -> Option<&Tc> {
        self.safety.high_tc.as_ref()
    }

    /// The committed head and what is known above it.
    #[must_use]
    pub fn tree(&self) -> &BlockTree {
        &self.tree
    }

    /// The certificate of a block that this replica lacks and needs, if there is one.
    #[must_use]
    pub fn missing_of(&self) -> Option<&Qc> {
        let root = self.tree.root().view;
        // Below the root nothing is needed, and above it every certified block descends from it.
        let lacks = |qc: &&Qc| qc.view() > root && self.tree.find(&qc.block()).is_none();
        let of_orphans = || self.proposals.orphans().map(|orphan| &orphan.justify).filter(lacks);
        let high_qc = Some(&self.safety.high_qc).filter(lacks);
        let decided = self.decisions.certificate().filter(lacks);
        high_qc.or(decided).or_else(|| of_orphans().max_by_key(|qc| qc.view()))
    }

    /// The constants of its variant.
    fn facts(&self) -> &'static Facts {
        self.settings.rules.facts()
    }

    fn abstains(&self, view: View) -> bool {
        view <= self.safety.abstain_until || self.domain.committee().weight(self.me) == 0
    }

    fn start(&mut self, now: Time, recovered: Recovered<Types>, fx: &mut Fx) {
        let Recovered { memory: safety, root, root_committed, recent, blocks } = recovered;
        // Views without a commit count from here, however far the chain has come before the
        // snapshot.
        self.pacemaker.committed(root.view);
        self.tree = BlockTree::new(root, root_committed, recent);
        if let Some(safety) = safety {
            self.safety = mutant!("safety-not-restored", self.safety.clone(), safety);
        }
        self.proposals.proposed = mutant!("proposed-view-forgotten", View(0), self.safety.reserved);
        for block in blocks {
            // What cannot enter was of a pruned fork, or its parent was never recorded here:
            // then it will be fetched like any missing block.
            let _ = self.enter_block(now, &block, fx);
        }
        let high_qc = self.safety.high_qc.clone();
        self.apply_rules(&high_qc, fx);
        self.enter_behind(now, self.ended_by(&high_qc), End::Certified, fx);
        if let Some(view) = self.safety.high_tc.as_ref().map(Tc::view) {
            self.enter_behind(now, view, End::GivenUp, fx);
        }
        // A power failure may have left the record without the block that was written with it. That
        // vote never left, and must not (but for a second vote, which needs no block): a
        // certificate of such votes would be for a block that nobody has. Nor does it when the
        // block came later and the view was given up meanwhile.
        if let Some(ballot) = self.safety.voted
            && self.tree.find(&ballot.block).is_some()
            && ballot.view > self.safety.timed_out
        {
            self.send_cast(ballot, fx);
        }
        self.wait_for_new_views(now);
        self.repeat_proposal(fx);
    }

    /// Grows from a later committed block, whose state was taken over. What the chain up to it
    /// commits is not known here, and will be as soon as a block above it commits one: until then
    /// its children's state roots cannot be checked, and this replica does not vote.
    fn install(
        &mut self,
        now: Time,
        root: SharedBlock,
        recent: Vec<Header>,
        certificate: Qc,
        fx: &mut Fx,
    ) {
        if root.height <= self.tree.root().height {
            return;
        }
        self.pacemaker.committed(root.view);
        self.decisions.installed = root.height;
        self.elections.forget();
        self.tree = BlockTree::new(root, Height(0), recent);
        self.proposals.drop_old_orphans(self.tree.root());
        self.on_qc(now, certificate, fx);
        // More may have been certified since the snapshot, and nobody else speaks in an idle
        // cluster.
        fx.output(Output::Broadcast(self.advance()));
    }

    /// Sends the proposal of the current view again, if this replica made one before it stopped,
    /// and has the TC to show where one is needed. (Once a phase of the view has its certificate,
    /// that tells of the block, and the TC is gone.)
    fn repeat_proposal(&self, fx: &mut Fx) {
        let Some(Ballot { view, block, .. }) = self.safety.voted else { return };
        if view == self.pacemaker.view()
            && let Some(block) = self.tree.get(&block)
            && block.proposer == self.me
        {
            let tc = self.tc_to_enter(view, &block.justify);
            if tc.is_none() && self.ended_by(&block.justify).next() != view {
                return;
            }
            fx.output(Output::Broadcast(Message::Proposal { block: Arc::clone(block), tc }));
        }
    }

    fn advance(&self) -> Message {
        self.certificates(false)
    }

    /// The same for a peer that said something from which this replica sees that it is behind.
    fn answer(&self) -> Message {
        self.certificates(true)
    }

    fn certificates(&self, is_answer: bool) -> Message {
        Message::Advance {
            is_answer,
            high_qc: self.safety.high_qc.clone(),
            high_tc: self.safety.high_tc.clone(),
            decided: self.news_of_decision().and_then(|_| self.decisions.certificate().cloned()),
        }
    }

    /// The view of the highest certificate that decides, if the high QC does not show as much.
    fn news_of_decision(&self) -> Option<View> {
        let root = self.tree.root();
        let decided = self.decisions.certificate().filter(|qc| qc.view() >= root.view)?;
        (root.height > self.shown_by(&self.safety.high_qc)).then(|| decided.view())
    }

    /// Up to which height this replica's certificates show what it knows to be committed. They show
    /// less where the one that committed it is of a fork that was left since, or was lost in a
    /// restart (a snapshot is on disk without it). Then there is work until a later one shows as
    /// much: who lacks it would ask in vain.
    fn committed_for_all_to_see(&self) -> Height {
        let root = self.tree.root().height;
        if root == self.decisions.installed || self.news_of_decision().is_some() {
            return root;
        }
        self.shown_by(&self.safety.high_qc).min(root)
    }

    /// Whether commands stand above the committed head in the chain that leaders extend. Those of
    /// another fork are pending in the mempool, or were executed: they are nothing to wait for.
    fn has_uncommitted_commands(&self) -> bool {
        let floor = self.committed_for_all_to_see();
        let head = self.safety.high_qc.block();
        let mut above = self.tree.above(floor, &head);
        above.any(|block| !block.is_empty())
    }

    fn on_message(
        &mut self,
        now: Time,
        from: ReplicaId,
        message: Message,
        ledger: &mut dyn Ledger,
        fx: &mut Fx,
    ) {
        match message {
            Message::Proposal { block, tc } => self.on_proposal(now, &block, tc, ledger, fx),
            Message::Vote(vote) if self.is_second(&vote) => self.on_second_vote(vote, fx),
            Message::Vote(vote) => self.on_vote(now, vote, fx),
            Message::Certificate(qc) => self.on_qc(now, qc, fx),
            Message::TimeOut { time_out, high_qc, high_tc, last_vote } => {
                self.on_certificates(now, from, high_qc.clone(), high_tc, fx);
                if let Some(vote) = last_vote {
                    self.on_vote(now, *vote, fx);
                }
                self.on_time_out(now, time_out, high_qc, fx);
            }
            Message::NewView { view, high_qc } => {
                self.on_qc(now, high_qc, fx);
                self.new_views.heard(from, view);
            }
            Message::Advance { high_qc, high_tc, decided, is_answer } => {
                let theirs = decided.as_ref().map(Qc::view);
                let rank = high_qc.rank();
                if let Some(qc) = decided {
                    self.on_qc(now, qc, fx);
                }
                let ended = high_tc.as_ref().map_or(self.ended_by(&high_qc), Tc::view);
                self.on_certificates(now, from, high_qc, high_tc, fx);
                let behind = ended.next().next() <= self.pacemaker.view();
                let idle = self.pacemaker.deadline().is_none();
                let lacks = behind && ended < self.best_ended()
                    || idle && rank < self.safety.high_qc.rank()
                    || self.news_of_decision() > theirs;
                if lacks && !is_answer {
                    fx.output(Output::Send { to: from, message: self.answer() });
                }
            }
        }
    }
}
