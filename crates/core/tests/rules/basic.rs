//! Yin et al. 2019, Algorithms 1 and 2.
//!
//! Prepare: vote if `safeNode`. Pre-commit, with a prepareQC: vote. Commit, with a precommitQC:
//! `lockedQC := precommitQC`, vote. Decide, with a commitQC: execute the node's branch.

use proptest::prelude::*;
use quorate_core::protocols::hotstuff::rules::{Basic, Outcome, Rules};
use quorate_core::protocols::protocol::Ballot;
use quorate_core::{Digest, View};

use crate::chained::is_safe;
use crate::model::{cases, made_up, model, qc_of};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Prepare = 1,
    PreCommit = 2,
    Commit = 3,
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn each_phase_does_what_the_paper_says(model in model()) {
        let blocks = model.blocks_justified_by(Phase::Commit as u8);
        let tree = model.tree(&Basic, &blocks);
        for block in &blocks[1..] {
            for phase in [Phase::Prepare, Phase::PreCommit, Phase::Commit] {
                let outcome = Basic.on_qc(&tree, &qc_of(block, phase as u8));
                let locked = phase != Phase::Prepare;
                let lock = outcome.lock.map(|lock| (lock.view(), lock.block()));
                prop_assert_eq!(lock, locked.then(|| (block.view, block.id())), "{:?}", phase);
                let decided = (phase == Phase::Commit).then(|| block.id());
                prop_assert_eq!(outcome.commit, decided, "{:?}", phase);
            }
        }
        // Of a block that is not here: a lock, and a decision when it comes.
        let mut unknown = Ballot { view: View(99), phase: 3, block: Digest([9; 32]) };
        let certificate = made_up(unknown);
        let lock = Outcome { lock: Some(certificate.clone()), commit: None };
        prop_assert_eq!(Basic.on_qc(&tree, &certificate), lock);
        unknown.phase = 1;
        prop_assert_eq!(Basic.on_qc(&tree, &made_up(unknown)), Outcome::default());
    }

    #[test]
    fn a_vote_needs_a_newer_justify_or_an_extended_lock(
        model in model(),
        justified_by in 1u8..4,
        locked_by in 2u8..4,
        lock: prop::sample::Index,
        candidate: prop::sample::Index,
    ) {
        let blocks = model.blocks_justified_by(justified_by);
        let tree = model.tree(&Basic, &blocks);
        let (lock, candidate) = (lock.index(blocks.len()), 1 + candidate.index(blocks.len() - 1));
        let expected = is_safe(&model, model.parents[candidate], lock);
        let locked = qc_of(&blocks[lock], locked_by);
        prop_assert_eq!(Basic.may_vote(&tree, &locked, &blocks[candidate], None), expected);
    }
}
