//! Trees of blocks in plain indices, and the same in production's types.

use std::sync::Arc;

use proptest::prelude::*;
use quorate_core::base::crypto::Signature;
use quorate_core::base::wire::{Decode, Encode, put_list};
use quorate_core::protocols::hotstuff::block::{Block, Content, SharedBlock};
use quorate_core::protocols::hotstuff::certificate::{Qc, Tc};
use quorate_core::protocols::hotstuff::rules::Rules;
use quorate_core::protocols::hotstuff::tree::BlockTree;
use quorate_core::protocols::protocol::Ballot;
use quorate_core::{Digest, Epoch, Height, ReplicaId, View};

pub const CHAIN: Digest = Digest([7; 32]);

/// The same cases every time.
pub fn cases() -> ProptestConfig {
    let rng_seed = proptest::test_runner::RngSeed::Fixed(1);
    ProptestConfig { rng_seed, ..ProptestConfig::with_cases(1024) }
}

/// A tree in plain indices: block i > 0 has the parent `parents[i]` and the view `views[i]`. Block
/// 0 is genesis, of view 0.
#[derive(Clone, Debug)]
pub struct Model {
    pub parents: Vec<usize>,
    pub views: Vec<u64>,
}

/// Views are unique (one leader, one block certified a view) and ascend with the index.
pub fn model() -> impl Strategy<Value = Model> {
    // Each block: how far back its parent is, and how many views are skipped.
    prop::collection::vec((0usize..4, prop_oneof![3 => Just(1u64), 1 => 2u64..4]), 1..24).prop_map(
        |steps| {
            let (mut parents, mut views) = (vec![0], vec![0]);
            for (back, gap) in steps {
                let parent = (parents.len() - 1).saturating_sub(back);
                let highest: u64 = *views.iter().max().expect("genesis");
                views.push(highest + gap);
                parents.push(parent);
            }
            Model { parents, views }
        },
    )
}

/// How a view was entered: nothing, or time-outs of a view so far from that of the block before the
/// one judged, whose senders know the certificates of these blocks.
pub fn entry() -> impl Strategy<Value = Option<(i64, [prop::sample::Index; 3])>> {
    let shift = prop_oneof![4 => Just(0i64), 1 => -2i64..3];
    prop::option::weighted(0.7, (shift, any::<[prop::sample::Index; 3]>()))
}

impl Model {
    pub fn len(&self) -> usize {
        self.parents.len()
    }

    /// The parent, if there is one.
    pub fn parent(&self, block: usize) -> Option<usize> {
        (block > 0).then(|| self.parents[block])
    }

    /// Whether `descendant` is `ancestor` or descends from it.
    pub fn descends(&self, mut descendant: usize, ancestor: usize) -> bool {
        while descendant > ancestor {
            descendant = self.parents[descendant];
        }
        descendant == ancestor
    }

    pub fn height(&self, mut block: usize) -> u64 {
        let mut height = 0;
        while block > 0 {
            (block, height) = (self.parents[block], height + 1);
        }
        height
    }

    pub fn blocks(&self) -> Vec<SharedBlock> {
        self.blocks_justified_by(1)
    }

    /// The blocks, each justified by a certificate of this phase.
    pub fn blocks_justified_by(&self, phase: u8) -> Vec<SharedBlock> {
        let mut blocks = vec![Arc::new(Block::genesis(CHAIN, Epoch(0)))];
        for i in 1..self.parents.len() {
            let parent = Arc::clone(&blocks[self.parents[i]]);
            blocks.push(Arc::new(Block::new(Content {
                epoch: Epoch(0),
                view: View(self.views[i]),
                height: parent.height.next(),
                proposer: ReplicaId(0),
                justify: qc_of(&parent, phase),
                state_root: Digest::default(),
                frames: Vec::new(),
            })));
        }
        blocks
    }

    /// All of `blocks`, in a tree kept by `rules`.
    pub fn tree(&self, rules: &dyn Rules, blocks: &[SharedBlock]) -> BlockTree {
        let mut tree = BlockTree::new(Arc::clone(&blocks[0]), Height(0), Vec::new());
        for block in &blocks[1..] {
            insert(&mut tree, rules, block);
        }
        tree
    }
}

/// Enters a block whose parent is there.
pub fn insert(tree: &mut BlockTree, rules: &dyn Rules, block: &SharedBlock) {
    tree.insert(block, |tree, qc| commits(rules, tree, qc)).expect("its parent is there");
}

/// The height of what `rules` commit with `qc`.
pub fn commits(rules: &dyn Rules, tree: &BlockTree, qc: &Qc) -> Option<Height> {
    let commit = rules.on_qc(tree, qc).commit?;
    tree.find(&commit).map(|block| block.height)
}

/// The certificate of a block, of the only phase.
pub fn qc(block: &Block) -> Qc {
    qc_of(block, 1)
}

/// Of a phase; genesis has one by definition.
pub fn qc_of(block: &Block, phase: u8) -> Qc {
    if block.view == View(0) {
        return Qc::genesis(block.id());
    }
    made_up(Ballot { view: block.view, phase, block: block.id() })
}

/// A certificate of nobody's votes: rules ask for none.
pub fn made_up(ballot: Ballot) -> Qc {
    let mut bytes = ballot.to_bytes();
    bytes.push(1);
    0u32.encode(&mut bytes);
    Qc::from_bytes(bytes.into()).expect("a certificate")
}

/// A certificate of time-outs by replicas that know the certificates of `known`: all of these (an
/// AggQC), or the highest.
pub fn tc(view: u64, known: &[&Block], carries_all: bool) -> Tc {
    let entries: Vec<(ReplicaId, View)> =
        known.iter().zip(0..).map(|(block, id)| (ReplicaId(id), block.view)).collect();
    let mut qcs: Vec<Qc> = known.iter().map(|block| qc(block)).collect();
    if !carries_all {
        qcs.sort_by_key(Qc::view);
        qcs.drain(..known.len() - 1);
    }
    let mut bytes = view.to_le_bytes().to_vec();
    put_list(&mut bytes, &entries);
    put_list(&mut bytes, &vec![Signature::NONE; known.len()]);
    put_list(&mut bytes, &qcs);
    Tc::from_bytes(bytes.into()).expect("a certificate")
}

/// The view and, by index, the known blocks of how `candidate`'s view was entered.
pub fn entered(
    model: &Model,
    candidate: usize,
    entry: &Option<(i64, [prop::sample::Index; 3])>,
) -> Option<(u64, [usize; 3])> {
    let (shift, known) = entry.as_ref()?;
    let view = (model.views[candidate] as i64 - 1 + shift).max(0) as u64;
    // What they know is of lower views than the candidate's.
    Some((view, known.map(|index| index.index(candidate))))
}
