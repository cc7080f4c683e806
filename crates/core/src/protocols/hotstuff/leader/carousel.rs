//! Carousel: leaders that are alive, from what the chain shows, without those who failed last.
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
//! A crashed replica signs nothing, so it never leads while the views succeed each other (leader
//! utilization). One that signs and lets its views fail would be drawn again and again, and 1 would
//! give it its turn besides. So both steps pass over the replicas on a blacklist (`blacklist.rs`):
//! the at most f that failed last.
//!
//! **Chain quality.** Among any f·k + 1 successive blocks elected by 3 without a gap, one is of a
//! correct leader. For let the views s … v be led by the f liars only. The blocks of s … v − k have
//! at most f different proposers, so all of these are last authors in the election for v, and its
//! leader proposed none of them. Each liar's views are therefore less than k apart, k at the most.
//! The list takes candidates away and adds none, so this holds with it. Over many blocks the share
//! of f liars is at most f of the n − f that are not listed: that needs f correct replicas on the
//! list, and each of them got there by a view of its own that failed.
//!
//! **Leader utilization.** Once messages arrive in time, each liar loses one view and is listed;
//! when all are, correct replicas lead until a second chance, which costs one view at most. So a
//! faulty replica that signs costs a view in about 2,048, and a dead one none. The first gap takes
//! at most f views, where plain turns may take more.
//!
//! Deviations:
//! - The blacklist, in 1 and in 3.
//! - The committed head is that of the chain extended, not the replica's own ([`History`]): the
//!   paper's replicas may disagree after each failure until their heads agree again.
//! - The last authors are f *different* ones, as the paper's loop and DiemBFT v4 have it. (Public
//!   implementations take the authors of the last f blocks; the bound above does not hold then.)
//!   They are looked for at most 96 blocks deep: as far as the bound needs for 96 replicas with
//!   k = 3 and for 144 with k = 2.
//! - Candidates are drawn by their weights, where they have different ones.
//! - Where the committed head's certificate is not in the chain (with k = 1, where the head is the
//!   block extended), the newest one that is, of its parent, says who is active.

use super::blacklist::Blacklist;
use super::draw::Draw;
use super::history::{History, MAX_WINDOW, at_most};
use super::order::Order;
use super::round_robin;
use crate::base::membership::{Committee, faults};
use crate::base::types::{Height, ReplicaId, View};
use crate::protocols::hotstuff::block::Header;

/// The longest chain that a commit takes in any variant.
const LONGEST_CHAIN: usize = 3;
/// The phase of the certificate that commits where one view takes a block through several.
const LAST_PHASE: u8 = 3;

/// How far one election looks for last authors: k − 1 blocks to the committed head, and f·k from
/// there, but to the committed head at least.
const fn reach(replicas: usize) -> usize {
    at_most(LONGEST_CHAIN * (faults(replicas) + 1), MAX_WINDOW * 3 / 4)
}

/// How many blocks tell who is listed. A replica that is listed is passed over in one of so many
/// but for a few in a million, up to ten replicas or so; a greater committee forgets one now and
/// then, for the price of a view.
const fn remembered(replicas: usize) -> usize {
    at_most(8 * replicas, MAX_WINDOW - reach(replicas))
}

/// How far the election looks back.
pub(super) const fn window(replicas: usize) -> usize {
    reach(replicas) + remembered(replicas)
}

/// The leader of `view`.
#[must_use]
pub fn leader(
    view: View,
    committee: &Committee,
    chain_length: u64,
    history: &History,
) -> ReplicaId {
    let chain = Chain::of(committee, chain_length, history);
    let order = |view| chain.order(view, 0, Some(history.committed));
    let head = history.head_view().unwrap_or(view);
    let lost = head.0.saturating_add(1)..view.0.max(head.0.saturating_add(1));
    let list = chain.blacklist().after(lost, order);
    list.leader(view, &order(view)).unwrap_or_else(|| round_robin::leader(view, committee))
}

/// Who may lead `view` but for the blacklist, ascending; none if it is the turn of round-robin.
///
/// If some, then not empty, and more than can be listed: of the q = n − f signers at most f are
/// last authors, and because n ≥ 3f + 1 there remain q − f = n − 2f ≥ f + 1 > 0. (With n = 1 there
/// are no last authors, and the one replica signed.)
#[must_use]
pub fn candidates(
    view: View,
    committee: &Committee,
    chain_length: u64,
    history: &History,
) -> Option<Vec<ReplicaId>> {
    let chain = Chain::of(committee, chain_length, history);
    chain.candidates(view, 0, Some(history.committed))
}

/// The piece of the chain that an election looks at, newest block first.
struct Chain<'a> {
    blocks: Vec<&'a Header>,
    committee: &'a Committee,
    chain_length: u64,
}

impl<'a> Chain<'a> {
    fn of(committee: &'a Committee, chain_length: u64, history: &History<'a>) -> Self {
        let blocks = history.extended(window(committee.size()), committee.epoch()).collect();
        Self { blocks, committee, chain_length }
    }

    /// Who is listed behind the newest block.
    fn blacklist(&self) -> Blacklist {
        let replicas = self.committee.size();
        let mut list = Blacklist::new(replicas, faults(self.committee.voter_count()));
        for (place, block) in self.blocks.iter().enumerate().take(remembered(replicas)).rev() {
            let parent = place + 1;
            let committed = self.shown_by(block);
            let order = |view| self.order(view, parent, committed);
            list.failed(block.justify.view.0.saturating_add(1)..block.view.0, order);
            list.led(block.view, &order(block.view), block.proposer);
        }
        list
    }

    /// Up to which height `block`'s justify lets its ancestors be committed, where that is not told
    /// by their views alone: with k = 1 a certificate of an earlier phase commits nothing.
    fn shown_by(&self, block: &Header) -> Option<Height> {
        let is_last = self.chain_length > 1 || block.justify.phase == LAST_PHASE;
        is_last.then_some(block.height)
    }

    /// In which order replicas are asked to lead `view` upon the block at `parent`, the chain being
    /// committed up to `committed` at most.
    fn order(&self, view: View, parent: usize, committed: Option<Height>) -> Order {
        if let Some(candidates) = self.candidates(view, parent, committed) {
            let first = Draw::new(self.committee, view).first_of(self.committee, &candidates);
            return Order { candidates, first };
        }
        let candidates: Vec<ReplicaId> = self.committee.voters().collect();
        let turn = round_robin::leader(view, self.committee);
        let first = candidates.iter().position(|id| *id == turn).unwrap_or_default();
        Order { candidates, first }
    }

    /// The active replicas without the last authors, if the k blocks from that at `parent`
    /// downwards are of the k views before `view`, so that the last of them is the committed head.
    fn candidates(
        &self,
        view: View,
        parent: usize,
        committed: Option<Height>,
    ) -> Option<Vec<ReplicaId>> {
        let blocks = self.blocks.get(parent..)?;
        let blocks = blocks.get(..blocks.len().min(reach(self.committee.size())))?;
        let ahead = usize::try_from(self.chain_length).ok()?.checked_sub(1)?;
        let behind = view.0.checked_sub(self.chain_length)?;
        let committed_blocks = blocks.get(ahead..)?;
        let head = committed_blocks.first()?;
        // Views grow along the chain: k blocks within k views leave no gap.
        if head.view.0 != behind || Some(head.height) > committed {
            return None;
        }
        let faults = faults(self.committee.voter_count());
        let mut last_authors = Vec::with_capacity(faults);
        for block in committed_blocks {
            if last_authors.len() == faults {
                break;
            }
            if !last_authors.contains(&block.proposer) {
                last_authors.push(block.proposer);
            }
        }
        // The certificate of a block is in the one above it.
        let certified = ahead.max(1);
        blocks.get(certified)?;
        let signers = &blocks.get(certified - 1)?.signers;
        let candidates: Vec<_> =
            signers.iter().filter(|signer| !last_authors.contains(signer)).collect();
        // Few heavy replicas may be a quorum, and the last authors as well.
        (!candidates.is_empty()).then_some(candidates)
    }
}
