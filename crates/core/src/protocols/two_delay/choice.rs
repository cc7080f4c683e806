//! What the first votes of a view leave open: which block may have been committed by them.
//!
//! A block is committed by first votes once a [fast quorum](fast_quorum) F cast theirs for it. The
//! question here is the opposite one: of which blocks is it certain that this never happened and
//! never will? Such a block is *out*. Fallback votes and time-outs rest on that, and on nothing
//! else (`docs/protocols/two-delay.md` has the argument).
//!
//! - If F replicas vote for b, at most n − F correct ones do not, and f liars may show somebody
//!   another vote than the one that was counted. n − F + f + 1 votes against b prove that there is
//!   no such quorum.
//! - If the leader signed two blocks of the view, it is one of the f. Beside it, n − F + f votes
//!   are proof enough.

use crate::base::membership::{against_fast, against_fast_beside_liar, fast_quorum, faults};
use crate::base::types::ReplicaId;

/// How many of n count for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// First votes that commit a block.
    pub fast: usize,
    /// First votes against a block that keep it from being committed by first votes.
    pub against: usize,
    /// The same beside a leader that is known to lie.
    pub against_beside_liar: usize,
    /// First votes of a block that are worth a fallback vote: with fewer it is out, or not needed.
    pub support: usize,
}

impl Counts {
    /// Of so many replicas of equal weight.
    #[must_use]
    pub fn of(n: usize) -> Self {
        Self {
            fast: fast_quorum(n),
            against: against_fast(n),
            against_beside_liar: against_fast_beside_liar(n),
            support: faults(n).max(1),
        }
    }
}

/// First votes of one view, of different replicas. `None` is a blank vote.
#[derive(Clone, Copy, Debug)]
pub struct Firsts<'a, B> {
    /// The counts of the committee.
    pub counts: Counts,
    /// Who leads the view.
    pub leader: ReplicaId,
    /// Whether the leader is known to have signed two blocks of the view.
    pub is_liar: bool,
    /// The votes.
    pub votes: &'a [(ReplicaId, Option<B>)],
}

impl<B: Copy + PartialEq> Firsts<'_, B> {
    /// How many of the votes are for this block.
    #[must_use]
    pub fn support(&self, block: &B) -> usize {
        self.votes.iter().filter(|(_, vote)| vote.as_ref() == Some(block)).count()
    }

    /// Whether the block is committed by the votes.
    #[must_use]
    pub fn is_committed(&self, block: &B) -> bool {
        self.support(block) >= self.counts.fast
    }

    /// Whether no fast quorum voted for this block, whatever the votes that are not here are for.
    #[must_use]
    pub fn is_out(&self, block: &B) -> bool {
        self.excludes(Some(block))
    }

    /// Whether all blocks but this one are out, those included that nobody is known to have voted
    /// for: it may be given a fallback vote.
    #[must_use]
    pub fn excludes_others(&self, block: &B) -> bool {
        self.excludes(None) && self.named().all(|other| other == *block || self.is_out(&other))
    }

    /// Whether all blocks are out: the view may be given up.
    #[must_use]
    pub fn excludes_all(&self) -> bool {
        self.excludes(None) && self.named().all(|block| self.is_out(&block))
    }

    /// The blocks that are voted for, perhaps more than once.
    pub fn named(&self) -> impl Iterator<Item = B> {
        self.votes.iter().filter_map(|(_, vote)| *vote)
    }

    /// Whether the block is out; `None` is one that no vote here is for.
    fn excludes(&self, block: Option<&B>) -> bool {
        let is_against = |vote: &Option<B>| vote.is_none() || vote.as_ref() != block;
        let against = |(voter, vote): &&(ReplicaId, Option<B>)| {
            is_against(vote) && !(self.is_liar && *voter == self.leader)
        };
        let needed =
            if self.is_liar { self.counts.against_beside_liar } else { self.counts.against };
        self.votes.iter().filter(against).count() >= needed
    }
}

#[cfg(test)]
mod tests;
