//! A chain that grows under an election: one step a view, no messages.
//!
//! A live leader's block is certified whoever leads next, as time-outs carry the last votes on,
//! unless they are said not to; a dead leader leaves nothing.

use quorate_core::ledger::block::BlockId;
use quorate_core::protocols::hotstuff::block::{Header, SharedBlock};
use quorate_core::protocols::hotstuff::leader::{Election, History};
use quorate_core::protocols::hotstuff::tree::BlockTree;
use quorate_core::{Committee, Height, ReplicaId, View};

use crate::chain::{Chain, child, committee};

pub struct Sim {
    pub committee: Committee,
    election: Election,
    chain_length: u64,
    tree: BlockTree,
    head: SharedBlock,
    head_id: BlockId,
    committed: Height,
    view: View,
    /// Votes go to the next leader alone, and die with it: the linear pacemaker.
    pub is_linear: bool,
    /// The head that the newest block was put on, and how far that had committed.
    before: Option<(SharedBlock, Height)>,
}

/// What came of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Led {
    pub view: View,
    pub leader: ReplicaId,
    /// A block was committed by this view's certificate.
    pub commits: bool,
}

impl Sim {
    pub fn new(replicas: usize, election: Election, chain_length: u64) -> Self {
        let chain = Chain::new();
        Self {
            committee: committee(replicas),
            election,
            chain_length,
            tree: chain.tree(0, 0),
            head: chain.head().clone(),
            head_id: chain.head().id(),
            committed: Height(0),
            view: View(0),
            is_linear: false,
            before: None,
        }
    }

    /// The next view, and what its election sees.
    pub fn history(&self) -> (View, History<'_>) {
        let Self { tree, head_id: head, committed, .. } = self;
        (self.view.next(), History { tree, head, committed: *committed })
    }

    /// One view. `signers` certified the head; the leader proposes if `proposes` says so.
    pub fn step(
        &mut self,
        signers: &[ReplicaId],
        proposes: impl FnOnce(View, ReplicaId) -> bool,
    ) -> Led {
        let (view, history) = self.history();
        let leader = self.election.leader(view, &self.committee, self.chain_length, &history);
        self.view = view;
        let mut led = Led { view, leader, commits: false };
        let before = self.before.take();
        if !proposes(view, leader) {
            if let Some((head, committed)) = before.filter(|_| self.is_linear) {
                (self.head_id, self.committed) = (head.id(), committed);
                self.head = head;
            }
            return led;
        }
        self.before = Some((self.head.clone(), self.committed));
        let block = child(&self.head, view.0, leader, signers);
        self.tree.insert(&block, |_, _| None).expect("on its parent");
        self.head_id = block.id();
        self.head = block;
        if let Some(run) = self.run() {
            led.commits = true;
            self.committed = run.height;
            self.tree.commit(&run.id());
        }
        led
    }

    /// The block that the head's certificate commits.
    fn run(&self) -> Option<Header> {
        let mut block = self.head.header();
        for _ in 1..self.chain_length {
            let parent = self.tree.find(&block.parent())?;
            if parent.view.next() != block.view || parent.height == Height(0) {
                return None;
            }
            block = parent;
        }
        Some(block.clone())
    }
}
