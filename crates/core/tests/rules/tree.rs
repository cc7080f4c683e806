//! The tree itself: what enters it, and what a commit takes and prunes.

use std::sync::Arc;

use proptest::prelude::*;
use quorate_core::Height;
use quorate_core::View;
use quorate_core::protocols::hotstuff::block::{Block, Content, SharedBlock};
use quorate_core::protocols::hotstuff::certificate::Qc;
use quorate_core::protocols::hotstuff::rules::Chained;
use quorate_core::protocols::hotstuff::tree::{BlockTree, Misfit};
use quorate_core::protocols::protocol::Ballot;

use crate::model::{Model, cases, made_up, model};

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_commit_takes_the_ancestors_and_prunes_the_rest(
        model in model(),
        head: prop::sample::Index,
    ) {
        let blocks = model.blocks();
        let mut tree = model.tree(&Chained, &blocks);
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

/// No commits.
fn none(_: &BlockTree, _: &Qc) -> Option<Height> {
    None
}

#[test]
fn the_tree_refuses_what_does_not_fit() {
    let blocks = Model { parents: vec![0, 0], views: vec![0, 1] }.blocks();
    let mut tree = BlockTree::new(Arc::clone(&blocks[0]), Height(0), Vec::new());
    let child = |parent: &SharedBlock, view, height, justified| {
        Arc::new(Block::new(Content {
            view: View(view),
            height: Height(height),
            justify: made_up(Ballot { view: View(justified), phase: 1, block: parent.id() }),
            ..(**blocks[1]).clone()
        }))
    };
    assert_eq!(tree.insert(&child(&blocks[1], 2, 2, 1), none), Err(Misfit::Orphan));
    assert_eq!(tree.insert(&blocks[1], none), Ok(()));
    assert_eq!(tree.insert(&blocks[1], none), Err(Misfit::Known));
    assert_eq!(tree.insert(&child(&blocks[1], 2, 3, 1), none), Err(Misfit::Contradiction));
    assert_eq!(tree.insert(&child(&blocks[1], 1, 2, 1), none), Err(Misfit::Contradiction));
    assert_eq!(tree.insert(&child(&blocks[1], 5, 2, 3), none), Err(Misfit::Contradiction));
    assert_eq!(tree.insert(&child(&blocks[1], 2, 2, 1), none), Ok(()));
    tree.commit(&blocks[1].id());
    assert_eq!(tree.insert(&child(&blocks[0], 7, 1, 0), none), Err(Misfit::BelowRoot));
}
