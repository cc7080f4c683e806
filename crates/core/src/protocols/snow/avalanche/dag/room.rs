//! Whose vertices take how much memory, and which give way.
//!
//! A pending vertex is billed to the peer that brought it first. A peer beyond its share makes room
//! with its own vertices; where memory is short, those with the most make room.
//!
//! What this node prefers is not forgotten: its answers are what others count. So only three kinds
//! of vertices give way, and all are without children: those that are not strongly preferred; those
//! that have waited and are preferred [in vain](Slot::is_vain); and those that have waited for long
//! and have no pending transaction that is in them alone. To forget the second cannot undo what
//! others accepted. They accept a transaction after successful polls of it and its descendants: so
//! nearly all nodes prefer these, and a poll of one of them succeeds here.
//!
//! **The valve.** A faulty node may hand its payments to each correct one, which pass them on. Then
//! the shares of correct nodes are full of what is not theirs, and without polls nothing of it ever
//! settles. So where nothing has settled for long, some vertices a second come in nevertheless, of
//! each peer, into a reserve: those that help to settle something, or may settle themselves
//! ([`Dag::is_worthy`]). A correct node asks about its own first (`polls::Polls::wait`), so its own
//! pass its valve first.

use std::cmp::Reverse;

use super::super::interface::Past;
use super::super::settings::Limits;
use super::super::state::{Fate, Leaf, Slot};
use super::super::vertex::{Transaction, Vertex};
use super::Dag;
use crate::base::types::{Duration, ReplicaId, Time};

/// The largest share of a peer, and what is kept for this node's own: one of so many parts.
const SHARES: usize = 16;
/// The smallest share: one of so many.
const LEAST: usize = 256;
/// How long a vertex that is strongly preferred waits before it may give way, and how long the
/// oldest one waits before the valve opens.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long one that is preferred in vain waits.
const VAIN: Duration = Duration::from_secs(2);
/// The most vertices that give way to one.
const VICTIMS: usize = 64;
/// Vertices of a peer that pass its valve in a second: some times what a node without room for its
/// own payments issues.
const VALVE: u32 = 16;
/// The reserve of all valves together: so many of the largest shares.
const VALVES: usize = 3;
/// Beyond its share a peer has one of so many parts of it for what passes its valve.
const RESERVE: usize = 4;

/// Vertices that are to give way, and their weight.
#[derive(Clone, Debug, Default)]
struct Victims {
    all: Vec<u32>,
    weight: usize,
}

/// A vertex that is to come in.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Newcomer<'a> {
    /// The peer that brings it; none if it is this node's own.
    pub(in super::super) from: Option<ReplicaId>,
    /// The stake of the peer, and of all nodes.
    pub(in super::super) stake: (u64, u64),
    pub(in super::super) weight: usize,
    /// Its parents in memory.
    pub(in super::super) parents: &'a [u32],
    /// Whether it may pass a valve: it is [worthy](Dag::is_worthy).
    pub(in super::super) worthy: bool,
    pub(in super::super) now: Time,
}

/// How a vertex comes in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Room {
    /// There is room.
    There,
    /// There is room behind the valve.
    Valve,
    /// When these have given way; the first first.
    Behind(Vec<u32>),
    None,
}

impl<T: Transaction> Dag<T> {
    /// Whether there is room for a vertex, and what gives way to it.
    pub(in super::super) fn room(&self, of: &Newcomer<'_>) -> Room {
        let opens = self.may_pass(of);
        let mut taken = (Victims::default(), false);
        if planted!("avalanche-peers-not-billed", false, of.from.is_some()) {
            let (share, heavy_share) =
                (of.share(self.limits.vertices), of.share(self.limits.weight));
            let bill = self.bills.get(&of.from).copied().unwrap_or_default();
            let fits = |victims: &Victims, by_valve: bool| {
                let (more, heavy_more) = match by_valve {
                    true => (share.div_ceil(RESERVE), heavy_share / RESERVE),
                    false => (0, 0),
                };
                let weight = bill.weight - victims.weight + of.weight;
                // The first may be as heavy as any.
                match bill.vertices - victims.all.len() {
                    0 => true,
                    left => left < share + more && weight <= heavy_share + heavy_more,
                }
            };
            match self.fit(taken, &[of.from], of, opens, fits) {
                Some(found) => taken = found,
                None => return Room::None,
            }
        }
        // What is kept for this node's own, and the reserve of all valves besides.
        let Limits { vertices, weight, .. } = self.limits;
        let fits = |victims: &Victims, by_valve: bool| {
            let parts = match (of.from, by_valve) {
                (None, _) => 0,
                (Some(_), true) => 1,
                (Some(_), false) => 1 + VALVES,
            };
            let kept = |of: usize| parts * of / SHARES;
            let is_light = self.weight - victims.weight + of.weight <= weight - kept(weight);
            self.slots.len() - victims.all.len() < vertices - kept(vertices)
                && planted!("avalanche-weight-unbounded", true, is_light)
        };
        if !fits(&taken.0, taken.1) {
            let mut holders: Vec<_> = self.bills.iter().collect();
            holders.sort_by_key(|(peer, bill)| (peer.is_none(), Reverse(bill.weight), **peer));
            let holders: Vec<_> = holders.into_iter().map(|(peer, _)| *peer).collect();
            match self.fit(taken, &holders, of, opens, fits) {
                Some(found) => taken = found,
                None => return Room::None,
            }
        }
        match taken {
            (victims, true) if victims.all.is_empty() => Room::Valve,
            (victims, false) if victims.all.is_empty() => Room::There,
            (victims, _) => Room::Behind(victims.all),
        }
    }

    /// Takes vertices of these peers besides those that are taken, until what is to come in fits.
    /// If they do not suffice: until it fits behind the valve, if that opens. Says whether it does.
    fn fit(
        &self,
        (taken, by_valve): (Victims, bool),
        peers: &[Option<ReplicaId>],
        of: &Newcomer<'_>,
        opens: bool,
        fits: impl Fn(&Victims, bool) -> bool,
    ) -> Option<(Victims, bool)> {
        let found = self.gather(&taken, peers, of, |victims| fits(victims, by_valve));
        if let Some(found) = found {
            return Some((found, by_valve));
        }
        let long_ago = |peer: &Option<ReplicaId>| {
            self.oldest(*peer).is_some_and(|oldest| oldest.after(PATIENCE) <= of.now)
        };
        if by_valve || !opens || !peers.iter().any(long_ago) {
            return None;
        }
        Some((self.gather(&taken, peers, of, |victims| fits(victims, true))?, true))
    }

    /// Whether one more vertex of the peer may pass its valve in this second.
    fn may_pass(&self, of: &Newcomer<'_>) -> bool {
        let passed = match self.valves.get(&of.from) {
            Some((second, passed)) if *second == seconds(of.now) => *passed,
            _ => 0,
        };
        let is_slow = passed < VALVE;
        of.from.is_some() && planted!("avalanche-valve-shut", false, of.worthy && is_slow)
    }

    /// Notes that a vertex of a peer passed its valve.
    pub(in super::super) fn passed(&mut self, of: Option<ReplicaId>, now: Time) {
        let valve = self.valves.entry(of).or_default();
        let before = if valve.0 == seconds(now) { valve.1 } else { 0 };
        *valve = (seconds(now), before + 1);
    }

    /// When the oldest pending vertex came that a peer brought.
    fn oldest(&self, of: Option<ReplicaId>) -> Option<Time> {
        let first = self.ages.range((of, Time(0), 0)..).next();
        first.filter(|(peer, ..)| *peer == of).map(|(_, added, _)| *added)
    }

    /// Whether a vertex may pass a valve: its payments have no rival, its parents no risk, and it
    /// stands on what is pending, or spends outputs of accepted payments.
    pub(in super::super) fn is_worthy(
        &self,
        vertex: &Vertex<T>,
        parents: &[u32],
        past: &dyn Past,
    ) -> bool {
        let is_calm = |slot: &Slot<T>| slot.weak == 0 && slot.risky == 0;
        let mut slots = parents.iter().map(|parent| &self.slots[*parent]);
        let is_accepted = |of: &T| {
            let mut inputs = of.inputs().iter();
            inputs.all(|input| match self.fate(&input.transaction) {
                Some(fate) => fate == Fate::Accepted,
                None => past.has_transaction(&input.transaction),
            })
        };
        let payments = vertex.transactions();
        let is_founded = || !payments.is_empty() && payments.iter().all(is_accepted);
        let stands = |slot: &Slot<T>| slot.fate == Fate::Pending;
        slots.clone().all(is_calm)
            && !payments.iter().any(|payment| self.has_rival(payment))
            && (slots.any(stands) || is_founded())
    }

    /// Takes vertices of these peers besides those that are taken, until what is to come in fits.
    fn gather(
        &self,
        taken: &Victims,
        peers: &[Option<ReplicaId>],
        of: &Newcomer<'_>,
        fits: impl Fn(&Victims) -> bool,
    ) -> Option<Victims> {
        let mut victims = taken.clone();
        let before = |span: Duration| of.now.0.checked_sub(span.as_nanos() as u64).map(Time);
        let kinds = [
            (Leaf::Weak, Some(Time(u64::MAX))),
            (Leaf::Vain, planted!("avalanche-vain-stay", None, before(VAIN))),
            (Leaf::Spare, planted!("avalanche-preferred-stay", None, before(PATIENCE))),
        ];
        let all = peers.iter().flat_map(|peer| {
            let of_kind = |(leaf, until): (Leaf, Option<Time>)| {
                let until = until.map(|until| (*peer, leaf, until, u32::MAX));
                until.map(|until| self.leaves.range((*peer, leaf, Time(0), 0)..=until))
            };
            kinds.into_iter().filter_map(of_kind).flatten()
        });
        for (.., at) in all {
            if fits(&victims) || victims.all.len() == VICTIMS {
                break;
            }
            if !of.parents.contains(at) && !victims.all.contains(at) {
                victims.all.push(*at);
                victims.weight += self.slots[*at].vertex.weight();
            }
        }
        fits(&victims).then_some(victims)
    }

    /// A vertex is pending from now on.
    pub(super) fn bill(&mut self, at: u32) {
        let slot = &self.slots[at];
        let bill = self.bills.entry(slot.from).or_default();
        bill.vertices += 1;
        bill.weight += slot.vertex.weight();
        self.ages.insert((slot.from, slot.added, at));
        self.pending += 1;
    }

    /// A vertex is pending no more.
    pub(super) fn unbill(&mut self, at: u32) {
        let slot = &self.slots[at];
        self.pending -= 1;
        self.ages.remove(&(slot.from, slot.added, at));
        if let Some(bill) = self.bills.get_mut(&slot.from) {
            bill.vertices -= 1;
            bill.weight -= slot.vertex.weight();
            if bill.vertices == 0 {
                self.bills.remove(&slot.from);
            }
        }
    }

    /// A transaction of a vertex is decided: it is not lost with it.
    pub(super) fn is_decided(&mut self, tx: u32, vertex: u32) {
        let tracked = self.txs[tx].tracked.as_ref();
        if tracked.is_none_or(|tracked| tracked.vertices.len() == 1) {
            self.slots[vertex].sole -= 1;
            self.file(vertex);
        }
    }

    /// Notes whether a vertex may give way, after something about it changed.
    pub(super) fn file(&mut self, at: u32) {
        let slot = &mut self.slots[at];
        let is_leaf = slot.fate == Fate::Pending && slot.children.is_empty();
        let leaf = if is_leaf && slot.weak > 0 {
            Some(Leaf::Weak)
        } else {
            let nothing_lost = planted!("avalanche-preferred-forgotten", true, slot.sole == 0);
            let spare = nothing_lost.then_some(Leaf::Spare);
            if slot.is_vain() { Some(Leaf::Vain) } else { spare }.filter(|_| is_leaf)
        };
        let before = std::mem::replace(&mut slot.leaf, leaf);
        if before != leaf {
            let (from, added) = (slot.from, slot.added);
            before.map(|leaf| self.leaves.remove(&(from, leaf, added, at)));
            leaf.map(|leaf| self.leaves.insert((from, leaf, added, at)));
        }
    }
}

impl Newcomer<'_> {
    /// The share of its peer of so much: by stake, twice over, because shares are seldom full.
    fn share(&self, of: usize) -> usize {
        let (stake, all) = self.stake;
        let by_stake = 2 * of as u128 * u128::from(stake) / u128::from(all.max(1));
        usize::try_from(by_stake).unwrap_or(usize::MAX).clamp(of / LEAST, of / SHARES).max(1)
    }
}

fn seconds(time: Time) -> u64 {
    time.0 / 1_000_000_000
}
