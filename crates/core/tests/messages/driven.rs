//! The driver of one replica by itself, told whatever a test likes.

use std::sync::Arc;

use quorate_core::base::crypto::Statement;
use quorate_core::ledger::frame::FrameId;
use quorate_core::protocols::hotstuff::block::{Block, Content, SharedBlock};
use quorate_core::protocols::hotstuff::certificate::{Qc, TimeOut};
use quorate_core::protocols::hotstuff::rules::Rules;
use quorate_core::protocols::hotstuff::safety::Safety;
use quorate_core::protocols::hotstuff::{HotStuff, Message, Settings, Types};
use quorate_core::protocols::protocol::{Event, Input, Ledger, Output, Protocol, Recovered};
use quorate_core::{Digest, Epoch, Height, ReplicaId, Time, View};

use crate::cluster::keys::{CHAIN, committee};
use crate::cluster::mutant::believed;
use crate::forge::{RawQc, RawTc, Verdict, genesis, sign};

/// What is around the driver: nothing is proposed.
pub struct Surroundings {
    pub has_pending: bool,
    /// The root of every state, once it was executed.
    pub root: Option<Digest>,
}

impl Ledger for Surroundings {
    fn has_pending(&self) -> bool {
        self.has_pending
    }

    fn payload(&mut self, _: &mut dyn Iterator<Item = FrameId>) -> Vec<FrameId> {
        Vec::new()
    }

    fn executed(&self) -> Height {
        Height(0)
    }

    fn state_root(&self, _: Height) -> Option<Digest> {
        self.root
    }
}

/// Replica 0 of four.
pub struct Replica {
    pub driver: HotStuff,
    pub around: Surroundings,
    pub now: Time,
}

impl Replica {
    /// It has just started for the first time.
    pub fn new(settings: Settings) -> Self {
        Self::recovered(settings, None, Vec::new())
    }

    /// It has just started, with what was on its disk.
    pub fn recovered(settings: Settings, safety: Option<Safety>, blocks: Vec<SharedBlock>) -> Self {
        Self::restarted(settings, safety, blocks).0
    }

    /// The same, and what it wants done first.
    pub fn restarted(
        settings: Settings,
        safety: Option<Safety>,
        blocks: Vec<SharedBlock>,
    ) -> (Self, Vec<Output<Types>>) {
        let driver = HotStuff::new(committee(4), ReplicaId(0), settings);
        let around = Surroundings { has_pending: false, root: Some(Digest::default()) };
        let mut replica = Self { driver, around, now: Time(0) };
        let start = Recovered {
            memory: safety,
            root: Arc::new(Block::genesis(CHAIN, Epoch(0))),
            root_committed: Height(0),
            recent: Vec::new(),
            blocks,
        };
        let outputs = replica.tell(Input::Start(Box::new(start)));
        (replica, outputs)
    }

    pub fn running(rules: &'static dyn Rules) -> Self {
        Self::new(Settings::new(rules))
    }

    /// What it wants done when it is told this.
    pub fn tell(&mut self, input: Input<Types>) -> Vec<Output<Types>> {
        let effects = self.driver.step(self.now, input, &mut self.around);
        effects.persist(|_| Ok::<(), ()>(())).expect("a disk that works")
    }

    /// Takes a message for checked.
    pub fn take(&mut self, from: u16, message: Message) -> Vec<Output<Types>> {
        let from = ReplicaId(from);
        let message = believed(&self.driver, from, message).expect("well formed");
        self.tell(Input::Message { from, message })
    }

    /// What is made of `message` unread or, if it is well formed, by its signatures.
    pub fn judge(&self, from: u16, message: Message) -> Verdict {
        let claim = self.driver.claim(ReplicaId(from), message);
        Verdict::of(claim.map(|claim| claim.checks().to_vec()))
    }

    pub fn qc(&self, view: u64, phase: u8, block: Digest) -> RawQc {
        if view == 0 {
            return RawQc::genesis();
        }
        RawQc::signed(self.driver.domain(), (view, phase, block), &[0, 1, 2])
    }

    /// Of a view, by replicas whose high QC is this one.
    pub fn tc(&self, view: u64, high_qc: &RawQc) -> RawTc {
        let time_outs = [0, 1, 2].map(|signer| (signer, view, high_qc.clone()));
        RawTc::signed(self.driver.domain(), view, &time_outs)
    }

    /// A time-out of `from` with this high QC.
    pub fn time_out(&self, from: u16, view: u64, high_qc: &RawQc) -> TimeOut {
        let high_qc_view = View(high_qc.view);
        let statement = self.driver.domain().time_out(View(view), high_qc_view, &high_qc.block);
        let (view, replica) = (View(view), ReplicaId(from));
        TimeOut { view, high_qc_view, replica, signature: sign(from, &statement) }
    }

    /// Genesis and the chain of empty blocks of views 1 to `views`, each by the replica whose turn
    /// it is, justified by certificates of this phase. They are given to the replica.
    pub fn chain(&mut self, views: u64, phase: u8) -> Vec<SharedBlock> {
        let mut chain = vec![Arc::new(Block::genesis(CHAIN, Epoch(0)))];
        for view in 1..=views {
            let parent = chain.last().expect("genesis").clone();
            let justify = self.qc(parent.view.0, phase, parent.id()).build();
            let block = block(view, &parent, justify);
            self.take(block.proposer.0, proposal(&block));
            chain.push(block);
        }
        chain
    }

    /// The same of every other view up to so many: those between were given up, and nothing is
    /// committed.
    pub fn chain_with_gaps(&mut self, views: u64) -> Vec<SharedBlock> {
        let mut chain = vec![Arc::new(Block::genesis(CHAIN, Epoch(0)))];
        for view in (2..=views).step_by(2) {
            let parent = chain.last().expect("genesis").clone();
            let justify = self.qc(parent.view.0, 1, parent.id());
            let tc = Some(self.tc(view - 1, &justify).build());
            let block = block(view, &parent, justify.build());
            self.take(block.proposer.0, Message::Proposal { block: Arc::clone(&block), tc });
            chain.push(block);
        }
        chain
    }
}

/// The certificate of genesis.
pub fn genesis_qc() -> Qc {
    Qc::genesis(genesis())
}

/// An empty block by the replica whose turn it is.
pub fn block(view: u64, parent: &SharedBlock, justify: Qc) -> SharedBlock {
    Arc::new(Block::new(Content {
        epoch: Epoch(0),
        view: View(view),
        height: parent.height.next(),
        proposer: ReplicaId((view % 4) as u16),
        justify,
        state_root: Digest::default(),
        frames: Vec::new(),
    }))
}

pub fn changed(block: &SharedBlock, change: impl Fn(&mut Content)) -> SharedBlock {
    let mut content = (***block).clone();
    change(&mut content);
    Arc::new(Block::new(content))
}

pub fn proposal(block: &SharedBlock) -> Message {
    Message::Proposal { block: Arc::clone(block), tc: None }
}

pub fn events(outputs: &[Output<Types>]) -> Vec<&Event> {
    let mut events = Vec::new();
    for output in outputs {
        if let Output::Event(event) = output {
            events.push(event);
        }
    }
    events
}

/// What it wants signed.
pub fn to_sign(outputs: &[Output<Types>]) -> Vec<Statement> {
    let statement = |output: &_| match output {
        Output::Sign(statement) => Some(*statement),
        _ => None,
    };
    outputs.iter().filter_map(statement).collect()
}

/// What it says, to one replica or to all.
pub fn messages(outputs: &[Output<Types>]) -> Vec<&Message> {
    let mut messages = Vec::new();
    for output in outputs {
        if let Output::Send { message, .. } | Output::Broadcast(message) = output {
            messages.push(message);
        }
    }
    messages
}
