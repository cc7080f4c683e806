//! The three-chain rule against the paper's words, over random trees.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use quorate_core::block::{Block, Content, SharedBlock};
use quorate_core::certificate::{Ballot, Qc};
use quorate_core::hotstuff::rules::{Chained, Rules};
use quorate_core::tree::{BlockTree, Misfit};
use quorate_core::wire::{Decode, Encode};
use quorate_core::{Digest, Epoch, Height, ReplicaId, View};

const CHAIN: Digest = Digest([7; 32]);

fn qc(view: View, block: Digest) -> Qc {
    let mut bytes = Ballot { view, phase: 1, block }.to_bytes();
    bytes.push(1);
    0u32.encode(&mut bytes);
    Qc::from_bytes(bytes.into()).expect("a certificate")
}

/// A tree in plain indices: block i > 0 has the parent `parents[i]` and the view `views[i]`.
#[derive(Clone, Debug)]
struct Model {
    parents: Vec<usize>,
    views: Vec<u64>,
}

fn model() -> impl Strategy<Value = Model> {
    // Each block: how far back its parent is, and how many views are skipped.
    prop::collection::vec((0usize..4, prop_oneof![3 => Just(1u64), 1 => 2u64..4]), 1..24).prop_map(
        |steps| {
            let (mut parents, mut views) = (vec![0], vec![0]);
            for (back, gap) in steps {
                let parent = (parents.len() - 1).saturating_sub(back);
                let highest: u64 = *views.iter().max().expect("genesis");
                // Views are unique (one leader, one block certified a view) and ascending.
                views.push(highest + gap);
                parents.push(parent);
            }
            Model { parents, views }
        },
    )
}

impl Model {
    fn blocks(&self) -> Vec<SharedBlock> {
        let mut blocks = vec![Arc::new(Block::genesis(CHAIN, Epoch(0)))];
        for i in 1..self.parents.len() {
            let parent = Arc::clone(&blocks[self.parents[i]]);
            blocks.push(Arc::new(Block::new(Content {
                epoch: Epoch(0),
                view: View(self.views[i]),
                height: parent.height.next(),
                proposer: ReplicaId(0),
                justify: qc(parent.view, parent.id()),
                state_root: Digest::default(),
                frames: Vec::new(),
            })));
        }
        blocks
    }

    fn tree(&self, blocks: &[SharedBlock]) -> BlockTree {
        let mut tree = BlockTree::new(Arc::clone(&blocks[0]), Height(0), Vec::new());
        for block in &blocks[1..] {
            tree.insert(block, commits).expect("parents come first");
        }
        tree
    }

    /// Whether `descendant` is `ancestor` or descends from it.
    fn descends(&self, mut descendant: usize, ancestor: usize) -> bool {
        while descendant > ancestor {
            descendant = self.parents[descendant];
        }
        descendant == ancestor
    }

    /// The paper: with a QC for b2, b1 its parent, b the parent of b1: b is decided if the three
    /// are of consecutive views.
    fn decides(&self, b2: usize) -> Option<usize> {
        if b2 == 0 {
            return None;
        }
        let b1 = self.parents[b2];
        if b1 == 0 {
            return None;
        }
        let b = self.parents[b1];
        (self.views[b2] == self.views[b1] + 1 && self.views[b1] == self.views[b] + 1).then_some(b)
    }

    fn height(&self, mut block: usize) -> u64 {
        let mut height = 0;
        while block > 0 {
            (block, height) = (self.parents[block], height + 1);
        }
        height
    }
}

fn commits(tree: &BlockTree, qc: &Qc) -> Option<Height> {
    let commit = Chained.on_qc(tree, qc).commit?;
    tree.find(&commit).map(|block| block.height)
}

proptest! {
    // The same cases every time.
    #![proptest_config(ProptestConfig {
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        ..ProptestConfig::with_cases(1024)
    })]

    #[test]
    fn a_certificate_locks_and_commits_what_the_paper_says(model in model()) {
        let blocks = model.blocks();
        let tree = model.tree(&blocks);
        for (b2, block) in blocks.iter().enumerate() {
            let outcome = Chained.on_qc(&tree, &qc(block.view, block.id()));
            let expected = model.decides(b2).map(|b| blocks[b].id());
            prop_assert_eq!(outcome.commit, expected, "by b{}", b2);
            if b2 > 0 {
                let parent = &blocks[model.parents[b2]];
                prop_assert_eq!(outcome.lock, Some(qc(parent.view, parent.id())));
            }
        }
        let unknown = Chained.on_qc(&tree, &qc(View(99), Digest([9; 32])));
        prop_assert_eq!((unknown.lock, unknown.commit), (None, None));
    }

    #[test]
    fn a_vote_needs_a_newer_justify_or_an_extended_lock(
        model in model(),
        lock: prop::sample::Index,
        candidate: prop::sample::Index,
    ) {
        let blocks = model.blocks();
        let tree = model.tree(&blocks);
        let (lock, candidate) = (lock.index(blocks.len()), candidate.index(blocks.len()));
        prop_assume!(candidate > 0);
        let locked = qc(blocks[lock].view, blocks[lock].id());
        let parent = model.parents[candidate];
        let expected = model.views[parent] > model.views[lock] || model.descends(parent, lock);
        prop_assert_eq!(Chained.may_vote(&tree, &locked, &blocks[candidate], None), expected);
    }

    #[test]
    fn what_a_chain_commits_does_not_depend_on_how_far_the_root_has_come(
        model in model(),
        root: prop::sample::Index,
    ) {
        let blocks = model.blocks();
        let whole = model.tree(&blocks);
        // By the chain alone: the highest block that a justify in it decides.
        let mut shown = BTreeMap::new();
        for (i, block) in blocks.iter().enumerate().skip(1) {
            let parent = model.parents[i];
            let before: u64 = shown.get(&parent).copied().unwrap_or(0);
            let own = model.decides(parent).map_or(0, |b| model.height(b));
            shown.insert(i, before.max(own));
            prop_assert_eq!(whole.committed_by(&block.id()), Some(Height(before.max(own))));
        }
        // The same blocks, some of them after a commit.
        let root = root.index(blocks.len());
        let mut tree = BlockTree::new(Arc::clone(&blocks[0]), Height(0), Vec::new());
        for (i, block) in blocks.iter().enumerate().skip(1) {
            let result = tree.insert(block, commits);
            if i == root {
                tree.commit(&block.id());
            }
            if i > root && root > 0 {
                let descends = model.descends(i, root);
                prop_assert_eq!(result.is_ok(), descends, "b{}: {:?}", i, result);
            }
            if result.is_ok() {
                let committed = tree.committed_by(&block.id());
                prop_assert_eq!(committed, shown.get(&i).map(|height| Height(*height)));
            }
        }
    }

    #[test]
    fn a_commit_takes_the_ancestors_and_prunes_the_rest(
        model in model(),
        head: prop::sample::Index,
    ) {
        let blocks = model.blocks();
        let mut tree = model.tree(&blocks);
        let head = head.index(blocks.len());
        let (committed, pruned) = tree.commit(&blocks[head].id());
        let all = || 0..blocks.len();
        let ids = |blocks: &[SharedBlock]| blocks.iter().map(|b| b.id()).collect::<Vec<_>>();
        let path = all().filter(|i| *i > 0 && model.descends(head, *i));
        prop_assert_eq!(ids(&committed), path.map(|i| blocks[i].id()).collect::<Vec<_>>());
        let mut expected: Vec<_> = all()
            .filter(|i| !model.descends(*i, head) && !model.descends(head, *i))
            .map(|i| blocks[i].id())
            .collect();
        let mut pruned = ids(&pruned);
        pruned.sort_unstable();
        expected.sort_unstable();
        prop_assert_eq!(pruned, expected);
        for (i, block) in blocks.iter().enumerate() {
            prop_assert_eq!(tree.get(&block.id()).is_some(), model.descends(i, head));
        }
        prop_assert_eq!(tree.root().id(), blocks[head].id());
    }
}

#[test]
fn the_tree_refuses_what_does_not_fit() {
    let blocks = Model { parents: vec![0, 0], views: vec![0, 1] }.blocks();
    let mut tree = BlockTree::new(Arc::clone(&blocks[0]), Height(0), Vec::new());
    let child = |parent: &SharedBlock, view, height, justified| {
        Arc::new(Block::new(Content {
            view: View(view),
            height: Height(height),
            justify: qc(View(justified), parent.id()),
            ..(**blocks[1]).clone()
        }))
    };
    assert_eq!(tree.insert(&child(&blocks[1], 2, 2, 1), commits), Err(Misfit::Orphan));
    assert_eq!(tree.insert(&blocks[1], commits), Ok(()));
    assert_eq!(tree.insert(&blocks[1], commits), Err(Misfit::Known));
    assert_eq!(tree.insert(&child(&blocks[1], 2, 3, 1), commits), Err(Misfit::Contradiction));
    assert_eq!(tree.insert(&child(&blocks[1], 1, 2, 1), commits), Err(Misfit::Contradiction));
    assert_eq!(tree.insert(&child(&blocks[1], 5, 2, 3), commits), Err(Misfit::Contradiction));
    assert_eq!(tree.insert(&child(&blocks[1], 2, 2, 1), commits), Ok(()));
    tree.commit(&blocks[1].id());
    assert_eq!(tree.insert(&child(&blocks[0], 7, 1, 0), commits), Err(Misfit::BelowRoot));
}
