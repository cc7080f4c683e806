//! Transactions that spend outputs of pending ones, in vertices that stand on no vertex with them.
//!
//! The white paper orders a transaction after those whose outputs it spends. One whose dependency
//! is rejected can never be accepted; what stands on it is issued again, with new parents. Here
//! [`reject`](Dag::reject) does so for all that is in memory. Two things escape it:
//!
//! - The dependency may lose to a rival that is never decided, or may not be known to others at
//!   all. The graph does not show it: a spender without a rival looks virtuous, and payments would
//!   vouch for it. So a dependency that no parent has counts as a risk until it is accepted, as an
//!   ancestor with a rival does. Correct nodes name a vertex with it as a parent, or have accepted
//!   it: then this node soon does, too.
//! - The dependency may be forgotten for want of room before its rival is accepted. Nothing rejects
//!   its spenders then: they would stay for ever, and whatever stands on them. So they are
//!   forgotten with it, descendants included. They were not rejected, and may come again, behind
//!   what they spend.
//!
//! To refuse such vertices would be wrong: whoever accepted the dependency earlier does not name
//! it.

use std::collections::BTreeSet;

use super::super::names::TransactionId;
use super::super::state::Fate;
use super::super::vertex::Transaction;
use super::Dag;

impl<T: Transaction> Dag<T> {
    /// Notes what a new vertex spends outputs of, and does not stand on.
    pub(super) fn note_strays(&mut self, at: u32) {
        let mut strays = BTreeSet::new();
        let of = self.slots[at].transactions.iter().flatten();
        for tx in of.filter(|tx| self.txs[**tx].fate == Fate::Pending) {
            for input in self.transaction(*tx).inputs() {
                if let Some(on) = self.transactions.get(&input.transaction)
                    && self.txs[*on].fate == Fate::Pending
                {
                    strays.insert((*on, input.transaction));
                }
            }
        }
        if strays.is_empty() {
            return;
        }
        let parents = self.slots[at].parents.iter().map(|parent| &self.slots[*parent]);
        let below = parents.flat_map(|parent| parent.transactions.iter().flatten().copied());
        let below: BTreeSet<u32> = below.collect();
        strays.retain(|(on, _)| planted!("avalanche-stray-parents", false, !below.contains(on)));
        for (_, id) in strays {
            self.strays.entry(id).or_default().push(at);
            self.slots[at].strays.push(id);
            self.endanger(at);
        }
    }

    /// A transaction is accepted.
    pub(super) fn is_found(&mut self, id: &TransactionId) {
        for at in self.strays.remove(id).into_iter().flatten() {
            self.slots[at].strays.retain(|stray| stray != id);
            self.calm(at);
        }
    }

    /// A vertex leaves memory.
    pub(super) fn leave_strays(&mut self, at: u32) {
        for id in std::mem::take(&mut self.slots[at].strays) {
            if let Some(spenders) = self.strays.get_mut(&id) {
                spenders.retain(|spender| *spender != at);
                if spenders.is_empty() {
                    self.strays.remove(&id);
                }
            }
        }
    }
}
