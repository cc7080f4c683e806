//! What a new view begins with: decided from view changes alone, alike by everybody.
//!
//! The rule is that of *Practical Byzantine Fault Tolerance and Proactive Recovery* (Castro and
//! Liskov, TOCS 2002), section 4.5.2, with two differences, which the [module](super) argues:
//! checkpoints are proved by q signatures, so the highest one counts; and blocks have parents, so
//! the choice ends where nothing is to be chosen, and no null requests fill gaps.

use super::words::{Entry, SignedChange};
use crate::base::membership::Committee;
use crate::base::types::{Height, View};
use crate::ledger::block::BlockId;
use crate::protocols::checkpoint::Stable;

/// What a view begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The highest stable checkpoint; none where that is the genesis block.
    pub stable: Option<Stable>,
    /// The blocks above it, each the parent of the next.
    pub blocks: Vec<Entry>,
}

impl Chosen {
    /// Whether it shows that a block, which somebody prepared, was not committed before the view
    /// that begins so: a committed one would be chosen.
    #[must_use]
    pub fn rules_out(&self, view: View, entry: &Entry) -> bool {
        let low = self.stable.as_ref().map_or(Height(0), |stable| stable.checkpoint.height);
        let is_chosen =
            |chosen: &Entry| (chosen.height, chosen.block) == (entry.height, entry.block);
        entry.view < view && entry.height > low && !self.blocks.iter().any(is_chosen)
    }

    /// Decides from view changes of different replicas, for one view. `None` as long as they do
    /// not suffice.
    #[must_use]
    pub fn from(committee: &Committee, genesis: BlockId, changes: &[SignedChange]) -> Option<Self> {
        let all = Changes { committee, changes };
        if all.weight(|_| true) < committee.quorum() {
            return None;
        }
        let stables = changes.iter().filter_map(|signed| signed.change.stable.as_ref());
        let stable = stables.max_by_key(|stable| stable.checkpoint.height).cloned();
        let (mut height, mut parent) = match &stable {
            Some(stable) => (stable.checkpoint.height, stable.checkpoint.block),
            None => (committee.opening().height, genesis),
        };
        let mut blocks = Vec::new();
        loop {
            height = height.next();
            match all.at(height)? {
                Some(entry) if entry.parent == parent => {
                    parent = entry.block;
                    blocks.push(entry);
                }
                // Nothing here, or a block of a branch that was given up: what was committed above
                // would have its ancestors chosen.
                _ => return Some(Self { stable, blocks }),
            }
        }
    }
}

struct Changes<'a> {
    committee: &'a Committee,
    changes: &'a [SignedChange],
}

impl Changes<'_> {
    fn weight(&self, counts: impl Fn(&SignedChange) -> bool) -> usize {
        let counted = self.changes.iter().filter(|signed| counts(signed));
        counted.map(|signed| self.committee.weight(signed.from)).sum()
    }

    /// The block for a height: `Some(None)` if none can have been committed there, `None` if that
    /// cannot be told yet.
    fn at(&self, height: Height) -> Option<Option<Entry>> {
        let mut candidates: Vec<Entry> =
            self.changes.iter().filter_map(|signed| prepared_at(signed, height)).collect();
        candidates.sort_by_key(|entry| (entry.view, entry.block, entry.parent));
        candidates.dedup();
        if let Some(entry) = candidates.into_iter().rev().find(|entry| self.may_be_chosen(entry)) {
            return Some(Some(entry));
        }
        let without = self.weight(|signed| prepared_at(signed, height).is_none());
        (without >= self.committee.quorum()).then_some(None)
    }

    /// Conditions A1 and A2 of the paper: no quorum can have prepared another block later, and a
    /// correct replica vouches that the primary of that view, or of a later one, ordered this one.
    fn may_be_chosen(&self, chosen: &Entry) -> bool {
        let agrees = |signed: &SignedChange| {
            prepared_at(signed, chosen.height).is_none_or(|other| {
                other.view < chosen.view || other.view == chosen.view && is_same(&other, chosen)
            })
        };
        let vouches = |signed: &SignedChange| {
            let mut entries = signed.change.pre_prepared.iter();
            entries.any(|entry| is_same(entry, chosen) && entry.view >= chosen.view)
        };
        self.weight(agrees) >= self.committee.quorum()
            && self.weight(vouches) >= self.committee.honest_witness()
    }
}

fn is_same(one: &Entry, other: &Entry) -> bool {
    (one.height, one.block, one.parent) == (other.height, other.block, other.parent)
}

fn prepared_at(signed: &SignedChange, height: Height) -> Option<Entry> {
    let prepared = &signed.change.prepared;
    let at = prepared.binary_search_by_key(&height, |entry| entry.height).ok()?;
    prepared.get(at).copied()
}
