//! What a rule says of a chain does not depend on how far a replica's own commits have come.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use quorate_core::Height;
use quorate_core::protocols::hotstuff::rules::{ALL, Basic, Chained, Rules, Simplified};
use quorate_core::protocols::hotstuff::tree::BlockTree;
use quorate_core::protocols::protocol::Ballot;
use quorate_core::{Digest, View};

use crate::model::{Model, cases, commits, insert, made_up, model, qc_of};
use crate::{chained, hotstuff_2, simplified};

/// What the paper of a variant decides with the certificate (of the last phase) of a block.
fn decides(rules: &dyn Rules, model: &Model, block: usize) -> Option<usize> {
    let name = rules.facts().name;
    if name == Basic.facts().name {
        (block > 0).then_some(block)
    } else if name == Chained.facts().name {
        chained::decides(model, block)
    } else if name == Simplified.facts().name {
        simplified::decides(model, block)
    } else {
        hotstuff_2::decides(model, block)
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn what_a_chain_commits_does_not_depend_on_how_far_the_root_has_come(
        model in model(),
        root: prop::sample::Index,
    ) {
        let root = root.index(model.len());
        for rules in ALL {
            let blocks = model.blocks_justified_by(rules.facts().phases);
            let whole = model.tree(rules, &blocks);
            // By the chain alone: the highest block that a justify in it decides.
            let mut shown = BTreeMap::new();
            for (i, block) in blocks.iter().enumerate().skip(1) {
                let parent = model.parents[i];
                let before: u64 = shown.get(&parent).copied().unwrap_or(0);
                let own = decides(rules, &model, parent).map_or(0, |b| model.height(b));
                shown.insert(i, before.max(own));
                prop_assert_eq!(whole.committed_by(&block.id()), Some(Height(before.max(own))));
            }
            // The same blocks, some of them after a commit.
            let mut tree = BlockTree::new(Arc::clone(&blocks[0]), Height(0), Vec::new());
            for (i, block) in blocks.iter().enumerate().skip(1) {
                let result = tree.insert(block, |tree, qc| commits(rules, tree, qc));
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
    }

    #[test]
    fn votes_and_outcomes_are_the_same_above_a_root(
        model in model(),
        root: prop::sample::Index,
        lock: prop::sample::Index,
    ) {
        let (root, lock) = (root.index(model.len()), lock.index(model.len()));
        for rules in ALL {
            let phase = rules.facts().phases;
            let blocks = model.blocks_justified_by(phase);
            let whole = model.tree(rules, &blocks);
            let mut tree = whole.clone();
            tree.commit(&blocks[root].id());
            for (i, block) in blocks.iter().enumerate() {
                if !model.descends(i, root) {
                    continue;
                }
                let certificate = qc_of(block, phase);
                prop_assert_eq!(
                    rules.on_qc(&tree, &certificate),
                    rules.on_qc(&whole, &certificate)
                );
                // A lock beside the root would be one that a commit contradicts.
                let lock_stays = model.descends(lock, root) || model.descends(root, lock);
                if i != root && lock_stays {
                    let locked = qc_of(&blocks[lock], phase);
                    let voted = rules.may_vote(&tree, &locked, block, None);
                    prop_assert_eq!(voted, rules.may_vote(&whole, &locked, block, None));
                }
            }
        }
    }

    /// As after a snapshot: the root alone, and what is above it.
    #[test]
    fn what_is_not_at_hand_commits_nothing(model in model(), root: prop::sample::Index) {
        let root = root.index(model.len());
        for rules in ALL {
            let phase = rules.facts().phases;
            let blocks = model.blocks_justified_by(phase);
            let mut tree = BlockTree::new(Arc::clone(&blocks[root]), Height(0), Vec::new());
            for (i, block) in blocks.iter().enumerate().skip(root + 1) {
                if model.descends(i, root) {
                    insert(&mut tree, rules, block);
                }
            }
            for (i, block) in blocks.iter().enumerate() {
                let decided = decides(rules, &model, i).filter(|b| model.descends(*b, root));
                let here = model.descends(i, root);
                let expected = decided.filter(|_| here).map(|b| blocks[b].id());
                prop_assert_eq!(rules.on_qc(&tree, &qc_of(block, phase)).commit, expected);
            }
        }
    }
}

#[test]
fn a_lock_on_a_block_that_is_not_here_is_extended_by_nothing() {
    let model = Model { parents: vec![0, 0, 1], views: vec![0, 1, 2] };
    let blocks = model.blocks();
    let elsewhere = made_up(Ballot { view: View(5), phase: 3, block: Digest([9; 32]) });
    for rules in [&Basic as &dyn Rules, &Chained] {
        let tree = model.tree(rules, &blocks);
        assert!(!rules.may_vote(&tree, &elsewhere, &blocks[2], None));
    }
}
