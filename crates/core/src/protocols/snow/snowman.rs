//! Snowman: a chain agreed on by sampling. **Its safety is probabilistic**: no quorum certifies a
//! block, and two correct replicas may accept different ones, with a probability that k, α and β
//! make small as long as few replicas lie. Frosty's analysis (arXiv 2404.14250) asks for fewer than
//! a fifth. Progress wants (1 − α / k) of the stake silent at most.
//!
//! The chain is Snowman of AvalancheGo: one Snowflake+ (arXiv 2404.14250, section 5; the module
//! [`snowflake_plus`](super::snowflake_plus)) for each choice between the children of a block.
//! The family is that of arXiv 1906.08936; later practice dropped Snowball's confidence.
//!
//! # A poll
//! While there is anything above the accepted block, a replica asks samples of k which chain they
//! prefer ([`parameters`](super::parameters)), several at once. An answer names a tip, and counts
//! for all of its ancestors. More than half of the sample for a child turns a replica to it (α₁ of
//! Snowflake+). β polls in a row with α seats for a child accept it (α₂), and reject its siblings.
//! Polls count in the order in which they began, and one ends as soon as the lowest choice is
//! certain: what it leaves open above that one counts as unsuccessful. One that cannot succeed
//! waits until α seats have named known blocks, and for all answers that may turn the replica.
//!
//! # Who proposes
//! After Snowman++, the replicas take turns in an order drawn from the block to be extended: the
//! first may propose at once, the next one a [`window`](Settings::window) later. Clocks are not
//! shared, so the order is a courtesy: who does not keep to it makes a conflict, which polls
//! resolve. A proposer waits for no block to be accepted: up to
//! [`under_way`](Settings::under_way) are above the accepted one on the chain it prefers. With
//! nothing to order nobody proposes, with nothing to decide nobody asks; who does not know yet what
//! was accepted is told some times, less and less often, and then all is silent.
//!
//! About √n liars that know what the others prefer can keep a choice even, and with it the chain,
//! as long as they like. With a [fallback](frosty) a quorum decides then.
//!
//! # Durable first
//! Blocks are recorded when they enter the tree. The memory, the accepted block and the preferred
//! one, is written before an answer leaves that rests on it, or a decision. Counters are not: after
//! a restart they begin anew.
//!
//! # Getting what is missing
//! Who lacks a block that a peer names fetches it from those who named it, by its hash. One that
//! does not come in a minute has lost: it is given up until a peer names it anew. What a peer sends
//! is kept apart from what others send, until it leads to a tip that is named: block after block of
//! a chain without end is in nobody's way. Fetched blocks are candidates like others, and polls
//! decide. Every [`checkpoint_every`](Settings::checkpoint_every) blocks replicas sign the root of
//! their state; f + 1 equal ones make it *stable*: **one of them is correct, and accepted it**.
//! Blocks carry stable checkpoints, and who is far behind accepts what is below one. A snapshot is
//! believed by the same f + 1. That is no certificate: a quorum did not accept it, and it convinces
//! of as much as one correct replica does.
//!
//! # Deviations
//! - **Among no more than k others** every poll asks everybody, the own preference is one of
//!   the seats (AvalancheGo samples itself, too), and α is q = n − f. A poll that fails ends
//!   once q seats have named known blocks. Then a coin decides whether the replica turns to the
//!   best child of a block, if q seats are for its children. The last answers of replicas that
//!   have not answered count there, too, for two seconds. The best child is one that f + 1
//!   replicas say they have accepted: one of them is correct, and cannot turn any more. Else it
//!   is the one with most seats. A tie goes to a child that more replicas than may lie (fewer
//!   than a fifth) say they have accepted, and else to the lowest name. Say that q replicas
//!   prefer a block, and l of them lie. Then q − l are for it, and at most f + l against it. So
//!   nobody turns away from it if n > 2 (f + l), and if no answer that counts is older than
//!   that. With fewer than a fifth of liars the first holds up to 21 replicas, but with 16 a
//!   tie is possible.
//! - In larger committees α₁ is more than half of k, as in the paper; AvalancheGo takes 15 of 20.
//!   Both decide bit by bit of the blocks' names. Here all children of a block are one choice, so
//!   the same coin is tossed where more than half of the sample prefers siblings of the own
//!   preference, and none of these has more than half: many proposed at once, as after a partition.
//!   With fewer against its preference nobody turns. Two children may be even in a sample only
//!   because answers are missing, while nearly all prefer one of them.
//! - **Proposals are not signed.** Who made a block is known to those who have it from its
//!   proposer; they take one of its children of each block. What others fetch is bounded by who
//!   named it.

mod accepted;
mod domain;
mod fetching;
pub mod frosty;
mod pace;
mod peers;
mod place;
mod polling;
mod polls;
mod proposing;
mod seam;
mod telling;
mod tree;
mod verifier;
mod vouching;
mod wanted;
pub mod words;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use domain::Domain;
pub use frosty::Fallback;
pub use words::{Message, Types};

use super::parameters::Parameters;
use super::random::Random;
use super::sampling::{Electorate, Sampler};
use crate::base::crypto::{Signature, Statement};
use crate::base::membership::{Committee, MAX_REPLICAS};
use crate::base::types::{Duration, Height, ReplicaId, Time};
use crate::protocols::checkpoint::{Checkpoint, Checkpoints, Stable};
use crate::protocols::protocol::{
    BlockOf, Decision, Effects, Event, HeaderOf, Ledger, Origin, Output, Record, Recovered,
};
use accepted::Accepted;
use frosty::Frosty;
use pace::{Pace, Turn};
use peers::Peers;
use polls::Polls;
use tree::Tree;
use wanted::Fetching;
use words::{Content, Memory, Place};

/// Its name in configuration.
pub const NAME: &str = "snowman";
/// Where it is from.
pub const SOURCE: &str = "Team Rocket et al. 2019";
/// Blocks above the accepted one that are taken from others, in blocks.
const MAX_DEPTH: u64 = 128;
/// Blocks in the tree from which on those are forgotten that nobody names.
const MAX_BLOCKS: usize = 512;

type Fx = Effects<Output<Types>, Record<Types>>;

/// What a replica is told at its making. All but the seed is the cluster's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// k, α and β (β₂; there is no β₁).
    pub parameters: Parameters,
    /// Polls under way at once.
    pub polls: usize,
    /// How long a replica leaves to each of those whose turn to propose comes before its own.
    pub window: Duration,
    /// Blocks above the accepted one that a proposer builds on, in blocks.
    pub under_way: u64,
    /// Blocks from one checkpoint to the next.
    pub checkpoint_every: u64,
    /// Where samples and coins come from. Nobody else may know it.
    pub seed: u64,
    /// Where sampling decides nothing for long, a quorum decides ([`frosty`]).
    pub fallback: Option<Fallback>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            parameters: Parameters::LATER_PRACTICE,
            polls: 4,
            window: Duration::from_millis(100),
            under_way: 8,
            checkpoint_every: 32,
            seed: 0,
            fallback: None,
        }
    }
}

impl Settings {
    /// A committee, and the samples that fit it.
    #[must_use]
    pub fn domain(&self, committee: Committee) -> Domain {
        let wanted = self.parameters.checked().unwrap_or(Parameters::LATER_PRACTICE);
        match self.fallback {
            None => Domain::new(committee, wanted),
            Some(_) => Domain::falling_back(committee, wanted),
        }
    }
}

/// A replica's share in the protocol.
#[derive(Clone, Debug)]
pub struct Snowman {
    me: ReplicaId,
    domain: Domain,
    settings: Settings,
    /// `None` where each poll asks everybody.
    sampler: Option<Sampler>,
    random: Random,
    accepted: Accepted,
    tree: Tree,
    polls: Polls,
    pace: Pace,
    turn: Turn,
    fetching: Fetching,
    peers: Peers,
    checkpoints: Checkpoints,
    /// The highest stable checkpoint that an accepted block names.
    said: Height,
    /// Checkpoints that are being signed.
    unsigned: BTreeMap<Statement, Checkpoint>,
    /// When the own checkpoint was said again.
    said_again: Option<Time>,
    /// Where this replica is with epochs, if the cluster has them.
    frosty: Option<Frosty>,
    /// What is on disk.
    written: Option<Memory>,
}

/// What the data of a replica of `committee` begins with.
#[must_use]
pub fn origin(committee: &Committee, fallback: Option<Fallback>) -> Origin<Types> {
    let epochs = fallback.map_or(0, |_| frosty::memory_bytes(committee.size()));
    let genesis = Content::genesis(committee);
    let place = Place::of(&genesis);
    Origin {
        committee: committee.clone(),
        memory: Memory { accepted: place, preferred: place.block, stable: None, frosty: None },
        genesis,
        memory_bytes: memory_bytes(committee.size()) + epochs,
    }
}

/// The most bytes of the memory of a replica in a committee of this size, without epochs.
#[must_use]
pub const fn memory_bytes(replicas: usize) -> usize {
    const { assert!(MAX_REPLICAS <= u16::MAX as usize) };
    let (digest, number, count) = (32, 8, 4);
    let signed = 2 + 1 + Signature::MAX_BYTES;
    let checkpoint = number + 2 * digest;
    (number + digest) + digest + 1 + checkpoint + count + replicas * signed
}

impl Snowman {
    /// The protocol of replica `me` of `committee`, before its
    /// [`Input::Start`](crate::protocols::protocol::Input::Start). Parameters that make no sense
    /// are replaced by [those of later practice](Parameters::LATER_PRACTICE).
    #[must_use]
    pub fn new(committee: Committee, me: ReplicaId, settings: Settings) -> Self {
        let genesis = Content::genesis(&committee);
        let domain = settings.domain(committee.clone());
        let stakes: Vec<u64> = committee.replicas().map(|id| committee.weight(id) as u64).collect();
        let sampler = Electorate::new(&stakes)
            .and_then(|electorate| electorate.sampler(me, domain.parameters().sample))
            .ok()
            .filter(|_| !domain.asks_all());
        Self {
            me,
            settings,
            sampler,
            random: Random::new(settings.seed),
            tree: Tree::new(genesis.id(), domain.rules()),
            accepted: Accepted::new(genesis, &[]),
            polls: Polls::new(committee.size(), domain.most_benched()),
            pace: Pace::default(),
            turn: Turn::default(),
            fetching: Fetching::new(committee.size()),
            peers: Peers::new(committee.size()),
            checkpoints: Checkpoints::new(committee.clone(), committee.honest_witness()),
            said: Height(0),
            unsigned: BTreeMap::new(),
            said_again: None,
            frosty: settings.fallback.map(|fallback| Frosty::new(committee.size(), fallback)),
            written: None,
            domain,
        }
    }

    fn start(&mut self, recovered: Recovered<Types>, fx: &mut Fx) {
        let Recovered { memory, root, recent, blocks, .. } = recovered;
        self.accepted = Accepted::new(Arc::clone(&root), &recent);
        self.tree = Tree::new(root.id(), self.domain.rules());
        for block in &blocks {
            self.tree.insert(block, 0);
        }
        let Some(memory) = memory else { return };
        if let Some(stable) = memory.stable.clone() {
            self.checkpoints.raise(stable);
        }
        if let (Some(frosty), Some(kept)) = (&mut self.frosty, &memory.frosty) {
            frosty.kept = Arc::clone(kept);
        }
        // A memory may have survived a power failure that the last block did not: nothing that
        // rested on them has left.
        let path = self.tree.path(&memory.accepted.block).unwrap_or_default();
        self.accept(path, fx);
        self.tree.prefer(&memory.preferred);
        self.written = Some(memory);
    }

    /// These are decided, in this order.
    fn accept(&mut self, path: Vec<BlockOf<Types>>, fx: &mut Fx) {
        let Some(last) = path.last().cloned() else { return };
        let mut decisions = Vec::with_capacity(path.len());
        for block in path {
            let rejected = self.tree.accept(&block.id());
            if rejected > 0 {
                fx.event(Event::Pruned(rejected));
            }
            if let Some(stable) = &block.stable {
                self.said = self.said.max(stable.checkpoint.height);
                self.checkpoints.raise(stable.clone());
            }
            self.accepted.push(Arc::clone(&block));
            decisions.push(Decision::Block(block));
        }
        let (height, view, block) = (last.height(), last.view(), last.id());
        fx.output(Output::Commit(decisions));
        fx.event(Event::Committed { height, view, block });
        self.fetching.accepted(&self.accepted);
        if let Some(frosty) = &mut self.frosty {
            frosty.accepted();
        }
    }

    /// Takes a block into the tree, if it fits there. It is recorded.
    fn take(&mut self, block: &BlockOf<Types>, fx: &mut Fx) -> bool {
        if self.tree.len() >= MAX_BLOCKS {
            let named = self.fetching.named();
            self.tree.keep_ways_to(&named);
        }
        let has_room = self.tree.len() < MAX_BLOCKS;
        if !has_room || !self.tree.insert(block, self.polls.next()) {
            return false;
        }
        fx.record(Record::Block(Arc::clone(block)));
        self.pace.hurry();
        true
    }

    /// What must not be forgotten, as it is now.
    fn memory(&self) -> Memory {
        Memory {
            accepted: Place::of(self.accepted.head()),
            preferred: planted!(
                "snowman-preference-not-written",
                self.accepted.head().id(),
                self.tree.tip()
            ),
            stable: self.checkpoints.stable().cloned(),
            frosty: self.frosty.as_ref().map(|frosty| Arc::clone(&frosty.kept)),
        }
    }

    /// What any input may have led to.
    fn follow_up(&mut self, now: Time, ledger: &mut dyn Ledger, fx: &mut Fx) {
        self.believe(fx);
        self.sign_checkpoints(now, ledger, fx);
        self.propose(now, ledger, fx);
        self.poll(now, fx);
        self.fall_back(now, fx);
        self.attest(fx);
        self.fetching.choose(now);
        self.tell(now, ledger.has_pending(), fx);
        let memory = self.memory();
        if self.written.as_ref() != Some(&memory) {
            fx.record(Record::Memory(Arc::new(memory.clone())));
            self.written = Some(memory);
        }
    }

    /// A state was taken over.
    fn install(&mut self, root: BlockOf<Types>, recent: &[HeaderOf<Types>], evidence: Stable) {
        if root.height() > self.accepted.head().height() {
            self.checkpoints.raise(evidence);
            self.tree.install(root.id());
            self.accepted = Accepted::new(root, recent);
            self.fetching.accepted(&self.accepted);
        }
    }
}
