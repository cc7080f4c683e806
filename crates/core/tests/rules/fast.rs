//! Jalalzai et al. 2020, corrected.
//!
//! Vote, with a QC alone: the block's view is the QC's plus one. Vote, with an AggQC: the block's
//! view is the AggQC's plus one, and the block extends the highest QC in the AggQC. Decide the
//! parent of the block that a QC certifies if the two are of consecutive views.

use proptest::prelude::*;
use quorate_core::protocols::hotstuff::rules::{Fast, Rules};

use crate::hotstuff_2::locks_and_decides;
use crate::model::{Model, cases, entered, entry, model, qc, tc};

/// What the paper says of `candidate`, with an AggQC of this view in which the QCs of these blocks
/// are.
fn votes(model: &Model, candidate: usize, agg: Option<(u64, [usize; 3])>) -> bool {
    let parent = model.parents[candidate];
    match agg {
        None => model.views[candidate] == model.views[parent] + 1,
        Some((view, known)) => {
            let mut highest = known[0];
            for block in known {
                if model.views[block] > model.views[highest] {
                    highest = block;
                }
            }
            model.views[candidate] == view + 1 && parent == highest
        }
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_certificate_locks_and_commits_what_the_paper_says(model in model()) {
        locks_and_decides(&Fast, &model)?;
    }

    #[test]
    fn a_vote_needs_the_qc_of_the_view_before_or_the_highest_of_the_agg_qc(
        model in model(),
        lock: prop::sample::Index,
        candidate: prop::sample::Index,
        entry in entry(),
        knows_parent: bool,
    ) {
        let blocks = model.blocks();
        let tree = model.tree(&Fast, &blocks);
        let (lock, candidate) = (lock.index(blocks.len()), 1 + candidate.index(blocks.len() - 1));
        let mut agg = entered(&model, candidate, &entry);
        if let Some((_, known)) = &mut agg
            && knows_parent
        {
            known[1] = model.parents[candidate];
        }
        let certificate = agg.map(|(view, known)| tc(view, &known.map(|at| &*blocks[at]), true));
        let certificate = certificate.as_ref();
        let expected = votes(&model, candidate, agg);
        // Whatever it is locked on.
        let locked = qc(&blocks[lock]);
        let voted = Fast.may_vote(&tree, &locked, &blocks[candidate], certificate);
        prop_assert_eq!(voted, expected, "{:?} with {:?}", candidate, agg);
    }

    #[test]
    fn a_leader_extends_what_the_agg_qc_says(
        model in model(),
        high: prop::sample::Index,
        known: [prop::sample::Index; 3],
    ) {
        let blocks = model.blocks();
        let known = known.map(|index| index.index(blocks.len()));
        let high = qc(&blocks[high.index(blocks.len())]);
        prop_assert_eq!(&Fast.justify(&high, None), &high);
        let agg = tc(1_000, &known.map(|at| &*blocks[at]), true);
        let highest = known.into_iter().max().expect("three");
        prop_assert_eq!(Fast.justify(&high, Some(&agg)).block(), blocks[highest].id());
    }
}
