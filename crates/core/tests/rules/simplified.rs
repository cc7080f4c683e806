//! Jehl, FORTE 2021, in the words of the framework paper.
//!
//! On a proposal: if the block that its justify certifies is p and p's grandparent is g with
//! g.view + 2 = p.view, decide g. Lock: the view of p's parent, if that is higher. Vote if the
//! justify's view is not below the lock; whether the proposal extends the locked block is not
//! asked.

use proptest::prelude::*;
use quorate_core::protocols::hotstuff::rules::{Chained, Outcome, Rules, Simplified};
use quorate_core::protocols::protocol::Ballot;
use quorate_core::{Digest, View};

use crate::model::{Model, cases, made_up, model, qc};

/// The block decided with a certificate for `p`.
pub fn decides(model: &Model, p: usize) -> Option<usize> {
    let g = model.parent(model.parent(p)?)?;
    (model.views[g] + 2 == model.views[p]).then_some(g)
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_certificate_locks_and_commits_what_the_paper_says(model in model()) {
        let blocks = model.blocks();
        let tree = model.tree(&Simplified, &blocks);
        for (p, block) in blocks.iter().enumerate() {
            let outcome = Simplified.on_qc(&tree, &qc(block));
            let expected = decides(&model, p).map(|g| blocks[g].id());
            prop_assert_eq!(outcome.commit, expected, "by b{}", p);
            // Views ascend along a chain: it is the three-chain, said in fewer words.
            prop_assert_eq!(outcome.commit, Chained.on_qc(&tree, &qc(block)).commit);
            let lock = outcome.lock.map(|lock| (lock.view(), lock.block()));
            if let Some(parent) = model.parent(p) {
                prop_assert_eq!(lock, Some((View(model.views[parent]), blocks[parent].id())));
            }
        }
        let unknown = Ballot { view: View(99), phase: 1, block: Digest([9; 32]) };
        prop_assert_eq!(Simplified.on_qc(&tree, &made_up(unknown)), Outcome::default());
    }

    #[test]
    fn a_vote_needs_a_justify_that_is_not_below_the_lock(
        model in model(),
        lock: prop::sample::Index,
        candidate: prop::sample::Index,
    ) {
        let blocks = model.blocks();
        let tree = model.tree(&Simplified, &blocks);
        let (lock, candidate) = (lock.index(blocks.len()), 1 + candidate.index(blocks.len() - 1));
        let expected = model.views[model.parents[candidate]] >= model.views[lock];
        let locked = qc(&blocks[lock]);
        prop_assert_eq!(Simplified.may_vote(&tree, &locked, &blocks[candidate], None), expected);
        // What extends the lock has a justify that is not below it.
        if model.descends(model.parents[candidate], lock) {
            prop_assert!(expected);
        }
    }
}
