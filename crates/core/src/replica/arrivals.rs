//! Proposals whose frames are not all here yet.
//!
//! With clients that send to all replicas a body is usually here before the block that orders it.
//! When it is not, the proposer is asked for it, then the others in turn, less and less often. A
//! peer's latest proposals wait, as many as its protocol has under way at once: no peer can make
//! this grow.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::base::crypto::Verified;
use crate::base::per_peer::PerPeer;
use crate::base::types::{Duration, Height, ReplicaId, Time, View};
use crate::ledger::frame::{FrameId, SharedFrame};
use crate::protocols::protocol::{BlockOf, Types};

/// How long the first peer has to send bodies.
const PATIENCE: Duration = Duration::from_millis(50);

/// How often that is doubled at most, once for each peer that is asked: where a round trip takes
/// long, an answer is on its way, and each further peer would send another copy.
const MAX_DOUBLINGS: u32 = 5;

/// So often bodies are asked for, which takes more than a minute; then the proposal is given up. A
/// straggler of a chain that lost names frames that everybody executed and forgot. If its block
/// matters, peers name it, and it is fetched.
const MOST_ASKED: u32 = 64;

/// The proposals that wait.
#[derive(Debug)]
pub struct Arrivals<T: Types> {
    me: ReplicaId,
    /// How many of a peer's proposals wait at most.
    pipeline: usize,
    by_peer: PerPeer<Vec<Arrival<T>>>,
    complete: VecDeque<Complete<T>>,
}

#[derive(Debug)]
struct Arrival<T: Types> {
    message: Verified<T::Message>,
    block: BlockOf<T>,
    bodies: BTreeMap<FrameId, Option<SharedFrame>>,
    missing: usize,
    /// How often bodies were asked for.
    asked: u32,
    deadline: Time,
}

impl<T: Types> Arrival<T> {
    fn place(&self) -> (View, Height) {
        (self.block.view(), self.block.height())
    }

    fn into_complete(self, from: ReplicaId) -> Complete<T> {
        let bodies = &self.bodies;
        let body = |id: &FrameId| bodies.get(id).cloned().flatten();
        let frames = self.block.frames().iter().filter_map(body).collect();
        (from, self.message, self.block, frames)
    }
}

/// A proposal that is complete: its sender, itself, its block, its bodies in order.
pub type Complete<T> = (ReplicaId, Verified<<T as Types>::Message>, BlockOf<T>, Vec<SharedFrame>);

impl<T: Types> Arrivals<T> {
    /// No proposals, of `peers` replicas, one of which is `me`. Up to `pipeline` of each may wait.
    #[must_use]
    pub fn new(me: ReplicaId, peers: usize, pipeline: usize) -> Self {
        Self { me, pipeline, by_peer: PerPeer::new(peers), complete: VecDeque::new() }
    }

    /// Takes in a proposal; `find` says which bodies are here. Returns the ids of those that are
    /// not: they are to be asked for. An old proposal does not take the place of a later one.
    pub fn add(
        &mut self,
        now: Time,
        from: ReplicaId,
        message: Verified<T::Message>,
        block: BlockOf<T>,
        find: impl Fn(&FrameId) -> Option<SharedFrame>,
    ) -> Vec<FrameId> {
        let bodies: BTreeMap<FrameId, Option<SharedFrame>> =
            block.frames().iter().map(|id| (*id, find(id))).collect();
        let lacking: Vec<FrameId> =
            bodies.iter().filter(|(_, body)| body.is_none()).map(|(id, _)| *id).collect();
        let (missing, deadline) = (lacking.len(), now.after(PATIENCE));
        let arrival = Arrival { message, block, bodies, missing, asked: 1, deadline };
        if missing == 0 {
            self.complete.push_back(arrival.into_complete(from));
            return lacking;
        }
        let Some(waiting) = self.by_peer.get_mut(from) else { return Vec::new() };
        if waiting.len() >= self.pipeline {
            let oldest = waiting.iter().enumerate().min_by_key(|(_, held)| held.place());
            match oldest.map(|(at, held)| (at, held.place())) {
                Some((at, place)) if place <= arrival.place() => drop(waiting.remove(at)),
                _ => return Vec::new(),
            }
        }
        waiting.push(arrival);
        lacking
    }

    /// A body has come, from whomever.
    pub fn supply(&mut self, frame: &SharedFrame) {
        for (from, waiting) in self.by_peer.of_each_mut() {
            for arrival in waiting.iter_mut() {
                if let Some(place @ None) = arrival.bodies.get_mut(&frame.id()) {
                    *place = Some(Arc::clone(frame));
                    arrival.missing -= 1;
                }
            }
            for arrival in waiting.extract_if(.., |arrival| arrival.missing == 0) {
                self.complete.push_back(arrival.into_complete(from));
            }
        }
    }

    /// Takes out a proposal that is complete now.
    pub fn take_complete(&mut self) -> Option<Complete<T>> {
        self.complete.pop_front()
    }

    /// What to ask for again, and whom: the proposer first, then each peer after it in turn.
    pub fn overdue(&mut self, now: Time) -> Vec<(ReplicaId, Vec<FrameId>)> {
        for waiting in &mut self.by_peer {
            waiting.retain(|arrival| arrival.asked < MOST_ASKED || now < arrival.deadline);
        }
        let peers = self.by_peer.replicas();
        let mut due = Vec::new();
        let waiting = self.by_peer.of_each_mut();
        let each = waiting.flat_map(|(from, waiting)| waiting.iter_mut().map(move |a| (from, a)));
        for (from, arrival) in each.filter(|(_, arrival)| now >= arrival.deadline) {
            let ids = arrival.bodies.iter().filter(|(_, b)| b.is_none()).map(|(id, _)| *id);
            let mut turn = || {
                let to = ReplicaId(((from.index() + arrival.asked as usize) % peers) as u16);
                arrival.asked = arrival.asked.saturating_add(1);
                to
            };
            let mut to = turn();
            if to == self.me {
                to = turn();
            }
            due.push((to, ids.collect()));
            let doublings = (arrival.asked - 1).min(MAX_DOUBLINGS);
            arrival.deadline = now.after(PATIENCE * (1 << doublings));
        }
        due
    }

    /// When [`overdue`](Self::overdue) is to be asked again.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.by_peer.iter().flatten().map(|arrival| arrival.deadline).min()
    }

    /// Forgets proposals of views below `view`, and those that are not above the committed height:
    /// nobody will vote for them here.
    pub fn forget_below(&mut self, view: View, committed: Height) {
        for waiting in &mut self.by_peer {
            waiting.retain(|arrival| {
                arrival.block.view() >= view && arrival.block.height() > committed
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::crypto::Claim;
    use crate::base::types::{Digest, Epoch};
    use crate::protocols::hotstuff::block::{Block, Content};
    use crate::protocols::hotstuff::{Message, Types};

    /// Bodies that are four hundred milliseconds away come in four copies at most, not in eight.
    #[test]
    fn peers_are_asked_less_and_less_often() {
        let genesis = Block::genesis(Digest::default(), Epoch(0));
        let content =
            Content { view: View(1), frames: vec![Digest([1; 32])], ..Content::clone(&genesis) };
        let block = Arc::new(Block::new(content));
        let message = Message::Proposal { block: Arc::clone(&block), tc: None };
        let message = Claim::new(message, Vec::new()).settle(&[]).expect("nothing to check");
        let mut arrivals = Arrivals::<Types>::new(ReplicaId(0), 10, 1);
        let mut asked = arrivals.add(Time(0), ReplicaId(1), message, block, |_| None).len();
        let mut now = Time(0);
        while let Some(deadline) = arrivals.deadline().filter(|d| *d <= Time(400_000_000)) {
            now = deadline;
            asked += arrivals.overdue(now).len();
        }
        assert_eq!((asked, now), (4, Time(350_000_000)));
        let last = (0..20).map(|_| {
            let deadline = arrivals.deadline().expect("it is asked for long");
            arrivals.overdue(deadline);
            arrivals.deadline().expect("it is asked for long").since(deadline)
        });
        assert_eq!(last.last(), Some(PATIENCE * (1 << MAX_DOUBLINGS)));
        // Not for ever: nobody may have them any more.
        let mut asked = 1 + 3 + 20;
        while let Some(deadline) = arrivals.deadline() {
            (now, asked) = (deadline, asked + arrivals.overdue(deadline).len());
            assert!(asked <= 64, "without end");
        }
        // What would be the own turn is counted, and passed over.
        assert!(asked > 50 && now > Time(60_000_000_000), "{asked} until {now:?}");
    }
}
