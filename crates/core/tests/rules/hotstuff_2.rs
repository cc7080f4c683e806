//! Malkhi, Nayak 2023, the pipelined form.
//!
//! Vote if the certificate that the proposal carries is ranked no lower than the lock. The lock is
//! the highest certificate seen. Two certificates of consecutive views, the block of one the parent
//! of that of the other, decide the parent.

use proptest::prelude::*;
use quorate_core::protocols::hotstuff::rules::{HotStuff2, Outcome, Rules};
use quorate_core::protocols::protocol::Ballot;
use quorate_core::{Digest, View};

use crate::model::{Model, cases, made_up, model, qc};

/// The block decided with a certificate for `child`, whose parent is certified by what it carries.
pub fn decides(model: &Model, child: usize) -> Option<usize> {
    let parent = model.parent(child)?;
    let consecutive = model.views[parent] + 1 == model.views[child];
    consecutive.then_some(parent)
}

/// A variant that locks on every certificate and decides by two of consecutive views.
pub fn locks_and_decides(rules: &dyn Rules, model: &Model) -> Result<(), TestCaseError> {
    let blocks = model.blocks();
    let tree = model.tree(rules, &blocks);
    for (child, block) in blocks.iter().enumerate() {
        let certificate = qc(block);
        let outcome = rules.on_qc(&tree, &certificate);
        let expected = decides(model, child).map(|parent| blocks[parent].id());
        prop_assert_eq!(outcome.commit, expected, "by b{}", child);
        prop_assert_eq!(outcome.lock, Some(certificate));
    }
    let unknown = made_up(Ballot { view: View(99), phase: 1, block: Digest([9; 32]) });
    let lock = Outcome { lock: Some(unknown.clone()), commit: None };
    prop_assert_eq!(rules.on_qc(&tree, &unknown), lock);
    Ok(())
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_certificate_locks_and_commits_what_the_paper_says(model in model()) {
        locks_and_decides(&HotStuff2, &model)?;
    }

    #[test]
    fn a_vote_needs_a_certificate_that_is_ranked_no_lower_than_the_lock(
        model in model(),
        lock: prop::sample::Index,
        candidate: prop::sample::Index,
    ) {
        let blocks = model.blocks();
        let tree = model.tree(&HotStuff2, &blocks);
        let (lock, candidate) = (lock.index(blocks.len()), 1 + candidate.index(blocks.len() - 1));
        let expected = model.views[model.parents[candidate]] >= model.views[lock];
        let locked = qc(&blocks[lock]);
        prop_assert_eq!(HotStuff2.may_vote(&tree, &locked, &blocks[candidate], None), expected);
    }
}
