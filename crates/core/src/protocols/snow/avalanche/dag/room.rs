//! Whose vertices take how much memory, and which give way.
//!
//! A pending vertex is billed to the peer that brought it first. A peer beyond its share makes room
//! with its own vertices; where memory is short, those with the most make room.
//!
//! What this node prefers is not forgotten: its answers are what others count. So only two kinds of
//! vertices give way, and both are without children: those that are not strongly preferred, and
//! those that have waited for long and have no pending transaction that is in them alone.

use std::cmp::Reverse;

use super::super::state::{Dropped, Fate, Leaf};
use super::super::vertex::Transaction;
use super::Dag;
use crate::base::types::{Duration, ReplicaId, Time};

/// A peer's share of memory, and what is kept for this node's own: one of so many parts.
const SHARES: usize = 16;
/// How long a vertex that is strongly preferred waits before it may give way.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most vertices that give way to one.
const VICTIMS: usize = 64;

/// Vertices that are to give way, and their weight.
#[derive(Debug, Default)]
struct Victims {
    all: Vec<u32>,
    weight: usize,
}

impl<T: Transaction> Dag<T> {
    /// Which vertices give way to one of this weight that a peer brings, so that it stands on these
    /// parents; none if they do not suffice.
    pub(in super::super) fn room(
        &self,
        from: Option<ReplicaId>,
        weight: usize,
        parents: &[u32],
        now: Time,
    ) -> Option<Vec<u32>> {
        let whole = self.limits;
        let (share, heavy_share) = (whole.vertices / SHARES, whole.weight / SHARES);
        let mut victims = Victims::default();
        if planted!("avalanche-peers-not-billed", false, from.is_some()) {
            let bill = self.bills.get(&from).copied().unwrap_or_default();
            // The first may be as heavy as any.
            let fits = |victims: &Victims| match bill.vertices - victims.all.len() {
                0 => true,
                left => left < share && bill.weight - victims.weight + weight <= heavy_share,
            };
            self.gather(&mut victims, &[from], parents, now, fits)?;
        }
        let kept = usize::from(from.is_some());
        let fits = |victims: &Victims| {
            let is_light =
                self.weight - victims.weight + weight <= whole.weight - kept * heavy_share;
            self.slots.len() - victims.all.len() < whole.vertices - kept * share
                && planted!("avalanche-weight-unbounded", true, is_light)
        };
        if !fits(&victims) {
            let mut holders: Vec<_> = self.bills.iter().collect();
            holders.sort_by_key(|(peer, bill)| (peer.is_none(), Reverse(bill.weight), **peer));
            let holders: Vec<_> = holders.into_iter().map(|(peer, _)| *peer).collect();
            self.gather(&mut victims, &holders, parents, now, fits)?;
        }
        Some(victims.all)
    }

    /// Takes vertices of these peers, until what is to come in fits.
    fn gather(
        &self,
        victims: &mut Victims,
        peers: &[Option<ReplicaId>],
        parents: &[u32],
        now: Time,
        fits: impl Fn(&Victims) -> bool,
    ) -> Option<()> {
        let long_ago = now.0.checked_sub(PATIENCE.as_nanos() as u64).map(Time);
        let all = peers.iter().flat_map(|peer| {
            let end = match planted!("avalanche-preferred-stay", None, long_ago) {
                None => (*peer, Leaf::Weak, Time(u64::MAX), u32::MAX),
                Some(long_ago) => (*peer, Leaf::Spare, long_ago, u32::MAX),
            };
            self.leaves.range((*peer, Leaf::Weak, Time(0), 0)..=end)
        });
        for (.., at) in all {
            if fits(victims) || victims.all.len() == VICTIMS {
                break;
            }
            if !parents.contains(at) && !victims.all.contains(at) {
                victims.all.push(*at);
                victims.weight += self.slots[*at].vertex.weight();
            }
        }
        fits(victims).then_some(())
    }

    /// Forgets a vertex that gives way. It was not rejected, and may come again.
    pub(in super::super) fn forget(&mut self, at: u32) -> Dropped {
        let mut dropped = Dropped::default();
        self.doom(at);
        self.doomed.retain(|doomed| *doomed != at);
        self.remove(at, &mut dropped);
        dropped.rejected.clear();
        dropped
    }

    /// A vertex is pending from now on.
    pub(super) fn bill(&mut self, at: u32) {
        let slot = &self.slots[at];
        let bill = self.bills.entry(slot.from).or_default();
        bill.vertices += 1;
        bill.weight += slot.vertex.weight();
        self.pending += 1;
    }

    /// A vertex is pending no more.
    pub(super) fn unbill(&mut self, at: u32) {
        let slot = &self.slots[at];
        self.pending -= 1;
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
            (is_leaf && nothing_lost).then_some(Leaf::Spare)
        };
        let before = std::mem::replace(&mut slot.leaf, leaf);
        if before != leaf {
            let (from, added) = (slot.from, slot.added);
            before.map(|leaf| self.leaves.remove(&(from, leaf, added, at)));
            leaf.map(|leaf| self.leaves.insert((from, leaf, added, at)));
        }
    }
}
