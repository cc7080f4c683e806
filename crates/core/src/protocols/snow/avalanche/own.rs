//! The transactions of this node's clients, until they are decided.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::names::{InputId, TransactionId};
use super::settings::Limits;
use super::vertex::Transaction;
use crate::base::types::{Digest, Duration, Time};

/// All together weigh this part of what vertices in memory may.
const ALL: usize = 4;
/// Ends of the order of names.
const FIRST: TransactionId = TransactionId(Digest([0; 32]));
const LAST: TransactionId = TransactionId(Digest([255; 32]));
/// The most doublings of the time after which a transaction is issued again.
const DOUBLINGS: u32 = 5;

/// One of them.
#[derive(Clone, Debug)]
struct Mine<T> {
    transaction: T,
    due: Option<Time>,
    issued: u32,
}

/// All of them.
#[derive(Clone, Debug)]
pub(super) struct Own<T> {
    mine: BTreeMap<TransactionId, Mine<T>>,
    /// Which of them spend an output.
    spent: BTreeSet<(InputId, TransactionId)>,
    weight: usize,
    /// Those that wait for a vertex.
    pub(super) unissued: VecDeque<TransactionId>,
    due: BTreeSet<(Time, TransactionId)>,
    pub(super) no_op_at: Option<Time>,
    /// When the last vertex came.
    pub(super) last_vertex: Time,
    pub(super) no_op_wait: Duration,
}

impl<T: Transaction> Own<T> {
    pub(super) fn new(no_op_wait: Duration) -> Self {
        Self {
            mine: BTreeMap::new(),
            spent: BTreeSet::new(),
            weight: 0,
            unissued: VecDeque::new(),
            due: BTreeSet::new(),
            no_op_at: None,
            last_vertex: Time(0),
            no_op_wait,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.mine.len()
    }

    /// Whether there is room for one more.
    pub(super) fn may_add(&self, transaction: &T, limits: &Limits) -> bool {
        let weight = self.weight + transaction.weight();
        self.mine.len() < limits.own
            && planted!("avalanche-own-weigh-nothing", true, weight <= limits.weight / ALL)
    }

    /// Which of them spend an output.
    pub(super) fn spenders(&self, input: &InputId) -> impl Iterator<Item = TransactionId> {
        self.spent.range((*input, FIRST)..=(*input, LAST)).map(|(_, id)| *id)
    }

    /// Which of them spend an output of this one; some more than once.
    pub(super) fn resting_on(&self, on: &TransactionId) -> impl Iterator<Item = TransactionId> {
        let output = |index| InputId { transaction: *on, index };
        let all = (output(0), FIRST)..=(output(u32::MAX), LAST);
        self.spent.range(all).map(|(_, id)| *id)
    }

    pub(super) fn has(&self, id: &TransactionId) -> bool {
        self.mine.contains_key(id)
    }

    pub(super) fn get(&self, id: &TransactionId) -> Option<&T> {
        self.mine.get(id).map(|mine| &mine.transaction)
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = &TransactionId> {
        self.mine.keys()
    }

    pub(super) fn waits(&self, id: &TransactionId) -> bool {
        self.mine.get(id).is_some_and(|mine| mine.due.is_none())
    }

    pub(super) fn add(&mut self, id: TransactionId, transaction: T) {
        self.weight += transaction.weight();
        for input in transaction.inputs() {
            self.spent.insert((*input, id));
        }
        self.mine.insert(id, Mine { transaction, due: None, issued: 0 });
        self.unissued.push_back(id);
    }

    /// It is in a vertex now; `stuck_after` that it counts as stuck.
    pub(super) fn issued(&mut self, id: &TransactionId, now: Time, stuck_after: Duration) -> bool {
        let Some(mine) = self.mine.get_mut(id) else { return false };
        let due = now.after(stuck_after * (1 << mine.issued.min(DOUBLINGS)));
        mine.due = Some(due);
        mine.issued += 1;
        self.due.insert((due, *id));
        mine.issued > 1
    }

    pub(super) fn decided(&mut self, id: &TransactionId) {
        let Some(Mine { transaction, due, .. }) = self.mine.remove(id) else { return };
        self.weight -= transaction.weight();
        for input in transaction.inputs() {
            self.spent.remove(&(*input, *id));
        }
        if let Some(due) = due {
            self.due.remove(&(due, *id));
        }
    }

    /// It is in no vertex any more, or is stuck: it waits for another one.
    pub(super) fn again(&mut self, id: &TransactionId) {
        if let Some(mine) = self.mine.get_mut(id)
            && let Some(due) = mine.due.take()
        {
            self.due.remove(&(due, *id));
            self.unissued.push_back(*id);
        }
    }

    /// It waits for others, and is looked at again later.
    pub(super) fn later(&mut self, id: &TransactionId, now: Time, stuck_after: Duration) {
        self.again_at(id, now.after(stuck_after * (1 << DOUBLINGS)));
    }

    /// It is not issued now, but looked at again then.
    pub(super) fn again_at(&mut self, id: &TransactionId, due: Time) {
        if let Some(mine) = self.mine.get_mut(id) {
            if let Some(before) = mine.due.replace(due) {
                self.due.remove(&(before, *id));
            }
            self.due.insert((due, *id));
        }
    }

    pub(super) fn stuck(&self, now: Time) -> Vec<TransactionId> {
        self.due.iter().take_while(|(due, _)| *due <= now).map(|(_, id)| *id).collect()
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.due.first().map(|(due, _)| *due)
    }

    /// A poll succeeded: no-ops help.
    pub(super) fn progress(&mut self, no_op_after: Duration) {
        self.no_op_wait = no_op_after;
    }
}
