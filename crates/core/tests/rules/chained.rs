//! Yin et al. 2019, Algorithms 4 and 5.
//!
//! `b″ := b*.justify.node; b′ := b″.justify.node; b := b′.justify.node`. UPDATE locks on b′ if that
//! is higher than the lock, and decides b if b″.parent = b′ and b′.parent = b: if nothing, not even
//! a dummy, is between them. `safeNode`: the proposal extends the locked node, or its justify is of
//! a higher view than the lock.

use proptest::prelude::*;
use quorate_core::protocols::hotstuff::rules::{Chained, Outcome, Rules};
use quorate_core::protocols::protocol::Ballot;
use quorate_core::{Digest, View};

use crate::model::{Model, cases, made_up, model, qc};

/// The block decided with a certificate for `b2`.
pub fn decides(model: &Model, b2: usize) -> Option<usize> {
    let b1 = model.parent(b2)?;
    let b = model.parent(b1)?;
    let nothing_between =
        |child: usize, parent: usize| model.views[child] == model.views[parent] + 1;
    (nothing_between(b2, b1) && nothing_between(b1, b)).then_some(b)
}

/// `safeNode` for a child of `parent`, with a lock on `lock`.
pub fn is_safe(model: &Model, parent: usize, lock: usize) -> bool {
    let safety = model.descends(parent, lock);
    let liveness = model.views[parent] > model.views[lock];
    safety || liveness
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_certificate_locks_and_commits_what_the_paper_says(model in model()) {
        let blocks = model.blocks();
        let tree = model.tree(&Chained, &blocks);
        for (b2, block) in blocks.iter().enumerate() {
            let outcome = Chained.on_qc(&tree, &qc(block));
            let expected = decides(&model, b2).map(|b| blocks[b].id());
            prop_assert_eq!(outcome.commit, expected, "by b{}", b2);
            let lock = outcome.lock.map(|lock| (lock.view(), lock.block()));
            if let Some(b1) = model.parent(b2) {
                prop_assert_eq!(lock, Some((View(model.views[b1]), blocks[b1].id())));
            }
        }
        let unknown = Ballot { view: View(99), phase: 1, block: Digest([9; 32]) };
        prop_assert_eq!(Chained.on_qc(&tree, &made_up(unknown)), Outcome::default());
    }

    #[test]
    fn a_vote_needs_a_newer_justify_or_an_extended_lock(
        model in model(),
        lock: prop::sample::Index,
        candidate: prop::sample::Index,
    ) {
        let blocks = model.blocks();
        let tree = model.tree(&Chained, &blocks);
        let (lock, candidate) = (lock.index(blocks.len()), 1 + candidate.index(blocks.len() - 1));
        let expected = is_safe(&model, model.parents[candidate], lock);
        let voted = Chained.may_vote(&tree, &qc(&blocks[lock]), &blocks[candidate], None);
        prop_assert_eq!(voted, expected);
    }
}
