//! What correct replicas of the protocol of two delays may say: judged from their messages alone,
//! across their crashes, by code that shares no predicate with production.
//!
//! - One first vote in a view, and one second vote.
//! - A second vote is for no other block than first and fallback votes of the view, and no
//!   time-out of the view is said as well.
//! - No fallback vote and no time-out without a first vote.
//! - A time-out names a QC of a view no lower than any in which its sender said a second vote.
//! - Once so many correct replicas cast their first votes for a block that f others could commit
//!   it, none of them says a time-out of the view, or votes for another block as a fallback;
//!   whether that was said before or after.

use std::collections::{BTreeMap, BTreeSet};

use quorate_core::ledger::block::BlockId;
use quorate_core::protocols::two_delay::Message;
use quorate_core::protocols::two_delay::certificate::Phase;
use quorate_core::protocols::two_delay::words::Vote;

/// What all correct replicas have said.
#[derive(Debug, Default)]
pub struct Said {
    /// By view and replica.
    words: BTreeMap<u64, BTreeMap<usize, Words>>,
    /// The highest view in which a replica said a second vote.
    seconds: BTreeMap<usize, u64>,
}

/// What one has said in a view.
#[derive(Debug, Default)]
struct Words {
    first: Option<Option<BlockId>>,
    fallbacks: BTreeSet<BlockId>,
    second: Option<BlockId>,
    gave_up: Option<u64>,
}

impl Said {
    /// A correct replica of so many sends a message.
    ///
    /// # Panics
    /// If it may not.
    pub fn sends(&mut self, replica: usize, replicas: usize, message: &Message) {
        let view = match message {
            Message::Proposal { block, .. } => {
                let first = Some(block.id());
                self.says(replica, block.view.0, |words| words.votes(replica, first));
                block.view.0
            }
            Message::Vote(vote) => {
                let Vote { phase, view, block, .. } = *vote;
                let block = block.map(|(block, _)| block);
                self.says(replica, view.0, |words| match (phase, block) {
                    (Phase::Second, Some(block)) => words.says_second(replica, block),
                    (Phase::Fallback, Some(block)) => {
                        words.fallbacks.insert(block);
                    }
                    _ => words.votes(replica, block),
                });
                if phase == Phase::Second {
                    let highest = self.seconds.entry(replica).or_default();
                    *highest = view.0.max(*highest);
                }
                view.0
            }
            Message::TimeOut { view, high_qc, .. } => {
                let named = high_qc.view.0;
                let second = self.seconds.get(&replica).copied().unwrap_or(0);
                assert!(
                    named >= second || second >= view.0,
                    "votes: r{replica} names the QC of view {named} behind that of {second}"
                );
                self.says(replica, view.0, |words| words.gave_up = Some(named));
                view.0
            }
            Message::Standing(_) => return,
        };
        self.judge(view, replicas);
    }

    fn says(&mut self, replica: usize, view: u64, say: impl FnOnce(&mut Words)) {
        let words = self.words.entry(view).or_default().entry(replica).or_default();
        say(words);
        let voted = words.first.iter().flatten().chain(&words.fallbacks);
        if let Some(second) = words.second {
            assert!(words.gave_up.is_none(), "votes: r{replica} gave up {view} and voted again");
            let mut others = voted.filter(|block| **block != second);
            assert_eq!(others.next(), None, "votes: r{replica} stands by two blocks of {view}");
        } else if words.gave_up.is_some() || !words.fallbacks.is_empty() {
            assert!(words.first.is_some(), "votes: r{replica} says no first vote in {view}");
        }
    }

    fn judge(&self, view: u64, replicas: usize) {
        let Some(words) = self.words.get(&view) else { return };
        let liars = replicas.saturating_sub(1) / 3;
        let fast = if liars == 0 { replicas } else { replicas - 1 };
        let mut firsts = BTreeMap::<BlockId, usize>::new();
        for block in words.values().filter_map(|words| words.first.flatten()) {
            *firsts.entry(block).or_default() += 1;
        }
        let Some((block, _)) = firsts.into_iter().find(|(_, votes)| votes + liars >= fast) else {
            return;
        };
        for (replica, said) in words {
            assert_eq!(said.gave_up, None, "votes: r{replica} gave up {view}, {block:?} may be in");
            let mut others = said.fallbacks.iter().filter(|other| **other != block);
            assert_eq!(
                others.next(),
                None,
                "votes: r{replica} fell back where {block:?} may be in"
            );
        }
    }
}

impl Words {
    fn votes(&mut self, replica: usize, block: Option<BlockId>) {
        let before = *self.first.get_or_insert(block);
        assert_eq!(before, block, "votes: r{replica} said two first votes");
    }

    fn says_second(&mut self, replica: usize, block: BlockId) {
        let before = *self.second.get_or_insert(block);
        assert_eq!(before, block, "votes: r{replica} said two second votes");
    }
}
