//! Early Fast-HotStuff committed a block on a certificate of its child, whatever their views were.
//! Four correct replicas are enough to commit two chains.

use quorate_core::protocols::hotstuff::block::Block;
use quorate_core::protocols::hotstuff::certificate::{Qc, Tc};
use quorate_core::protocols::hotstuff::rules::{Facts, Fast, Outcome, Rules};
use quorate_core::protocols::hotstuff::tree::BlockTree;

use crate::script::{Bug, play};

/// The rules as first published: a direct parent, of any view.
#[derive(Debug)]
struct EarlyFast;

impl Rules for EarlyFast {
    fn facts(&self) -> &'static Facts {
        Fast.facts()
    }

    fn may_vote(&self, tree: &BlockTree, lock: &Qc, block: &Block, tc: Option<&Tc>) -> bool {
        Fast.may_vote(tree, lock, block, tc)
    }

    fn on_qc(&self, tree: &BlockTree, qc: &Qc) -> Outcome {
        let certified = tree.find(&qc.block());
        let parent = certified.and_then(|block| tree.find(&block.parent()));
        Outcome { lock: Some(qc.clone()), commit: parent.map(|parent| parent.id()) }
    }

    fn justify(&self, high_qc: &Qc, tc: Option<&Tc>) -> Qc {
        Fast.justify(high_qc, tc)
    }
}

#[test]
fn early_fast_hotstuff_commits_two_chains() {
    let bug = Bug { rules: &EarlyFast, ..Bug::none(&Fast) };
    let broken = play("early_fast_hotstuff", &bug);
    assert!(broken.says("agreement: r3 committed another block at 4"));
    assert!(broken.says("r1 commits b4 at height 4"));
    assert!(broken.says("r3 commits b6 at height 4"));

    let corrected = play("early_fast_hotstuff_corrected", &Bug::none(&Fast));
    corrected.repeats(&broken);
    assert!(!corrected.says("agreement"));
    assert!(corrected.says("(all answered)"));
    assert!(!corrected.says("commits b4"), "b4 and b8 are not of consecutive views");
}
