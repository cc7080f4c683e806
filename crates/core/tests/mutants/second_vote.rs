//! A second vote says: "I have seen the certificate of b". Who says so after it gave up on b's view
//! has said before that it has not, and a time-out certificate that leaves b out may rest on that.

use quorate_core::View;
use quorate_core::protocols::hotstuff::block::Block;
use quorate_core::protocols::hotstuff::certificate::{Qc, Tc};
use quorate_core::protocols::hotstuff::rules::{Facts, Outcome, Rules, TwoChain};
use quorate_core::protocols::hotstuff::tree::BlockTree;

use crate::script::{Bug, Unwatched, play};

/// The two-chain rule without the guard of the second vote.
#[derive(Debug)]
struct Unguarded;

impl Rules for Unguarded {
    fn facts(&self) -> &'static Facts {
        TwoChain.facts()
    }

    fn may_vote(&self, tree: &BlockTree, lock: &Qc, block: &Block, tc: Option<&Tc>) -> bool {
        TwoChain.may_vote(tree, lock, block, tc)
    }

    fn may_vote_again(&self, _: View, _: View) -> bool {
        true
    }

    fn on_qc(&self, tree: &BlockTree, qc: &Qc) -> Outcome {
        TwoChain.on_qc(tree, qc)
    }
}

#[test]
fn a_second_vote_after_giving_up_loses_a_committed_block() {
    let guarded = Bug { second_vote: true, ..Bug::none(&TwoChain) };
    let unguarded = Bug { rules: &Unguarded, unwatched: Unwatched::Votes, ..guarded };
    let broken = play("second_vote_unguarded", &unguarded);
    assert!(broken.says("r3 commits b11 at height 11"));
    assert!(broken.says("agreement: r"));
    assert!(broken.says("commits b12 at height 11"));

    let real = play("second_vote_guarded", &guarded);
    real.repeats(&broken);
    assert!(!real.says("agreement"));
    assert!(!real.says("commits b11"));
    assert!(real.says("(all answered)"));
}

#[test]
fn a_second_vote_after_giving_up_is_noticed_when_it_is_cast() {
    let watched = Bug { rules: &Unguarded, second_vote: true, ..Bug::none(&TwoChain) };
    let broken = play("second_vote_noticed", &watched);
    assert!(broken.says("voted in view 11 after giving up 11"));
}
