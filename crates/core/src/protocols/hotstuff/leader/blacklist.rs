//! The leaders that failed last, from what the chain shows.
//!
//! Veronese, Correia, Bessani, Lung, *Spin One's Wheels? Byzantine Fault Tolerance with a Spinning
//! Primary*, SRDS 2009, and Stathakopoulou, Pavlovic, Vukolić, *State-Machine Replication
//! Scalability Made Simple* (ISS), EuroSys 2022, leader selection policy BLACKLIST: at most the f
//! replicas that failed last as leaders are left out, so that n − f are left.
//!
//! Every view has an order of candidates; its leader is the first of them who is not listed. Who is
//! listed is read off a bounded piece of the chain, oldest block first:
//!
//! - **the proposer of a block led**: it is taken off the list;
//! - **those before it in the order of its view were passed over**: they were listed then, and
//!   still are. So the chain remembers a replica for as long as it stays on the list, though the
//!   view in which it failed is long out of sight;
//! - **a view without a block failed**: who led it is computed from the list as it was then, and
//!   joins the list. Up to 2f such views in a row put all their leaders on it, the last of whom
//!   stay. (One liar can spoil two views, its own and the one whose votes it collects.) More of
//!   them say that the network failed, and list nobody.
//!
//! **Nobody's place on the list depends on the start of the piece.** Let A be the list by which a
//! view was led and M that which a later election computes for the same view from a shorter piece:
//! M ⊆ A. For M begins empty; a block takes the same replica off both and shows members of A only;
//! and in a lost view the first candidate outside M is either the first outside A, who led, or in
//! A. Hence a correct replica that is not listed and whose views succeed does not become listed,
//! whatever liars let fail. (While more than f replicas are listed one after another, correct ones
//! have failed too, the oldest place is given up, and M may have one more than A until those places
//! are filled anew.)
//!
//! **Second chances.** In every [`period`]-th view the list does not count: whoever is first leads,
//! and is off the list if its block is certified. A liar that behaves then and fails in its next
//! view costs one view a chance, as one that never behaves does.

use std::ops::Range;

use super::order::Order;
use crate::base::types::{ReplicaId, View};

/// In every so-many-th view the list does not count: about one view in 2,048 for each replica.
pub(super) const fn period(replicas: usize) -> u64 {
    let share = 2048 / if replicas == 0 { 1 } else { replicas as u64 };
    if share < 64 { 64 } else { share }
}

/// The replicas that failed last, at most f, the latest last.
#[derive(Clone, Debug)]
pub(super) struct Blacklist {
    replicas: usize,
    most: usize,
    listed: Vec<ReplicaId>,
}

impl Blacklist {
    /// The empty list of `replicas` replicas, `faults` of which may be listed.
    pub(super) fn new(replicas: usize, faults: usize) -> Self {
        Self { replicas, most: faults, listed: Vec::with_capacity(faults + 1) }
    }

    /// Who leads `view` of those in `order`: the first who is not listed, or the first of all.
    pub(super) fn leader(&self, view: View, order: &Order) -> Option<ReplicaId> {
        let counts = !view.0.is_multiple_of(period(self.replicas));
        let free = |candidate: &ReplicaId| !counts || !self.listed.contains(candidate);
        order.candidates().find(free).or_else(|| order.candidates().next())
    }

    /// Takes in that `proposer`'s block of `view` is in the chain.
    pub(super) fn led(&mut self, view: View, order: &Order, proposer: ReplicaId) {
        if !view.0.is_multiple_of(period(self.replicas)) && order.has(proposer) {
            for passed_over in order.candidates().take_while(|it| *it != proposer) {
                self.put(passed_over);
            }
        }
        self.listed.retain(|it| *it != proposer);
    }

    /// The list in the view behind `lost`, views in a row that left no block, `order` saying who
    /// was to lead each. After more than two rounds of them the list is empty: nothing but turns
    /// counts.
    pub(super) fn after(&self, lost: Range<u64>, order: impl Fn(View) -> Order) -> Self {
        let mut list = self.clone();
        if lost.end - lost.start > 2 * self.replicas as u64 {
            list.listed.clear();
            return list;
        }
        for view in lost.map(View) {
            if let Some(leader) = list.leader(view, &order(view)) {
                list.put(leader);
            }
        }
        list
    }

    /// Takes in that the views `lost` left no block.
    pub(super) fn failed(&mut self, lost: Range<u64>, order: impl Fn(View) -> Order) {
        if lost.end - lost.start <= 2 * self.most as u64 {
            *self = self.after(lost, order);
        }
    }

    fn put(&mut self, replica: ReplicaId) {
        self.listed.retain(|it| *it != replica);
        self.listed.push(replica);
        if self.listed.len() > self.most {
            self.listed.remove(0);
        }
    }
}
