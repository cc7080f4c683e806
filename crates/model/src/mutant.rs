//! Wrong rules, put in on purpose: a checker that does not find them proves nothing.

use quorate_core::ledger::block::BlockId;
use quorate_core::protocols::hotstuff::block::{Block, Header};
use quorate_core::protocols::hotstuff::certificate::{Qc, Tc};
use quorate_core::protocols::hotstuff::rules::{
    Basic, Chained, Facts, Fast, HotStuff2, Outcome, Rules, Simplified, TwoChain,
};
use quorate_core::protocols::hotstuff::tree::BlockTree;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// The chain of certificates commits, whether or not its views are consecutive (the early
    /// Fast-HotStuff).
    SkippedViews,
    /// One certificate less than needed commits.
    ShortChain,
    /// The lock is never updated.
    NeverLocks,
    /// Every block that fits its view gets a vote: neither lock nor time-out certificate is asked.
    VotesForAll,
}

impl Bug {
    /// What it is, in a few words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::SkippedViews => "commits over skipped views",
            Self::ShortChain => "commits one certificate early",
            Self::NeverLocks => "never updates the lock",
            Self::VotesForAll => "votes without the safety rule",
        }
    }
}

/// Rules with a bug.
#[derive(Clone, Copy, Debug)]
pub struct Mutant {
    /// What they are otherwise.
    pub rules: &'static dyn Rules,
    /// The bug.
    pub bug: Bug,
}

macro_rules! mutants {
    ($($rules:ident: $($bug:ident),+;)+) => {
        /// Every mutant, by variant. `NeverLocks` is left out where no rule asks for the lock, and
        /// `SkippedViews` where a commit needs one view only.
        pub static ALL: &[Mutant] =
            &[$($(Mutant { rules: &$rules, bug: Bug::$bug }),+),+];
    };
}

mutants! {
    Basic: ShortChain, NeverLocks, VotesForAll;
    Chained: SkippedViews, ShortChain, NeverLocks, VotesForAll;
    Simplified: SkippedViews, ShortChain, NeverLocks, VotesForAll;
    Fast: SkippedViews, ShortChain, VotesForAll;
    TwoChain: SkippedViews, ShortChain, VotesForAll;
    HotStuff2: SkippedViews, ShortChain, NeverLocks, VotesForAll;
}

impl Mutant {
    /// The blocks certified in a row from that of `qc` on, newest first.
    fn chain<'a>(tree: &'a BlockTree, qc: &Qc) -> impl Iterator<Item = &'a Header> {
        std::iter::successors(tree.find(&qc.block()), |block| tree.find(&block.parent()))
    }

    fn commit(&self, tree: &BlockTree, qc: &Qc, skips: bool, length: usize) -> Option<BlockId> {
        let chain: Vec<&Header> = Self::chain(tree, qc).take(length).collect();
        let consecutive = chain.windows(2).all(|pair| pair[0].view == pair[1].view.next());
        let head = chain.get(length.checked_sub(1)?)?;
        (skips || consecutive).then(|| head.id())
    }
}

impl Rules for Mutant {
    fn facts(&self) -> &'static Facts {
        self.rules.facts()
    }

    fn may_vote(&self, tree: &BlockTree, lock: &Qc, block: &Block, tc: Option<&Tc>) -> bool {
        self.bug == Bug::VotesForAll || self.rules.may_vote(tree, lock, block, tc)
    }

    fn on_qc(&self, tree: &BlockTree, qc: &Qc) -> Outcome {
        let right = self.rules.on_qc(tree, qc);
        let facts = self.facts();
        let length = facts.chain_length as usize;
        match self.bug {
            Bug::NeverLocks => Outcome { lock: None, ..right },
            Bug::VotesForAll => right,
            Bug::SkippedViews => Outcome { commit: self.commit(tree, qc, true, length), ..right },
            Bug::ShortChain if facts.phases > 1 => {
                let early = qc.phase() + 1 >= facts.phases && qc.phase() > 0;
                Outcome { commit: early.then(|| qc.block()), ..right }
            }
            Bug::ShortChain => {
                Outcome { commit: self.commit(tree, qc, false, length - 1), ..right }
            }
        }
    }

    fn justify(&self, high_qc: &Qc, tc: Option<&Tc>) -> Qc {
        self.rules.justify(high_qc, tc)
    }
}
