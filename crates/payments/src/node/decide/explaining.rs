//! What is known of a transaction: for wallets that ask, and over HTTP.

use std::collections::{HashMap, VecDeque};

use quorate_core::protocols::snow::avalanche::{Conflict, Past as _};

use super::super::attend::say;
use super::super::past::explanation;
use super::super::{Asker, Known};
use super::Decider;
use crate::ask::Answer;
use crate::transaction::TransactionId;

/// Rejected transactions that are remembered.
const MOST: usize = 4096;

/// Why transactions were rejected lately. Whoever spends an output twice can make any number of
/// them, so the oldest are forgotten.
#[derive(Debug, Default)]
pub(super) struct Rejected {
    reasons: HashMap<TransactionId, Conflict>,
    order: VecDeque<TransactionId>,
}

impl Rejected {
    pub(super) fn note(&mut self, id: TransactionId, reason: Conflict) {
        if self.reasons.insert(id, reason).is_none() {
            self.order.push_back(id);
        }
        if self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.reasons.remove(&oldest);
        }
    }
}

/// Why a transaction is rejected, for people.
pub(super) fn reason_of(reason: &Conflict) -> String {
    match reason {
        Conflict::Spent { input, by } => format!("{by} spent the output {input}"),
        Conflict::Unfounded(of) => format!("it rests on {of}, which was rejected"),
    }
}

impl Decider {
    /// Says what is known of a transaction.
    pub(super) fn explain(&self, id: &TransactionId, asker: Asker) {
        let known = if self.past.has_transaction(id) {
            Known { state: "accepted", why: "it is accepted, and durable here".to_owned() }
        } else if let Some(why) = self.protocol.why(id, &self.past) {
            Known { state: "pending", why: explanation(&why) }
        } else if let Some(reason) = self.rejected.reasons.get(id) {
            Known { state: "rejected", why: reason_of(reason) }
        } else {
            let why = "this node knows no such transaction: it never came here, or it was rejected \
                       long ago; other nodes may know it";
            Known { state: "unknown", why: why.to_owned() }
        };
        match asker {
            Asker::Wallet(connection, number) => {
                let answer = Answer::Status(known.state.to_owned(), known.why);
                say(&self.shared, connection, number, &answer);
            }
            // A reader that has gone needs no answer.
            Asker::Reader(reader) => drop(reader.send(known)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_core::Digest;

    #[test]
    fn the_last_rejected_ones_are_remembered_with_the_reason() {
        let mut rejected = Rejected::default();
        let id = |n: u64| TransactionId(Digest::of("rejected", &n.to_le_bytes()));
        for n in 0..3 * MOST as u64 {
            // Once more is no second place.
            (0..2).for_each(|_| rejected.note(id(n), Conflict::Unfounded(id(n + 1))));
        }
        assert_eq!((rejected.reasons.len(), rejected.order.len()), (MOST, MOST));
        assert!(!rejected.reasons.contains_key(&id(0)));
        let last = rejected.reasons[&id(3 * MOST as u64 - 1)];
        assert!(reason_of(&last).contains("which was rejected"), "{last:?}");
    }
}
