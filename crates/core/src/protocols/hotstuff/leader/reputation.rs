//! Reputation: leaders drawn by weight, from what they did in a window of committed history.
//!
//! The Diem team, *DiemBFT v4: state machine replication in the Diem blockchain*, 2021, section on
//! leader reputation, with the weights that its implementations came to ("proposer and voter"; the
//! report itself elects as [`carousel`](super::carousel) does). For a view, of the committed blocks
//! of the chain extended, those of the last [`excluded`] views left out:
//!
//! | a replica that | weighs |
//! |---|---|
//! | failed in more than 10 % of the views it led, in the last 10 n blocks | 1 |
//! | else proposed one of the last 10 n blocks or signed one of the last n | 1000 |
//! | else | 10 |
//!
//! and the leader is drawn with these weights, times the stake. The newest views are
//! left out so that nobody who leads now, and chooses which votes to put into a certificate,
//! chooses the next leaders.
//!
//! **Who led a view that left no block?** Those implementations record it in the next block. Ours
//! has no such field, and the election that was held then cannot be held again: it rested on the
//! failures before it, these on earlier ones, without end. So the draw is made in two steps that
//! come to the same distribution:
//!
//! 1. a **first choice**, by stake, from (chain, epoch, view) alone; it leads with the
//!    probability weight / highest weight;
//! 2. otherwise a second draw, by weight.
//!
//! (It leads with probability wᵢ / (n·max) in 1; 2 is reached with 1 − Σw / (n·max), and adds the
//! rest of wᵢ / Σw.) **A skipped view is put to its first choice.** That needs no history. A
//! replica of the highest weight *is* the leader whenever it is the first choice, whatever chain
//! the view's proposal extended, so nobody in full standing is ever blamed for another; and one
//! that fails is blamed in all views it was the first choice of, which are two of three at least
//! while at most f are out of standing. What others fail then falls on those who are out already,
//! and delays their return until they or the failures are gone.
//!
//! Deviations, apart from that:
//! - **After [`PATIENCE`] views without a commit all weigh the same.** Else replicas that had an
//!   outage and weigh 1 each would for ever lose the draw to one that weighs 1000 and has died
//!   since. (The report goes over to round-robin after any time-out; here it takes longer, so that
//!   one dead replica's view does not bring the other dead ones back.) With f dead, a uniform draw
//!   hits four live leaders in a row, enough for a three-chain and its carrier, after 13 views on
//!   average.
//! - The look-back is at most [`MAX_WINDOW`] blocks with the excluded ones: from n = 11 on the
//!   proposers' window is shorter than 10 n.
//! - The excluded views are two rotations, at most the twenty of those implementations: twenty
//!   views of four replicas are five rotations in which a dead one goes on leading.
//! - The seed has no state root in it: leaders can be foreseen as far as the weights can.

#[cfg(test)]
mod tests;

use super::draw::Draw;
use super::history::{History, MAX_WINDOW, at_most};
use crate::base::membership::Committee;
use crate::base::types::{ReplicaId, View};

/// After so many views without a commit all weigh the same.
pub const PATIENCE: u64 = 20;

/// Blocks whose proposers count, for each replica.
const PROPOSER_BLOCKS: usize = 10;
/// The weight of a replica that fails.
const FAILED: u64 = 1;
/// The weight of a replica of which nothing was seen.
const INACTIVE: u64 = 10;
/// The weight of a replica that proposes or votes.
const ACTIVE: u64 = 1000;
/// More failures than so many in a hundred views are too many.
const TOLERATED_PERCENT: usize = 10;

/// The blocks of so many views before the one elected for do not count.
#[must_use]
pub const fn excluded(replicas: usize) -> u64 {
    at_most(2 * replicas, 20) as u64
}

/// How far the election looks back: at most one block in each excluded view, and the window.
pub(super) const fn window(replicas: usize) -> usize {
    at_most(excluded(replicas) as usize + PROPOSER_BLOCKS * replicas, MAX_WINDOW)
}

/// The leader of `view`.
#[must_use]
pub fn leader(view: View, committee: &Committee, history: &History) -> ReplicaId {
    let draw = Draw::new(committee, view);
    let standings = weights(view, committee, history);
    let highest = standings.iter().max().copied().unwrap_or(0);
    let first_choice = first_choice(&draw, committee);
    let second = draw.second(highest);
    let of_stake =
        |(id, standing): (usize, &u64)| standing * committee.weight(ReplicaId(id as u16)) as u64;
    let shares: Vec<u64> = standings.iter().enumerate().map(of_stake).collect();
    let third = draw.third(shares.iter().sum());
    chosen((&standings, second), (&shares, third), first_choice)
}

/// The draw in two steps: the first choice, if `second` of the highest standing is below its own;
/// otherwise whose share of all of them `third` falls into.
fn chosen(
    (standings, second): (&[u64], u64),
    (shares, third): (&[u64], u64),
    first_choice: ReplicaId,
) -> ReplicaId {
    if standings.get(first_choice.index()).is_some_and(|standing| second < *standing) {
        return first_choice;
    }
    let mut left = third;
    let drawn = shares.iter().position(|weight| {
        let hit = left < *weight;
        left = left.saturating_sub(*weight);
        hit
    });
    drawn.map_or(first_choice, |replica| ReplicaId(replica as u16))
}

/// The replica that leads a view if it is in full standing.
fn first_choice(draw: &Draw, committee: &Committee) -> ReplicaId {
    let voters: Vec<ReplicaId> = committee.voters().collect();
    voters.get(draw.first_of(committee, &voters)).copied().unwrap_or_default()
}

/// What a replica did in the window.
#[derive(Clone, Copy, Default)]
struct Conduct {
    proposals: usize,
    failures: usize,
    voted: bool,
}

impl Conduct {
    fn weight(&self) -> u64 {
        if self.failures * 100 > (self.failures + self.proposals) * TOLERATED_PERCENT {
            FAILED
        } else if self.proposals > 0 || self.voted {
            ACTIVE
        } else {
            INACTIVE
        }
    }
}

/// What each replica weighs in the election for `view`, by id; never 0.
#[must_use]
pub fn weights(view: View, committee: &Committee, history: &History) -> Vec<u64> {
    let replicas = committee.size();
    let depth = window(replicas);
    let blocks = || history.blocks(depth, committee.epoch());
    let last_commit = blocks().next().map_or(View(0), |head| head.block.view);
    if last_commit.plus(PATIENCE) < view {
        return vec![INACTIVE; replicas];
    }
    let mut conduct = vec![Conduct::default(); replicas];
    let in_window = blocks()
        .skip_while(|committed| committed.block.view.plus(excluded(replicas)) >= view)
        .take(PROPOSER_BLOCKS * replicas);
    for (age, committed) in in_window.enumerate() {
        let block = committed.block;
        if let Some(proposer) = conduct.get_mut(block.proposer.index()) {
            proposer.proposals += 1;
        }
        if age < replicas {
            for signer in committed.signers() {
                if let Some(signer) = conduct.get_mut(signer.index()) {
                    signer.voted = true;
                }
            }
        }
        let mut skipped = block.justify.view.0.saturating_add(1)..block.view.0;
        if let Some(newest) = skipped.next_back() {
            let blamed = first_choice(&Draw::new(committee, View(newest)), committee);
            if let Some(blamed) = conduct.get_mut(blamed.index()) {
                blamed.failures += 1;
            }
        }
    }
    conduct.iter().map(Conduct::weight).collect()
}
