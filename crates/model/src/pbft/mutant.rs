//! What a view begins with: the real choice, and known bugs around it.
//!
//! The core has the same bugs for the tests outside of it (`protocols::pbft`, behind
//! `--cfg quorate_mutants`). Here each decorates the real choice, as the wrong rules of
//! [HotStuff](crate::mutant) do.

use quorate_core::Committee;
use quorate_core::base::types::Height;
use quorate_core::ledger::block::BlockId;
use quorate_core::protocols::pbft::choice::Chosen;
use quorate_core::protocols::pbft::words::{Entry, SignedChange};

use super::replica::HEIGHTS;

/// How a new view is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// As production does it.
    Right,
    /// Of the blocks that would be chosen height by height, if there were no parents: the one of
    /// the greatest height, and its ancestors.
    TipByNumber,
    /// Of the same blocks the one prepared in the latest view, the highest of these, and its
    /// ancestors.
    TipByView,
    /// Height by height the block prepared last, whoever says so: without A2 of the paper.
    VouchingIgnored,
    /// Height by height the block prepared first of what f + 1 vouch for: without A1 of the paper.
    ConflictsIgnored,
    /// A view begins with nothing.
    PreparedDropped,
}

impl Rule {
    /// Every wrong one.
    pub const MUTANTS: [Self; 5] = [
        Self::TipByNumber,
        Self::TipByView,
        Self::VouchingIgnored,
        Self::ConflictsIgnored,
        Self::PreparedDropped,
    ];

    /// What it is, in a few words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Right => "as it is",
            Self::TipByNumber => "chooses the highest tip by number",
            Self::TipByView => "chooses the highest tip by view",
            Self::VouchingIgnored => "ignores who vouches",
            Self::ConflictsIgnored => "ignores later conflicts",
            Self::PreparedDropped => "drops what was prepared",
        }
    }

    /// What the view changes lead to; `None` as long as they do not suffice.
    #[must_use]
    pub fn choose(
        self,
        committee: &Committee,
        genesis: BlockId,
        changes: &[SignedChange],
    ) -> Option<Vec<Entry>> {
        let right = Chosen::from(committee, genesis, changes)?.blocks;
        let last = |height| prepared(changes, height).max_by_key(|entry| entry.view);
        let is_vouched = |entry: &&Entry| vouchers(changes, entry) >= committee.honest_witness();
        let first =
            |height| prepared(changes, height).filter(is_vouched).min_by_key(|entry| entry.view);
        let tip = |key: fn(&Entry) -> (u64, u64)| {
            let all = (1..=HEIGHTS as u64).map(Height);
            let all = all.filter_map(|height| alone(committee, genesis, changes, height));
            let tip = all.max_by_key(key);
            tip.map(|tip| ancestry(genesis, changes, tip)).unwrap_or_default()
        };
        Some(match self {
            Self::Right => right,
            Self::TipByNumber => tip(|entry| (entry.height.0, entry.view.0)),
            Self::TipByView => tip(|entry| (entry.view.0, entry.height.0)),
            Self::VouchingIgnored => upward(genesis, last),
            Self::ConflictsIgnored => upward(genesis, first),
            Self::PreparedDropped => Vec::new(),
        })
    }
}

fn prepared(changes: &[SignedChange], height: Height) -> impl Iterator<Item = &Entry> {
    let all = changes.iter().flat_map(|signed| &signed.change.prepared);
    all.filter(move |entry| entry.height == height)
}

fn vouchers(changes: &[SignedChange], entry: &Entry) -> usize {
    let same = |known: &Entry| {
        (known.height, known.block) == (entry.height, entry.block) && known.view >= entry.view
    };
    changes.iter().filter(|signed| signed.change.pre_prepared.iter().any(same)).count()
}

/// What the real choice makes of a height if there is no other.
fn alone(
    committee: &Committee,
    genesis: BlockId,
    changes: &[SignedChange],
    height: Height,
) -> Option<Entry> {
    let mut lowered = changes.to_vec();
    for signed in &mut lowered {
        for set in [&mut signed.change.prepared, &mut signed.change.pre_prepared] {
            set.retain(|entry| entry.height == height);
            set.iter_mut().for_each(|entry| {
                (entry.height, entry.parent) = (Height(1), genesis);
            });
        }
    }
    let chosen = *Chosen::from(committee, genesis, &lowered)?.blocks.first()?;
    prepared(changes, height).find(|entry| entry.block == chosen.block).copied()
}

/// Height by height, as long as each extends the one below.
fn upward<'a>(genesis: BlockId, at: impl Fn(Height) -> Option<&'a Entry>) -> Vec<Entry> {
    let (mut height, mut parent, mut blocks) = (Height(1), genesis, Vec::new());
    while let Some(entry) = at(height).filter(|entry| entry.parent == parent) {
        (height, parent) = (height.next(), entry.block);
        blocks.push(*entry);
    }
    blocks
}

/// A block and its ancestors; nothing where one of these is not named.
fn ancestry(genesis: BlockId, changes: &[SignedChange], tip: Entry) -> Vec<Entry> {
    let sets = changes.iter().map(|signed| &signed.change);
    let all: Vec<&Entry> =
        sets.flat_map(|change| change.prepared.iter().chain(&change.pre_prepared)).collect();
    let mut chain = vec![tip];
    while let Some(below) = chain.last().map(|entry| entry.parent).filter(|id| *id != genesis) {
        match all.iter().find(|entry| entry.block == below) {
            Some(entry) => chain.push(**entry),
            None => return Vec::new(),
        }
    }
    chain.reverse();
    chain
}
