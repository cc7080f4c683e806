//! One leader orders, and everybody believes it: **no fault is tolerated**.
//!
//! This is no protocol to run, but the second one that the replica drives. It keeps the seam of
//! [`protocol`](super::protocol) honest: whatever it needs besides blocks, frames and snapshots is
//! HotStuff's own affair. And it is the floor that others are measured against: what ordering costs
//! when nobody agrees on anything.
//!
//! Replica 0 makes a block of the pending frames whenever the last one is executed, records it,
//! commits it and tells the others. A follower that has the parent records the block and commits
//! it; one that lacks it fetches what is missing. Followers say how far they are, and the leader
//! repeats its head to those behind, less and less often. Nothing is signed. If the leader stops,
//! so does the cluster; if it lies, or loses its data, replicas part.
//!
//! The block of a height carries the root of the state behind its parent, as the leader computed
//! it.

mod verifier;
mod words;

use std::sync::Arc;

pub use verifier::Believer;
use words::LEADER;
pub use words::{Content, Message, Nothing, Summary, Types};

use crate::base::crypto::{Check, Claim, Kind, Statement};
use crate::base::membership::Committee;
use crate::base::types::{Digest, Duration, Height, ReplicaId, Time, View};
use crate::ledger::block::{Block, BlockId};
use crate::protocols::protocol::{
    Attested, BlockOf, Capability, Decision, Effects, Event, Input, Ledger, Malformed, Missing,
    Origin, Output, Protocol, Record, Recovered, SnapshotBase, Status,
};

/// Its name in configuration: nobody runs it by mistake.
pub const NAME: &str = "laboratory-sequencer";

/// The first wait before the leader repeats its head; each further one is twice as long.
const REPEAT_AFTER: Duration = Duration::from_millis(100);
/// How often the leader repeats its head to followers that do not say that they have it.
const REPEATS: u32 = 8;

type Fx = Effects<Output<Types>, Record<Types>>;

/// A replica's share in the protocol.
#[derive(Clone, Debug)]
pub struct Sequencer {
    me: ReplicaId,
    committee: Committee,
    /// The last block, committed.
    head: BlockOf<Types>,
    /// A follower's: a later block that the leader spoke of.
    heard: Option<(BlockId, Height)>,
    /// The leader's: up to where each replica is known to be, by its id.
    have: Vec<Height>,
    /// The leader's: how often it repeated its head, and when it does so again.
    repeats: (u32, Option<Time>),
}

/// What the data of a replica of `committee` begins with.
#[must_use]
pub fn origin(committee: &Committee) -> Origin<Types> {
    Origin {
        committee: committee.clone(),
        genesis: Arc::new(Block::new(Content::genesis(committee))),
        memory: Nothing,
        memory_bytes: 1,
    }
}

impl Sequencer {
    /// The protocol of replica `me` of `committee`, before its [`Input::Start`].
    #[must_use]
    pub fn new(committee: Committee, me: ReplicaId) -> Self {
        let head = origin(&committee).genesis;
        let have = vec![Height(0); committee.size()];
        Self { me, committee, head, heard: None, have, repeats: (0, None) }
    }

    fn leads(&self) -> bool {
        self.me == LEADER
    }

    /// Commits the block if it is the next one. Recorded blocks are committed: nobody gives one up.
    fn commit(&mut self, block: &BlockOf<Types>, fx: &mut Fx) -> bool {
        if block.parent() != self.head.id() || block.height() != self.head.height().next() {
            return false;
        }
        let attested = |evidence| {
            let block = Arc::clone(block);
            Decision::Root(Attested { root: block.state_root, state: None, block, evidence })
        };
        let block_decided = Decision::Block(Arc::clone(block));
        fx.output(Output::Commit(vec![attested(None), attested(Some(Nothing)), block_decided]));
        let (height, view) = (block.height(), View(0));
        fx.event(Event::Committed { height, view, block: block.id() });
        self.head = Arc::clone(block);
        self.heard.take_if(|(_, heard)| *heard <= height);
        true
    }

    /// Makes the next block, if there is something to order or a root to attest.
    fn order(&mut self, now: Time, ledger: &mut dyn Ledger, fx: &mut Fx) {
        let executed = ledger.executed();
        if !self.leads() || executed != self.head.height() {
            return;
        }
        let Some(state_root) = ledger.state_root(executed) else { return };
        let frames = ledger.payload(&mut std::iter::empty());
        let attests = ledger.root_wanted() >= Some(self.head.height());
        if frames.is_empty() && !attests {
            return;
        }
        let (parent, height) = (self.head.id(), self.head.height().next());
        let block = Arc::new(Block::new(Content { parent, height, state_root, frames }));
        let (view, frames) = (View(0), block.frames.len());
        fx.event(Event::Proposed { view, block: block.id(), frames });
        fx.record(Record::Block(Arc::clone(&block)));
        fx.output(Output::Broadcast(Message::Order(Arc::clone(&block))));
        self.commit(&block, fx);
        self.repeats = (0, Some(now.after(REPEAT_AFTER)));
    }

    /// What a follower makes of a block that is said to be the last one, or the next.
    fn hear(&mut self, id: BlockId, height: Height, fx: &mut Fx) {
        if height <= self.head.height() {
            self.tell(fx);
        } else if self.heard.is_none_or(|(_, heard)| heard < height) {
            self.heard = Some((id, height));
        }
    }

    fn tell(&self, fx: &mut Fx) {
        fx.output(Output::Send { to: LEADER, message: Message::Have(self.head.height()) });
    }

    fn on_message(&mut self, from: ReplicaId, message: Message, fx: &mut Fx) {
        match message {
            Message::Order(block) if self.commit(&block, fx) => {
                fx.record(Record::Block(block));
                self.tell(fx);
            }
            Message::Order(block) => self.hear(block.id(), block.height(), fx),
            Message::Head(id, height) => self.hear(id, height, fx),
            Message::Have(height) => {
                if let Some(known) = self.have.get_mut(from.index()) {
                    *known = height.max(*known);
                }
            }
        }
    }

    /// Repeats the head to those who are not known to have it.
    fn repeat(&mut self, now: Time, fx: &mut Fx) {
        let (repeats, due) = self.repeats;
        if due.is_none_or(|due| now < due) {
            return;
        }
        let (id, height) = (self.head.id(), self.head.height());
        for to in self.behind().collect::<Vec<_>>() {
            fx.output(Output::Send { to, message: Message::Head(id, height) });
        }
        let wait = REPEAT_AFTER * (1 << repeats.min(REPEATS));
        self.repeats = (repeats + 1, (repeats < REPEATS).then(|| now.after(wait)));
    }

    fn behind(&self) -> impl Iterator<Item = ReplicaId> {
        let others = self.committee.replicas().filter(|replica| *replica != self.me);
        others.filter(|replica| self.have.get(replica.index()) < Some(&self.head.height()))
    }

    fn start(&mut self, recovered: Recovered<Types>, fx: &mut Fx) {
        self.head = recovered.root;
        for block in &recovered.blocks {
            self.commit(block, fx);
        }
    }
}

impl Protocol for Sequencer {
    type Types = Types;
    type Verifier = Believer;

    const CAPABILITIES: &'static [Capability] = &[];

    fn claim(&self, from: ReplicaId, message: Message) -> Result<Claim<Message>, Malformed> {
        let is_leaders = !matches!(message, Message::Have(_));
        match is_leaders == (from == LEADER) {
            true => Ok(Claim::new(message, Vec::new())),
            false => Err(Malformed::WrongSender),
        }
    }

    fn carried_block(message: &Message) -> Option<&BlockOf<Types>> {
        match message {
            Message::Order(block) => Some(block),
            Message::Head(..) | Message::Have(_) => None,
        }
    }

    fn step(&mut self, now: Time, input: Input<Types>, ledger: &mut dyn Ledger) -> Fx {
        let mut fx = Fx::default();
        match input {
            Input::Start(recovered) => self.start(*recovered, &mut fx),
            Input::Message { from, message } => {
                self.on_message(from, message.into_inner(), &mut fx);
            }
            Input::Fetched { block, .. } => {
                let block = block.into_inner();
                if self.commit(&block, &mut fx) {
                    fx.record(Record::Block(block));
                    self.tell(&mut fx);
                }
            }
            Input::Installed { root, .. } if root.height() > self.head.height() => {
                self.head = root;
                self.tell(&mut fx);
            }
            Input::Connected(peer) if self.leads() => {
                let message = Message::Head(self.head.id(), self.head.height());
                fx.output(Output::Send { to: peer, message });
            }
            Input::Timeout => self.repeat(now, &mut fx),
            _ => {}
        }
        self.order(now, ledger, &mut fx);
        if self.behind().next().is_none() {
            self.repeats = (0, None);
        }
        fx
    }

    fn deadline(&self) -> Option<Time> {
        self.repeats.1
    }

    fn status(&self) -> Status {
        Status {
            view: View(0),
            leader: Some(LEADER),
            committed: self.head.height(),
            uncommitted: 0,
            abstain_until: View(0),
            details: Vec::new(),
        }
    }

    fn committed(&self) -> &BlockOf<Types> {
        &self.head
    }

    fn uncommitted(&self) -> usize {
        0
    }

    fn holds(&self, _: &BlockId) -> bool {
        false
    }

    fn height_of(&self, block: &BlockId) -> Option<Height> {
        (self.head.id() == *block).then(|| self.head.height())
    }

    fn path(&self, _: &BlockId) -> Vec<BlockOf<Types>> {
        Vec::new()
    }

    fn missing(&self) -> Option<Missing> {
        self.heard.map(|(block, _)| Missing { block, holders: vec![LEADER] })
    }

    fn claim_block(&self, block: BlockOf<Types>) -> Result<Claim<BlockOf<Types>>, Malformed> {
        Ok(Claim::new(block, Vec::new()))
    }

    fn look_back(&self) -> usize {
        0
    }

    fn snapshot_base(&self, block: &BlockId) -> Option<SnapshotBase<Types>> {
        let (block, committed) =
            (self.head.id() == *block).then(|| (Arc::clone(&self.head), self.head.height()))?;
        Some(SnapshotBase { block, committed, recent: Vec::new() })
    }

    fn verifier(&self) -> Believer {
        Believer(self.committee.clone())
    }

    fn testimony(&self) -> Nothing {
        Nothing
    }

    fn testimony_statement(&self, _: &Nothing, content: &Digest) -> Statement {
        let (chain, epoch) = (self.committee.chain(), self.committee.epoch());
        Statement::new(&chain, epoch, NUMBER, Kind::Testimony, View(0), 0, content)
    }

    fn claim_testimony(&self, _: &Nothing) -> Result<Vec<Check>, Malformed> {
        Ok(Vec::new())
    }

    fn recollect(&self, _: &[Nothing]) -> Option<Nothing> {
        None
    }
}

/// Tells this protocol's signatures from those of others.
const NUMBER: u8 = 255;
