//! When an outcome is believed: f + 1 replicas say exactly the same, so a correct one does.

use crate::base::types::{Digest, ReplicaId};
use crate::base::wire::Encode;
use crate::ledger::message::Outcome;

/// What replicas say became of one frame: at most one vote each, the last they sent.
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
}

impl Votes {
    /// Counts `from`'s vote; the outcome, if `needed` replicas now agree on it.
    pub(super) fn add(
        &mut self,
        from: ReplicaId,
        outcome: Outcome,
        needed: usize,
    ) -> Option<Outcome> {
        if needed <= 1 {
            return Some(outcome);
        }
        self.withdraw(from);
        if self.whole.is_none() && self.others.is_empty() {
            self.whole = Some(outcome);
            self.same.push(from);
            return None;
        }
        if self.whole.as_ref() == Some(&outcome) {
            self.same.push(from);
            return (self.same.len() >= needed).then_some(outcome);
        }
        let digest = Digest::of("quorate outcome", &outcome.to_bytes());
        self.others.push((from, digest));
        let agreeing = self.others.iter().filter(|(_, other)| *other == digest).count();
        (agreeing >= needed).then_some(outcome)
    }

    fn withdraw(&mut self, from: ReplicaId) {
        self.others.retain(|(voter, _)| *voter != from);
        self.same.retain(|voter| *voter != from);
        if self.same.is_empty() {
            self.whole = None;
        }
    }
}
