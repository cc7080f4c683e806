//! Proposals whose frames are not all here yet.
//!
//! With clients that send to all replicas a body is usually here before the block that orders it.
//! When it is not, the proposer is asked for it, then the others in turn, less and less often. A
//! peer's latest proposals wait, as many as its protocol has under way at once: no peer can make
//! this grow.
//!
//! Bodies that travel ahead (`ahead`) are waited for before anybody is asked. Each wait in
//! vain halves the next one, and each body that comes doubles it: a replica that withholds bodies
//! gains a few waits.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::base::crypto::Verified;
use crate::base::per_peer::PerPeer;
use crate::base::types::{Duration, Height, ReplicaId, Time, View};
use crate::ledger::frame::{FrameId, SharedFrame};
use crate::protocols::protocol::{BlockOf, Types};

/// How long the first peer has to send bodies. So long at most they are waited for before that.
const PATIENCE: Duration = Duration::from_millis(50);
/// The shortest wait for bodies that travel ahead.
const LEAST_WAIT: Duration = Duration::from_millis(1);

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
    /// How long bodies that travel ahead are waited for.
    wait: Duration,
}

/// The bodies that a proposal lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lacking {
    /// Whether any is lacking.
    pub any: bool,
    /// Those to ask the proposer for at once.
    pub to_ask: Vec<FrameId>,
}

#[derive(Debug)]
struct Arrival<T: Types> {
    message: Verified<T::Message>,
    block: BlockOf<T>,
    bodies: BTreeMap<FrameId, Option<SharedFrame>>,
    missing: usize,
    /// Whether bodies were waited for before somebody was asked, so that it was not the proposer.
    waited: bool,
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
        let (by_peer, complete) = (PerPeer::new(peers), VecDeque::new());
        Self { me, pipeline, by_peer, complete, wait: PATIENCE }
    }

    /// Takes in a proposal; `find` says which bodies are here, and `comes` which of the others are
    /// on their way. An old proposal does not take the place of a later one.
    pub fn add(
        &mut self,
        now: Time,
        from: ReplicaId,
        (message, block): (Verified<T::Message>, BlockOf<T>),
        find: impl Fn(&FrameId) -> Option<SharedFrame>,
        comes: impl Fn(&FrameId) -> bool,
    ) -> Lacking {
        let bodies: BTreeMap<FrameId, Option<SharedFrame>> =
            block.frames().iter().map(|id| (*id, find(id))).collect();
        let lacking = || bodies.iter().filter(|(_, body)| body.is_none()).map(|(id, _)| *id);
        let missing = lacking().count();
        let to_ask: Vec<FrameId> = lacking().filter(|id| !comes(id)).collect();
        let waited = to_ask.is_empty();
        let (asked, wait) = if waited { (0, self.wait) } else { (1, PATIENCE) };
        let deadline = now.after(wait);
        let arrival = Arrival { message, block, bodies, missing, waited, asked, deadline };
        if missing == 0 {
            self.complete.push_back(arrival.into_complete(from));
            return Lacking::default();
        }
        let Some(waiting) = self.by_peer.get_mut(from) else { return Lacking::default() };
        if waiting.len() >= self.pipeline {
            let oldest = waiting.iter().enumerate().min_by_key(|(_, held)| held.place());
            match oldest.map(|(at, held)| (at, held.place())) {
                Some((at, place)) if place <= arrival.place() => drop(waiting.remove(at)),
                _ => return Lacking::default(),
            }
        }
        waiting.push(arrival);
        Lacking { any: true, to_ask }
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
                if arrival.asked == 0 {
                    self.wait = (self.wait * 2).min(PATIENCE);
                }
                self.complete.push_back(arrival.into_complete(from));
            }
        }
    }

    /// Takes out a proposal that is complete now.
    pub fn take_complete(&mut self) -> Option<Complete<T>> {
        self.complete.pop_front()
    }

    /// What to ask for again, and whom: the proposer first, then each peer after it in turn. Of
    /// bodies that were to come ahead, somebody who has them (`holder`) is asked before.
    pub fn overdue(
        &mut self,
        now: Time,
        holder: impl Fn(&FrameId, ReplicaId) -> Option<ReplicaId>,
    ) -> Vec<(ReplicaId, Vec<FrameId>)> {
        for waiting in &mut self.by_peer {
            waiting.retain(|arrival| arrival.asked < MOST_ASKED || now < arrival.deadline);
        }
        let peers = self.by_peer.replicas();
        let mut due = Vec::new();
        let waiting = self.by_peer.of_each_mut();
        let each = waiting.flat_map(|(from, waiting)| waiting.iter_mut().map(move |a| (from, a)));
        for (from, arrival) in each.filter(|(_, arrival)| now >= arrival.deadline) {
            let ids = arrival.bodies.iter().filter(|(_, b)| b.is_none()).map(|(id, _)| *id);
            if arrival.asked == 0 {
                let mut by_holder: BTreeMap<ReplicaId, Vec<FrameId>> = BTreeMap::new();
                for id in ids {
                    by_holder.entry(holder(&id, from).unwrap_or(from)).or_default().push(id);
                }
                due.extend(by_holder);
                (arrival.asked, arrival.deadline) = (1, now.after(PATIENCE));
                self.wait = (self.wait / 2).max(LEAST_WAIT);
                continue;
            }
            let mut turn = || {
                let behind = arrival.asked as usize - usize::from(arrival.waited);
                let to = ReplicaId(((from.index() + behind) % peers) as u16);
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

    /// A proposal of r1 that names one frame.
    fn proposal(view: u64) -> (Verified<Message>, Arc<Block>) {
        let genesis = Block::genesis(Digest::default(), Epoch(0));
        let frames = vec![Digest([1; 32])];
        let content = Content { view: View(view), frames, ..Content::clone(&genesis) };
        let block = Arc::new(Block::new(content));
        let message = Message::Proposal { block: Arc::clone(&block), tc: None };
        let message = Claim::new(message, Vec::new()).settle(&[]).expect("nothing to check");
        (message, block)
    }

    /// Then somebody who has them is asked, and the wait is shorter the next time.
    #[test]
    fn bodies_on_their_way_are_waited_for() {
        let mut arrivals = Arrivals::<Types>::new(ReplicaId(0), 10, 1);
        let mut waits = Vec::new();
        for view in 1..=8 {
            let lacking = arrivals.add(Time(0), ReplicaId(1), proposal(view), |_| None, |_| true);
            assert_eq!(lacking, Lacking { any: true, to_ask: Vec::new() });
            let deadline = arrivals.deadline().expect("it waits");
            waits.push(deadline.since(Time(0)).as_micros());
            let holder = |_: &FrameId, proposer| (proposer == ReplicaId(1)).then_some(ReplicaId(7));
            let due = arrivals.overdue(deadline, holder);
            assert_eq!(due, [(ReplicaId(7), vec![Digest([1; 32])])]);
            // The proposer is next.
            let next = arrivals.deadline().expect("it waits on");
            assert_eq!(next.since(deadline), PATIENCE);
            let due = arrivals.overdue(next, |_, _| None);
            assert_eq!(due, [(ReplicaId(1), vec![Digest([1; 32])])]);
        }
        assert_eq!(waits, [50_000, 25_000, 12_500, 6_250, 3_125, 1_562, 1_000, 1_000]);
    }

    /// Bodies that are four hundred milliseconds away come in four copies at most, not in eight.
    #[test]
    fn peers_are_asked_less_and_less_often() {
        let mut arrivals = Arrivals::<Types>::new(ReplicaId(0), 10, 1);
        let lacking = arrivals.add(Time(0), ReplicaId(1), proposal(1), |_| None, |_| false);
        let mut asked = lacking.to_ask.len();
        let mut now = Time(0);
        while let Some(deadline) = arrivals.deadline().filter(|d| *d <= Time(400_000_000)) {
            now = deadline;
            asked += arrivals.overdue(now, |_, _| None).len();
        }
        assert_eq!((asked, now), (4, Time(350_000_000)));
        let last = (0..20).map(|_| {
            let deadline = arrivals.deadline().expect("it is asked for long");
            arrivals.overdue(deadline, |_, _| None);
            arrivals.deadline().expect("it is asked for long").since(deadline)
        });
        assert_eq!(last.last(), Some(PATIENCE * (1 << MAX_DOUBLINGS)));
        // Not for ever: nobody may have them any more.
        let mut asked = 1 + 3 + 20;
        while let Some(deadline) = arrivals.deadline() {
            (now, asked) = (deadline, asked + arrivals.overdue(deadline, |_, _| None).len());
            assert!(asked <= 64, "without end");
        }
        // What would be the own turn is counted, and passed over.
        assert!(asked > 50 && now > Time(60_000_000_000), "{asked} until {now:?}");
    }
}
