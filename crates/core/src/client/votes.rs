//! When an outcome is believed: f + 1 replicas say exactly the same, so a correct one does. Or n -
//! f replicas say, tentatively, that it is so in one view: then they prepared it, and it is
//! committed (Castro and Liskov, *Practical Byzantine Fault Tolerance*, OSDI 1999, section 5.1.2).

use std::collections::BTreeSet;

use crate::base::types::{Digest, ReplicaId, View};
use crate::base::wire::Encode;
use crate::ledger::message::Outcome;

/// How much replicas count, by id, and how much must agree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Needed<'a> {
    /// By id: how much each counts.
    pub weights: &'a [usize],
    /// On what is committed.
    pub committed: usize,
    /// On what is tentative, in one view; none where such outcomes do not count.
    pub tentative: Option<usize>,
}

impl Needed<'_> {
    fn weight_of<'a>(&self, replicas: impl IntoIterator<Item = &'a ReplicaId>) -> usize {
        let weight = |id: &ReplicaId| self.weights.get(id.index()).copied().unwrap_or(0);
        replicas.into_iter().map(weight).sum()
    }
}

/// What replicas say became of one frame: at most one vote each, the last they sent; and one
/// tentative vote each.
///
/// Of all the outcomes claimed only one is kept whole and the others as digests, so that lying
/// replicas fill no more memory than a correct one. While all agree nothing is hashed.
#[derive(Debug, Default)]
pub(super) struct Votes {
    whole: Option<Outcome>,
    /// Who says `whole`.
    same: Vec<ReplicaId>,
    /// Who says something else.
    others: Vec<(ReplicaId, Digest)>,
    /// Tentative outcomes: the replica, the view, and the digest of the outcome.
    tentative: Vec<(ReplicaId, View, Digest)>,
}

fn digest_of(outcome: &Outcome) -> Digest {
    Digest::of("quorate outcome", &outcome.to_bytes())
}

impl Votes {
    /// Counts `from`'s vote; the outcome, if enough replicas now agree on it.
    pub(super) fn add(
        &mut self,
        from: ReplicaId,
        outcome: Outcome,
        needed: Needed<'_>,
    ) -> Option<Outcome> {
        if needed.committed <= 1 {
            return Some(outcome);
        }
        self.withdraw(from);
        let same = if self.whole.is_none() && self.others.is_empty() {
            self.whole = Some(outcome.clone());
            self.same.push(from);
            needed.weight_of([&from])
        } else if self.whole.as_ref() == Some(&outcome) {
            self.same.push(from);
            needed.weight_of(&self.same)
        } else {
            let digest = digest_of(&outcome);
            self.others.push((from, digest));
            let alike = self.others.iter().filter(|(_, other)| *other == digest);
            needed.weight_of(alike.map(|(voter, _)| voter))
        };
        let is_believed = same >= needed.committed
            || needed.tentative.is_some_and(|enough| {
                let views: BTreeSet<View> =
                    self.tentative.iter().map(|(_, view, _)| *view).collect();
                views.into_iter().any(|view| self.agreeing(view, &outcome, needed) >= enough)
            });
        is_believed.then_some(outcome)
    }

    /// Counts `from`'s tentative vote; the outcome, if enough replicas now agree on it.
    pub(super) fn add_tentative(
        &mut self,
        from: ReplicaId,
        view: View,
        outcome: Outcome,
        needed: Needed<'_>,
    ) -> Option<Outcome> {
        let enough = needed.tentative?;
        self.tentative.retain(|(voter, ..)| *voter != from);
        self.tentative.push((from, view, digest_of(&outcome)));
        (self.agreeing(view, &outcome, needed) >= enough).then_some(outcome)
    }

    /// How much the replicas count that say so, tentatively in a view or of what is committed:
    /// whoever says that it is committed could have said it of any view.
    fn agreeing(&self, view: View, outcome: &Outcome, needed: Needed<'_>) -> usize {
        let digest = digest_of(outcome);
        let tentative = self.tentative.iter();
        let tentative = tentative.filter(|(_, of, said)| {
            planted!("tentative-answers-of-any-view", true, *of == view) && *said == digest
        });
        let same = self.same.iter().filter(|_| self.whole.as_ref() == Some(outcome));
        let others = self.others.iter().filter(|(_, said)| *said == digest);
        let voters: BTreeSet<ReplicaId> = tentative
            .map(|(voter, ..)| *voter)
            .chain(same.copied())
            .chain(others.map(|(voter, _)| *voter))
            .collect();
        needed.weight_of(&voters)
    }

    /// Only these replicas' votes count any more.
    pub(super) fn keep(&mut self, stays: impl Fn(ReplicaId) -> bool) {
        self.same.retain(|voter| stays(*voter));
        self.others.retain(|(voter, _)| stays(*voter));
        self.tentative.retain(|(voter, ..)| stays(*voter));
        if self.same.is_empty() {
            self.whole = None;
        }
    }

    fn withdraw(&mut self, from: ReplicaId) {
        self.others.retain(|(voter, _)| *voter != from);
        self.same.retain(|voter| *voter != from);
        if self.same.is_empty() {
            self.whole = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::types::{Sequence, SessionId};

    /// Four replicas, of which one may lie.
    const NEEDED: Needed<'static> = Needed { weights: &[1; 4], committed: 2, tentative: Some(3) };

    fn outcome(reply: u8) -> Outcome {
        let (session, first) = (SessionId(1), Sequence(1));
        Outcome::Executed { session, first, count: 1, replies: vec![1, 0, 0, 0, reply].into() }
    }

    /// Takes in votes: a replica, its reply, and a view (0 for a committed outcome). Returns the
    /// number of votes after which an outcome is believed, and that outcome.
    fn believed_after(said: &[(u16, u8, u64)], needed: Needed<'_>) -> Option<(usize, Outcome)> {
        let mut votes = Votes::default();
        said.iter().enumerate().find_map(|(at, (from, reply, view))| {
            let (from, outcome) = (ReplicaId(*from), outcome(*reply));
            let believed = match view {
                0 => votes.add(from, outcome, needed),
                view => votes.add_tentative(from, View(*view), outcome, needed),
            };
            Some((at + 1, believed?))
        })
    }

    #[test]
    fn a_quorum_of_one_view_is_believed() {
        let said = [(0, 5, 1), (1, 5, 1), (2, 5, 1)];
        assert_eq!(believed_after(&said, NEEDED), Some((3, outcome(5))));
        // One says it twice, one says something else, one says it of another view.
        for third in [(1, 5, 1), (2, 6, 1), (2, 5, 2)] {
            assert_eq!(believed_after(&[(0, 5, 1), (1, 5, 1), third], NEEDED), None);
        }
        // The others come to that view.
        let said = [(0, 5, 1), (1, 5, 1), (2, 5, 2), (3, 5, 2), (0, 5, 2)];
        assert_eq!(believed_after(&said, NEEDED), Some((5, outcome(5))));
    }

    #[test]
    fn what_is_committed_counts_for_every_view() {
        let said = [(0, 5, 1), (1, 5, 1), (2, 5, 0)];
        assert_eq!(believed_after(&said, NEEDED), Some((3, outcome(5))));
        let said = [(2, 5, 0), (0, 5, 7), (1, 5, 7)];
        assert_eq!(believed_after(&said, NEEDED), Some((3, outcome(5))));
        // It is one replica all the same.
        let said = [(2, 5, 0), (2, 5, 7), (1, 5, 7)];
        assert_eq!(believed_after(&said, NEEDED), None);
        let said = [(2, 6, 0), (0, 5, 7), (1, 5, 7)];
        assert_eq!(believed_after(&said, NEEDED), None);
        assert_eq!(believed_after(&[(2, 5, 0), (0, 5, 0)], NEEDED), Some((2, outcome(5))));
    }

    #[test]
    fn without_the_option_no_tentative_outcome_counts() {
        let needed = Needed { tentative: None, ..NEEDED };
        let said = [(0, 5, 1), (1, 5, 1), (2, 5, 1), (3, 5, 1), (0, 5, 0)];
        assert_eq!(believed_after(&said, needed), None);
    }

    #[test]
    fn who_weighs_more_counts_for_more_and_learners_for_nothing() {
        // n = 9, f = 2: replica 0 alone is enough, 1 and 2 together are not, 4 counts for nothing.
        let needed = Needed { weights: &[5, 1, 1, 2, 0], committed: 3, tentative: None };
        assert_eq!(believed_after(&[(0, 5, 0)], needed), Some((1, outcome(5))));
        assert_eq!(believed_after(&[(1, 5, 0), (2, 5, 0), (4, 5, 0)], needed), None);
        assert_eq!(
            believed_after(&[(4, 5, 0), (1, 5, 0), (3, 5, 0)], needed),
            Some((3, outcome(5)))
        );
    }
}
