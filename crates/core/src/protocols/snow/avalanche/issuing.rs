//! Vertices of this node: its clients' transactions, and no-ops.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Avalanche;
use super::dag::inserting::Insertion;
use super::interface::{Effects, NotTaken, Output, Past};
use super::names::{InputId, TransactionId, VertexId};
use super::state::Fate;
use super::vertex::{MAX_INPUTS, MAX_PARENTS, Transaction, Vertex};
use crate::base::types::{Duration, Time};

/// How much longer nodes without pending transactions of their own wait with a no-op: at least so
/// many times, and up to as many times more as there are nodes, at most [`MOST`].
const OTHERS: u32 = 8;
const MOST: u64 = 4096;
/// Vertices whose polls were lost that are asked about again with a no-op.
const AGAIN: usize = 4;
/// The longest wait for a no-op, in times of the first.
const BACK_OFF: u32 = 64;

impl<T: Transaction> Avalanche<T> {
    /// Takes transactions of clients.
    pub(super) fn submit(&mut self, all: Vec<T>, past: &dyn Past, fx: &mut Effects<T>) {
        for transaction in all {
            let id = transaction.id();
            match self.may_submit(&transaction, past) {
                Ok(()) => self.own.add(id, transaction),
                Err(reason) => fx.output(Output::NotTaken { transaction: id, reason }),
            }
        }
    }

    fn may_submit(&self, transaction: &T, past: &dyn Past) -> Result<(), NotTaken> {
        let (id, inputs) = (transaction.id(), transaction.inputs());
        let mut sorted = inputs.to_vec();
        sorted.sort_unstable();
        if inputs.len() > MAX_INPUTS || sorted.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(NotTaken::Malformed);
        }
        if self.own.has(&id) || past.has_transaction(&id) {
            return Err(NotTaken::Known);
        }
        for input in inputs {
            if let Some(by) = past.spender(input) {
                return Err(NotTaken::Spent { input: *input, by });
            }
            let of = &input.transaction;
            let pending = self.dag.fate(of).is_some_and(|fate| fate != Fate::Rejected);
            if !(pending || self.own.has(of) || past.has_transaction(of)) {
                return Err(NotTaken::Unknown(*input));
            }
        }
        if !self.own.may_add(transaction, &self.settings.limits) {
            return Err(NotTaken::Busy);
        }
        Ok(())
    }

    /// Issues what waits, as long as few own vertices are under way: what waits while they are is
    /// the next batch.
    pub(super) fn issue(&mut self, now: Time, past: &dyn Past, fx: &mut Effects<T>) {
        while !self.own.unissued.is_empty() && self.polls.own < self.settings.own_polls {
            let (ids, extra) = self.batch(now, past);
            if ids.is_empty() {
                return;
            }
            let parents = self.parents(extra);
            let found = ids.iter().filter_map(|id| self.own.get(id).cloned()).collect();
            let vertex = Arc::new(Vertex::new(parents, found));
            if self.is_known(&vertex)
                || !matches!(self.insert(now, &vertex, None, past, fx), Insertion::At(_))
            {
                // No room, or nothing new to vouch for: once more, soon.
                let soon = now.after(self.settings.stuck_after);
                ids.iter().for_each(|id| self.own.again_at(id, soon));
                return;
            }
            self.counts.issued += 1;
            for id in ids {
                let again = self.own.issued(&id, now, self.settings.stuck_after);
                self.counts.reissued += u64::from(again);
            }
        }
    }

    /// Takes the transactions of the next vertex from those that wait, and names the vertices that
    /// have what they spend. One with a rival goes alone, and none with what it spends. What spends
    /// something that is not known any more is looked at again later.
    fn batch(&mut self, now: Time, past: &dyn Past) -> (Vec<TransactionId>, BTreeSet<VertexId>) {
        let (mut taken, mut extra, mut left) = (Vec::new(), BTreeSet::new(), Vec::new());
        let mut spent = BTreeSet::<InputId>::new();
        while let Some(id) = self.own.unissued.pop_front() {
            let Some(transaction) = self.own.get(&id).cloned() else { continue };
            let inputs = transaction.inputs();
            let mut needed = extra.clone();
            let ready = self.needs(&transaction, past, &mut needed);
            if !ready && inputs.iter().any(|input| self.is_lost(&input.transaction, past)) {
                self.own.again_at(&id, now.after(self.settings.stuck_after));
                continue;
            }
            let rival = self.dag.has_rival(&transaction);
            let twice = inputs.iter().any(|input| spent.contains(input));
            let above = inputs.iter().any(|input| taken.contains(&input.transaction));
            let output = |index| InputId { transaction: id, index };
            let below = spent.range(output(0)..=output(u32::MAX)).next().is_some();
            let alone = !rival || taken.is_empty();
            let apart = !twice && !above && !below;
            if !ready || needed.len() > MAX_PARENTS || !apart || !alone {
                left.push(id);
            } else {
                spent.extend(inputs.iter().copied());
                taken.push(id);
                extra = needed;
                if rival || taken.len() == self.settings.batch {
                    break;
                }
            }
        }
        for id in left.into_iter().rev() {
            self.own.unissued.push_front(id);
        }
        (taken, extra)
    }

    /// Whether a transaction was forgotten, and does not wait for a vertex of this node: an own one
    /// that rests on a lost one is lost, too.
    pub(super) fn is_lost(&self, id: &TransactionId, past: &dyn Past) -> bool {
        self.dag.fate(id).is_none() && !self.own.waits(id) && !past.has_transaction(id)
    }

    /// Whether all that it spends is accepted, or in the graph where something may stand on it;
    /// adds the vertices in question.
    fn needs(&mut self, transaction: &T, past: &dyn Past, into: &mut BTreeSet<VertexId>) -> bool {
        transaction.inputs().iter().all(|input| {
            let of = &input.transaction;
            let Some(tx) = self.dag.transactions.get(of).copied() else {
                return past.has_transaction(of);
            };
            let mut homes = self.dag.homes(tx);
            homes.retain(|home| !self.dag.is_too_deep(*home));
            let strong = homes.iter().find(|home| self.dag.strongly_prefers(**home));
            let home = strong.or(homes.first());
            into.extend(home.map(|home| self.dag.id(*home)));
            home.is_some() && self.dag.txs[tx].fate != Fate::Rejected
        })
    }

    fn parents(&mut self, extra: BTreeSet<VertexId>) -> Vec<VertexId> {
        let most = self.settings.parents.min(MAX_PARENTS - extra.len().min(MAX_PARENTS));
        let drawn = self.dag.choose_parents(most, &mut self.random);
        let drawn: Vec<_> = drawn.into_iter().map(|at| self.dag.id(at)).collect();
        Vec::from_iter(extra.into_iter().chain(drawn).collect::<BTreeSet<_>>())
    }

    /// Whether a vertex is in memory. If its poll was lost, it is asked about again: others had no
    /// room for it, and there is nothing else to vouch for.
    fn is_known(&mut self, vertex: &Vertex<T>) -> bool {
        let at = self.dag.vertices.get(&vertex.id()).copied();
        if let Some(at) = at.filter(|at| self.dag.slots[*at].is_vain()) {
            self.ask_again(at, true);
        }
        at.is_some()
    }

    fn ask_again(&mut self, at: u32, own: bool) {
        self.dag.is_open(at);
        self.polls.wait(self.dag.id(at), own, 0);
        self.polls.own += usize::from(own);
    }

    /// Looks at those of this node's transactions that are stuck. One without a rival is issued
    /// again; one whose rival is preferred is not: its owner has spent twice.
    pub(super) fn wake_stuck(&mut self, now: Time, past: &dyn Past) {
        for id in self.own.stuck(now) {
            let tx = self.dag.transactions.get(&id).copied();
            let waits = tx.is_some_and(|tx| {
                self.dag.txs[tx].disliked > 0 || self.dag.pending_dependency(tx, past).is_some()
            });
            if waits {
                self.own.later(&id, now, self.settings.stuck_after);
            } else {
                self.own.again(&id);
            }
        }
    }

    /// How long this node waits with a no-op.
    fn no_op_wait(&mut self) -> Duration {
        let wait = self.own.no_op_wait;
        if self.own.len() > 0 {
            return wait;
        }
        let nodes = (self.electorate.nodes() as u64).min(MOST);
        wait * (OTHERS + self.random.below(u64::from(OTHERS) + nodes) as u32)
    }

    pub(super) fn await_no_op(&mut self, now: Time) {
        self.own.no_op_at = Some(now.after(self.no_op_wait()));
    }

    /// Issues a no-op if it is due and something may come of it.
    pub(super) fn no_op(&mut self, now: Time, past: &dyn Past, fx: &mut Effects<T>) {
        if self.dag.pending == 0 || self.own.no_op_at.is_none_or(|due| now < due) {
            return;
        }
        // A no-op is worth none of its own.
        let hopeful = self.dag.slots.iter().any(|(_, slot)| {
            slot.undecided > 0 && slot.weak == 0 && (slot.risky == 0 || slot.chits > 0)
        });
        if !hopeful {
            self.own.no_op_at = None;
            return;
        }
        let risky = self.choose_risky();
        let rest = self.own.last_vertex.after(self.own.no_op_wait);
        if risky.is_none() && now < rest {
            // Others' vertices do.
            self.own.no_op_at = Some(rest.max(now.after(self.own.no_op_wait / 4)));
            return;
        }
        // Others may have had no room for them when they were asked, and nothing stands on them.
        for at in self.dag.choose_vain(AGAIN, &mut self.random) {
            self.ask_again(at, false);
        }
        let longest = self.settings.no_op_after * BACK_OFF;
        self.own.no_op_wait = (self.own.no_op_wait * 2).min(longest);
        self.await_no_op(now);
        if self.polls.own >= self.settings.own_polls {
            return;
        }
        let parents = match risky {
            Some(tip) => vec![self.dag.id(tip)],
            None => self.parents(BTreeSet::new()),
        };
        let vertex = Arc::new(Vertex::new(parents, Vec::new()));
        if !self.is_known(&vertex)
            && !vertex.parents().is_empty()
            && matches!(self.insert(now, &vertex, None, past, fx), Insertion::At(_))
        {
            self.counts.no_ops += 1;
        }
    }

    /// A rival to help, if it is this node's turn: always if it is of a client of its own.
    fn choose_risky(&mut self) -> Option<u32> {
        let mut own = self.own.ids().filter_map(|id| self.dag.transactions.get(id));
        let mine = own.any(|tx| self.dag.txs[*tx].rival);
        let turn = mine || self.random.below(8) == 0;
        turn.then(|| self.dag.choose_risky(&mut self.random)).flatten()
    }
}
