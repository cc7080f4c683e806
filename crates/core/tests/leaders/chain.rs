//! Chains of blocks as an election sees them.

use std::sync::Arc;

use quorate_core::base::membership::ReplicaKey;
use quorate_core::base::wire::{Decode, Encode};
use quorate_core::ledger::block::BlockId;
use quorate_core::protocols::hotstuff::block::{Block, Content, SharedBlock};
use quorate_core::protocols::hotstuff::certificate::Qc;
use quorate_core::protocols::hotstuff::leader::{Election, History};
use quorate_core::protocols::hotstuff::tree::BlockTree;
use quorate_core::protocols::protocol::Ballot;
use quorate_core::{Committee, Digest, Epoch, Height, ReplicaId, View};

pub const CHAIN: Digest = Digest([7; 32]);
pub const EPOCH: Epoch = Epoch(0);

pub fn committee(replicas: usize) -> Committee {
    committee_of(CHAIN, replicas)
}

pub fn committee_of(chain: Digest, replicas: usize) -> Committee {
    let key = |id: usize| ReplicaKey::from(Digest::of("test key", &(id as u64).to_le_bytes()).0);
    Committee::new(chain, EPOCH, (0..replicas).map(key).collect()).expect("distinct keys")
}

/// A certificate as it comes over the wire, of the last phase where there are several. What the
/// signatures are does not matter here.
pub fn certificate(view: View, block: BlockId, signers: &[ReplicaId]) -> Qc {
    let mut bytes = Ballot { view, phase: 3, block }.to_bytes();
    bytes.push(1);
    (signers.len() as u32).encode(&mut bytes);
    for signer in signers {
        signer.encode(&mut bytes);
        bytes.push(64);
        bytes.extend_from_slice(&[0; 64]);
    }
    Qc::from_bytes(bytes.into()).expect("a certificate")
}

pub fn ids(ids: &[u16]) -> Vec<ReplicaId> {
    ids.iter().copied().map(ReplicaId).collect()
}

/// All replicas but `absent`.
pub fn all_but(replicas: usize, absent: &[u16]) -> Vec<ReplicaId> {
    (0..replicas as u16).filter(|id| !absent.contains(id)).map(ReplicaId).collect()
}

/// The child of `parent`, carrying a certificate by `signers` for it.
pub fn child(
    parent: &SharedBlock,
    view: u64,
    proposer: ReplicaId,
    signers: &[ReplicaId],
) -> SharedBlock {
    let justify = match parent.view {
        View(0) => Qc::genesis(parent.id()),
        _ => certificate(parent.view, parent.id(), signers),
    };
    Arc::new(Block::new(Content {
        epoch: EPOCH,
        view: View(view),
        height: parent.height.next(),
        proposer,
        justify,
        state_root: Digest::default(),
        frames: Vec::new(),
    }))
}

/// A chain of certified blocks; a block's place is its height.
#[derive(Clone, Debug)]
pub struct Chain {
    pub blocks: Vec<SharedBlock>,
}

impl Chain {
    pub fn new() -> Self {
        Self { blocks: vec![Arc::new(Block::genesis(CHAIN, EPOCH))] }
    }

    /// Puts a block on top; `signers` certified the one below it.
    pub fn push(&mut self, view: u64, proposer: ReplicaId, signers: &[ReplicaId]) {
        let block = child(self.head(), view, proposer, signers);
        self.blocks.push(block);
    }

    pub fn head(&self) -> &SharedBlock {
        self.blocks.last().expect("the genesis block at least")
    }

    /// The chain up to `height`.
    pub fn up_to(&self, height: usize) -> Self {
        Self { blocks: self.blocks[..=height].to_vec() }
    }

    /// What a replica holds that committed up to `root` and keeps `recent` blocks below it.
    pub fn tree(&self, root: usize, recent: usize) -> BlockTree {
        let below = &self.blocks[root.saturating_sub(recent)..root];
        let below = below.iter().map(|block| block.header().clone()).collect();
        let mut tree = BlockTree::new(Arc::clone(&self.blocks[root]), Height(0), below);
        for block in &self.blocks[root + 1..] {
            tree.insert(block, |_, _| None).expect("on its parent");
        }
        tree
    }

    /// The newest block with a run of `chain_length` consecutive views from it on.
    pub fn committed(&self, chain_length: usize) -> Height {
        let consecutive = |run: &&[SharedBlock]| {
            run[0].height > Height(0) && run.windows(2).all(|w| w[1].view == w[0].view.next())
        };
        let newest = self.blocks.windows(chain_length).rev().find(consecutive);
        newest.map_or(Height(0), |run| run[0].height)
    }

    /// The leader of `view`, were its proposal to extend the head; asked at a replica with `tree`.
    pub fn leader_at(
        &self,
        tree: &BlockTree,
        election: Election,
        view: u64,
        committee: &Committee,
        chain_length: usize,
    ) -> ReplicaId {
        let head = self.head().id();
        let history = History { tree, head: &head, committed: self.committed(chain_length) };
        election.leader(View(view), committee, chain_length as u64, &history)
    }

    /// The leader of `view` at a replica that holds everything.
    pub fn leader(
        &self,
        election: Election,
        view: u64,
        committee: &Committee,
        chain_length: usize,
    ) -> ReplicaId {
        self.leader_at(&self.tree(0, 0), election, view, committee, chain_length)
    }
}
