//! Known bugs of the choice that a view begins with, put in around it: only for builds with
//! `--cfg quorate_mutants`. Each acts as what it decorates while the mutant of its name is not
//! chosen.

use super::choice::Chosen;
use super::words::{Entry, NewView, SignedChange};
use crate::base::membership::Committee;
use crate::base::types::Height;
use crate::ledger::block::BlockId;

/// What the view changes lead to, by the chosen mutant.
pub(super) fn choose(
    right: Option<Chosen>,
    committee: &Committee,
    genesis: BlockId,
    changes: &[SignedChange],
) -> Option<Chosen> {
    let right = right?;
    let (low, root) = match &right.stable {
        Some(stable) => (stable.checkpoint.height, stable.checkpoint.block),
        None => (committee.opening().height, genesis),
    };
    let by_number = |entry: &Entry| (entry.height.0, entry.view.0);
    let by_view = |entry: &Entry| (entry.view.0, entry.height.0);
    let last = |height| prepared(changes, height).max_by_key(|entry| entry.view);
    let first = |height| {
        let witness = committee.honest_witness();
        let vouched_for =
            prepared(changes, height).filter(|it| vouchers(committee, changes, it) >= witness);
        vouched_for.min_by_key(|entry| entry.view)
    };
    let wrong = mutant!("pbft-prepared-dropped", Some(Vec::new()), None)
        .or_else(|| mutant!("pbft-tip-by-number", Some(tip(changes, low, root, by_number)), None))
        .or_else(|| mutant!("pbft-tip-by-view", Some(tip(changes, low, root, by_view)), None))
        .or_else(|| mutant!("pbft-vouching-ignored", Some(upward(low, root, last)), None))
        .or_else(|| mutant!("pbft-conflicts-ignored", Some(upward(low, root, first)), None));
    let Some(blocks) = wrong else { return Some(right) };
    Some(Chosen { blocks, ..right })
}

/// What the primary says that a view begins with, as far as it is what was chosen.
pub(super) fn believe(chosen: Chosen, new_view: &NewView) -> Chosen {
    let same = chosen.blocks.iter().zip(&new_view.chosen);
    let same = same.take_while(|(entry, said)| entry.block == **said).count();
    let Chosen { stable, mut blocks } = chosen;
    blocks.truncate(same);
    Chosen { stable, blocks }
}

fn prepared(changes: &[SignedChange], height: Height) -> impl Iterator<Item = Entry> {
    let all = changes.iter().flat_map(|signed| signed.change.prepared.iter().copied());
    all.filter(move |entry| entry.height == height)
}

fn vouchers(committee: &Committee, changes: &[SignedChange], entry: &Entry) -> usize {
    let same = |known: &Entry| known.block == entry.block && known.height == entry.height;
    let vouch = changes.iter().filter(|signed| signed.change.pre_prepared.iter().any(same));
    vouch.map(|signed| committee.weight(signed.from)).sum()
}

/// Height by height, as long as each extends the one below.
fn upward(low: Height, root: BlockId, at: impl Fn(Height) -> Option<Entry>) -> Vec<Entry> {
    let (mut height, mut parent, mut blocks) = (low.next(), root, Vec::new());
    while let Some(entry) = at(height).filter(|entry| entry.parent == parent) {
        (height, parent) = (height.next(), entry.block);
        blocks.push(entry);
    }
    blocks
}

/// The highest prepared tip, and its chain.
fn tip(
    changes: &[SignedChange],
    low: Height,
    root: BlockId,
    key: impl Fn(&Entry) -> (u64, u64),
) -> Vec<Entry> {
    let all = || {
        let sets = changes.iter().map(|signed| &signed.change);
        sets.flat_map(|change| change.prepared.iter().chain(&change.pre_prepared))
    };
    let tips = changes.iter().flat_map(|signed| &signed.change.prepared);
    let tip = tips.filter(|entry| entry.height > low).max_by_key(|entry| key(entry));
    let mut chain: Vec<Entry> = tip.copied().into_iter().collect();
    while let Some(below) = chain.last().map(|entry| entry.parent).filter(|id| *id != root) {
        match all().find(|entry| entry.block == below) {
            Some(entry) => chain.push(*entry),
            None => return Vec::new(),
        }
    }
    chain.reverse();
    chain
}
