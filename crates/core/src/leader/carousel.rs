//! Carousel: leaders that are alive, from what the chain shows.
//!
//! Cohen, Gelashvili, Kokoris-Kogias, Li, Malkhi, Sonnino, Spiegelman, *Be Aware of Your Leaders*,
//! Financial Cryptography 2022. For view v, k views being what a commit takes:
//!
//! 1. If the committed head's view is not v − k, the chain has just failed somewhere:
//!    **round-robin**.
//! 2. **active** := who signed the committed head's certificate; **last authors** := the proposers
//!    of the newest committed blocks, downwards, until there are f of them;
//! 3. the leader is one of active ∖ last authors, drawn with the number of the view.
//!
//! A crashed replica signs nothing, so it never leads while the views succeed each other
//! (leader utilization). An election that takes a faulty leader ends in 1, so that a commit comes
//! as surely as with round-robin.
//!
//! **Chain quality.** Among any f·k + 1 successive blocks elected by 3 without a gap, one is of a
//! correct leader. For let the views s … v be led by the f liars only. The blocks of s … v − k have
//! at most f different proposers, so all of these are last authors in the election for v, and its
//! leader proposed none of them. Each liar's views are therefore less than k apart, k at the most.
//!
//! Deviations:
//! - The committed head is that of the chain extended, not the replica's own ([`History`]): the
//!   paper's replicas may disagree after each failure until their heads agree again.
//! - The last authors are f *different* ones, as the paper's loop and DiemBFT v4 have it. (Public
//!   implementations take the authors of the last f blocks; the bound above does not hold then.)
//!   They are looked for at most [`MAX_WINDOW`] blocks deep: as far as the bound needs for 129
//!   replicas with k = 3; where there are more, it holds for up to 42 liars.
//! - Where the committed head's certificate is not in the chain (with k = 1, where the head is the
//!   block extended), the newest one that is, of its parent, says who is active.

use super::draw::Draw;
use super::{History, MAX_WINDOW, at_most, round_robin};
use crate::committee::Committee;
use crate::types::{ReplicaId, View};

/// The longest chain that a commit takes in any variant.
const LONGEST_CHAIN: usize = 3;

/// How far the election looks back: k − 1 blocks to the committed head, and f·k from there, but to
/// the committed head at least.
pub(super) const fn window(replicas: usize) -> usize {
    let faults = replicas.saturating_sub(1) / 3;
    at_most(LONGEST_CHAIN * (faults + 1), MAX_WINDOW)
}

/// The leader of `view`.
#[must_use]
pub fn leader(
    view: View,
    committee: &Committee,
    chain_length: u64,
    history: &History,
) -> ReplicaId {
    candidates(view, committee, chain_length, history)
        .and_then(|candidates| {
            let drawn = Draw::new(committee, view).first(candidates.len());
            candidates.get(drawn).copied()
        })
        .unwrap_or_else(|| round_robin::leader(view, committee.size()))
}

/// Who may lead `view`, ascending; none if it is the turn of round-robin.
///
/// If some, then not empty: of the q = n − f signers at most f are last authors, and because
/// n ≥ 3f + 1 there remain q − f = n − 2f ≥ f + 1 > 0. (With n = 1 there are no last authors, and
/// the one replica signed.)
#[must_use]
pub fn candidates(
    view: View,
    committee: &Committee,
    chain_length: u64,
    history: &History,
) -> Option<Vec<ReplicaId>> {
    let blocks = || history.blocks(window(committee.size()), committee.epoch());
    let head = blocks().next()?;
    if view.0.checked_sub(chain_length) != Some(head.block.view.0) {
        return None;
    }
    let mut last_authors = Vec::with_capacity(committee.faults());
    for committed in blocks() {
        if last_authors.len() == committee.faults() {
            break;
        }
        if !last_authors.contains(&committed.block.proposer) {
            last_authors.push(committed.block.proposer);
        }
    }
    let certified = blocks().find(|committed| committed.certified_by.is_some())?;
    Some(certified.signers().filter(|signer| !last_authors.contains(signer)).collect())
}
