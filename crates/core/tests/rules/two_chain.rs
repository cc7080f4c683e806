//! Gelashvili et al. 2021, section 3; DiemBFT v4, `safe_to_vote` and `commit`.
//!
//! Vote if the block's view is its QC's plus one, or if it is the TC's plus one and the QC's view
//! is no lower than the highest that was signed in the TC. Decide the parent of the block that a QC
//! certifies if the two are of consecutive views. Second votes: a certificate of them decides its
//! block; cast on the sight of the block's certificate, never after giving up its view or a later
//! one.

use proptest::prelude::*;
use quorate_core::View;
use quorate_core::protocols::hotstuff::rules::{Rules, TwoChain};

use crate::hotstuff_2::locks_and_decides;
use crate::model::{Model, cases, entered, entry, model, qc, tc};

/// What the paper says of `candidate`, with a TC of this view signed by those who know these blocks
/// to be certified.
fn votes(model: &Model, candidate: usize, tc: Option<(u64, [usize; 3])>) -> bool {
    let (view, qc) = (model.views[candidate], model.views[model.parents[candidate]]);
    match tc {
        None => view == qc + 1,
        Some((given_up, known)) => {
            view == given_up + 1 && known.iter().all(|block| qc >= model.views[*block])
        }
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_certificate_locks_and_commits_what_the_paper_says(model in model()) {
        locks_and_decides(&TwoChain, &model)?;
    }

    #[test]
    fn a_vote_needs_the_qc_of_the_view_before_or_one_as_high_as_any_in_the_tc(
        model in model(),
        lock: prop::sample::Index,
        candidate: prop::sample::Index,
        entry in entry(),
    ) {
        let blocks = model.blocks();
        let tree = model.tree(&TwoChain, &blocks);
        let (lock, candidate) = (lock.index(blocks.len()), 1 + candidate.index(blocks.len() - 1));
        let given_up = entered(&model, candidate, &entry);
        let certificate =
            given_up.map(|(view, known)| tc(view, &known.map(|at| &*blocks[at]), false));
        let expected = votes(&model, candidate, given_up);
        // Whatever it is locked on.
        let locked = qc(&blocks[lock]);
        let voted =
            TwoChain.may_vote(&tree, &locked, &blocks[candidate], certificate.as_ref());
        prop_assert_eq!(voted, expected, "{:?} with {:?}", candidate, given_up);
    }

    #[test]
    fn nobody_votes_a_second_time_in_what_it_gave_up(view in 1u64..50, given_up in 0u64..50) {
        let may = TwoChain.may_vote_again(View(view), View(given_up));
        let gave_up = (view..50).contains(&given_up);
        prop_assert_eq!(may, !gave_up);
    }
}
