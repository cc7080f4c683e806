//! Proposals whose frames are not all here yet.
//!
//! With clients that send to all replicas a body is usually here before the block that orders it.
//! When it is not, the proposer is asked for it, then the others in turn, less and less often. A
//! peer's latest proposals wait, as many as its protocol has under way at once: no peer can make
//! this grow.
//!
//! A replica waits for bodies that travel ahead (`ahead`), twice as long as they usually take
//! (`lags`). Then it asks a peer that told of them, and after that the proposer. If the peer told
//! of a body and does not send it, it is named, and is not asked again for a while.
//!
//! A proposal may wait longer than its view lasts, if bodies travel ahead and the protocol takes
//! certified blocks in late. Meanwhile its block is not fetched ([`Arrivals::bring`]).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::proofs::fit;
use crate::base::crypto::Verified;
use crate::base::per_peer::PerPeer;
use crate::base::types::{Duration, Height, ReplicaId, Time, View};
use crate::ledger::block::BlockId;
use crate::ledger::frame::{FrameId, SharedFrame};
use crate::protocols::protocol::{BlockOf, Types};

/// How long the first peer has to send bodies, at least.
const PATIENCE: Duration = Duration::from_millis(50);
/// The shortest wait for bodies that travel ahead.
const LEAST_WAIT: Duration = Duration::from_millis(1);

/// How often the time that a peer has is doubled at most, once for each peer that is asked: where a
/// round trip takes long, an answer is on its way, and each further peer would send another copy.
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
    /// The latest block of each peer whose bodies were all here, and its parent.
    lately: PerPeer<Option<(BlockId, BlockId)>>,
    /// How long bodies that travel ahead are waited for.
    wait: Duration,
    /// The most of that.
    longest_wait: Duration,
    /// Whether proposals of former views are of use.
    late: bool,
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
    /// What the proofs weigh of bodies that came later.
    proofs: BTreeMap<FrameId, usize>,
    /// The bodies that are waited for, and until when, before somebody is asked.
    awaited: Option<(Time, Vec<FrameId>)>,
    /// Who told of awaited bodies and was asked for them, so that the proposer's turn is still to
    /// come.
    holders: Vec<(ReplicaId, FrameId)>,
    /// How often bodies were asked for, the holders left out.
    asked: u32,
    /// When they are asked for the next time.
    deadline: Time,
}

/// The bodies to ask for, and the peers to ask.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Overdue {
    /// The peers to ask.
    pub to_ask: Vec<(ReplicaId, Vec<FrameId>)>,
    /// Peers that told of bodies, and did not send them when they were asked.
    pub silent: Vec<ReplicaId>,
}

impl<T: Types> Arrival<T> {
    fn place(&self) -> (View, Height) {
        (self.block.view(), self.block.height())
    }

    fn next(&self) -> Time {
        self.awaited.as_ref().map_or(self.deadline, |(until, _)| self.deadline.min(*until))
    }

    fn lacks(&self, id: &FrameId) -> bool {
        self.bodies.get(id).is_some_and(Option::is_none)
    }

    /// Whether its bodies are not on their way, as far as is known: the proposer was asked for
    /// them.
    fn was_in_vain(&self) -> bool {
        self.asked > 0
    }

    /// Whether its bodies may be in one block, as far as their weight is known.
    fn is_fit(&self) -> bool {
        fit(self.bodies.keys().map(|id| self.proofs.get(id).copied().unwrap_or_default()))
    }

    fn lacking(&self) -> Vec<FrameId> {
        self.bodies.iter().filter(|(_, body)| body.is_none()).map(|(id, _)| *id).collect()
    }

    /// The bodies that were waited for in vain, once the time for that is over.
    fn take_awaited(&mut self, now: Time) -> Vec<FrameId> {
        let over = self.awaited.take_if(|(until, _)| *until <= now);
        let (_, awaited) = over.unwrap_or_default();
        awaited.into_iter().filter(|id| self.lacks(id)).collect()
    }

    /// Whom to ask for bodies that were waited for in vain: a holder of each, or the proposer. They
    /// have a while to send them. Then it is the proposer's turn, for all that is lacking.
    fn ask_holders(
        &mut self,
        now: Time,
        awaited: Vec<FrameId>,
        holder: impl Fn(&FrameId) -> Option<ReplicaId>,
        proposer: ReplicaId,
        patience: Duration,
    ) -> BTreeMap<ReplicaId, Vec<FrameId>> {
        let mut asked: BTreeMap<ReplicaId, Vec<FrameId>> = BTreeMap::new();
        for id in awaited {
            let holder = holder(&id);
            self.holders.extend(holder.map(|holder| (holder, id)));
            asked.entry(holder.unwrap_or(proposer)).or_default().push(id);
        }
        (self.asked, self.deadline) = (0, now.after(patience));
        asked
    }

    /// Whose turn it is to be asked.
    fn turn(&mut self, proposer: ReplicaId, me: ReplicaId, peers: usize) -> ReplicaId {
        let mut turn = || {
            let to = ReplicaId(((proposer.index() + self.asked as usize) % peers) as u16);
            self.asked = self.asked.saturating_add(1);
            to
        };
        let to = turn();
        if to == me { turn() } else { to }
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
    /// Bodies that travel ahead are waited for a quarter of `relay_after` at most, and whoever told
    /// of them has another quarter at most. So the proposer is asked before the view is given up.
    #[must_use]
    pub fn new(me: ReplicaId, peers: usize, pipeline: usize, relay_after: Duration) -> Self {
        let (by_peer, complete) = (PerPeer::new(peers), VecDeque::new());
        let longest_wait = (relay_after / 4).max(LEAST_WAIT);
        let wait = PATIENCE.min(longest_wait);
        let lately = PerPeer::new(peers);
        Self { me, pipeline, by_peer, complete, lately, wait, longest_wait, late: false }
    }

    /// The same, for a protocol that takes in certified blocks of former views: proposals wait on
    /// where their bodies are on their way.
    #[must_use]
    pub fn with_late(self, late: bool) -> Self {
        Self { late, ..self }
    }

    /// Bodies that travel ahead usually come so late. From now on proposals wait for them twice as
    /// long.
    pub fn usual_lag(&mut self, lag: Duration) {
        self.wait = (lag * 2).clamp(LEAST_WAIT, self.longest_wait);
    }

    /// How long whoever told of a body has to send it.
    fn holders_time(&self) -> Duration {
        PATIENCE.min(self.longest_wait).max(self.wait)
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
        let lacking = bodies.iter().filter(|(_, body)| body.is_none()).map(|(id, _)| *id);
        let (awaited, to_ask): (Vec<_>, Vec<_>) = lacking.partition(|id| comes(id));
        let missing = awaited.len() + to_ask.len();
        if missing > 0 && self.late && self.waits_for(from, &block.id()) {
            // Who sends a proposal again gains no time.
            return Lacking { any: true, to_ask: Vec::new() };
        }
        let until = now.after(self.wait);
        let (asked, deadline) = match to_ask.is_empty() {
            true => (0, until.after(self.holders_time())),
            false => (1, now.after(PATIENCE.max(self.wait))),
        };
        let awaited = (!awaited.is_empty()).then_some((until, awaited));
        let (holders, proofs) = (Vec::new(), BTreeMap::new());
        let arrival =
            Arrival { message, block, bodies, missing, proofs, awaited, holders, asked, deadline };
        if missing == 0 {
            note_complete(&mut self.lately, from, &arrival);
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

    fn waits_for(&self, from: ReplicaId, block: &BlockId) -> bool {
        let mut waiting = self.by_peer.get(from).into_iter().flatten();
        waiting.any(|arrival| arrival.block.id() == *block)
    }

    /// Whether a proposal waits for this body.
    #[must_use]
    pub fn lacks(&self, id: &FrameId) -> bool {
        self.by_peer.iter().flatten().any(|arrival| arrival.lacks(id))
    }

    /// Whether a block that is certified will soon be here: it, and those below it that are not
    /// here, wait for bodies that are on their way, or for each other. To fetch the blocks would
    /// bring all their bodies once more.
    #[must_use]
    pub fn bring(&self, certified: &BlockId, is_here: impl Fn(&BlockId) -> bool) -> bool {
        if !self.late {
            return false;
        }
        let mut block = *certified;
        // More are not known of.
        for _ in 0..=2 * self.by_peer.replicas() {
            let mut waiting = self.by_peer.iter().flatten();
            let complete = || self.lately.iter().flatten().find(|(id, _)| *id == block);
            block = match waiting.find(|arrival| arrival.block.id() == block) {
                Some(arrival) if arrival.was_in_vain() => return false,
                Some(arrival) => arrival.block.parent(),
                None if is_here(&block) => return true,
                None => match complete() {
                    Some((_, parent)) => *parent,
                    None => return false,
                },
            };
        }
        false
    }

    /// How long a block may take whose bodies are on their way: whoever told of them was asked
    /// then, and did not send them.
    #[must_use]
    pub fn longest(&self) -> Duration {
        self.wait + self.holders_time()
    }

    /// A body has come that is not verified yet, and whose proofs have this weight. Proposals are
    /// given up that would rest on more than a block may: their proposers are returned.
    pub fn weighs(&mut self, id: &FrameId, proofs: usize) -> Vec<ReplicaId> {
        let mut unfit = Vec::new();
        for (from, waiting) in self.by_peer.of_each_mut() {
            for arrival in waiting.iter_mut().filter(|arrival| arrival.lacks(id)) {
                arrival.proofs.insert(*id, proofs);
            }
            unfit.extend(waiting.extract_if(.., |arrival| !arrival.is_fit()).map(|_| from));
        }
        unfit
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
                note_complete(&mut self.lately, from, &arrival);
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
    ) -> Overdue {
        for waiting in &mut self.by_peer {
            waiting.retain(|arrival| arrival.asked < MOST_ASKED || now < arrival.deadline);
        }
        let (me, peers) = (self.me, self.by_peer.replicas());
        let (wait, holders_time) = (self.wait, self.holders_time());
        let mut overdue = Overdue::default();
        for (from, waiting) in self.by_peer.of_each_mut() {
            for arrival in waiting.iter_mut() {
                let awaited = arrival.take_awaited(now);
                if !awaited.is_empty() {
                    let holder = |id: &FrameId| holder(id, from);
                    let asked = arrival.ask_holders(now, awaited, holder, from, holders_time);
                    overdue.to_ask.extend(asked);
                }
                if arrival.deadline <= now {
                    let silent = std::mem::take(&mut arrival.holders).into_iter();
                    let silent = silent.filter(|(_, id)| arrival.lacks(id));
                    overdue.silent.extend(silent.map(|(peer, _)| peer));
                    overdue.to_ask.push((arrival.turn(from, me, peers), arrival.lacking()));
                    let doublings = (arrival.asked - 1).min(MAX_DOUBLINGS);
                    arrival.deadline = now.after(wait.max(PATIENCE * (1 << doublings)));
                }
            }
        }
        overdue.silent.sort_unstable();
        overdue.silent.dedup();
        overdue
    }

    /// When [`overdue`](Self::overdue) is to be asked again.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.by_peer.iter().flatten().map(Arrival::next).min()
    }

    /// Forgets proposals that are not above the committed height, and those of views below `view`:
    /// nobody will vote for them here. Late ones that are of use stay, while their bodies are on
    /// their way and the block is not here.
    pub fn forget_below(
        &mut self,
        view: View,
        committed: Height,
        is_here: impl Fn(&BlockId) -> bool,
    ) {
        let late = self.late;
        let is_of_use =
            |arrival: &Arrival<T>| late && !arrival.was_in_vain() && !is_here(&arrival.block.id());
        let stays = |arrival: &Arrival<T>| {
            let is_late = arrival.block.view() < view;
            arrival.block.height() > committed && (!is_late || is_of_use(arrival))
        };
        self.by_peer.iter_mut().for_each(|waiting| waiting.retain(|arrival| stays(arrival)));
    }
}

fn note_complete<T: Types>(
    lately: &mut PerPeer<Option<(BlockId, BlockId)>>,
    from: ReplicaId,
    arrival: &Arrival<T>,
) {
    if let Some(place) = lately.get_mut(from) {
        *place = Some((arrival.block.id(), arrival.block.parent()));
    }
}

#[cfg(test)]
mod tests {
    use super::super::proofs::UNFIT;
    use super::*;
    use crate::base::crypto::Claim;
    use crate::base::types::{Digest, Epoch};
    use crate::ledger::block::MOST_PROOFS;
    use crate::protocols::hotstuff::block::{Block, Content};
    use crate::protocols::hotstuff::{Message, Types};

    const RELAY_AFTER: Duration = Duration::from_secs(1);

    /// A proposal of r1 that names one frame.
    fn proposal(view: u64) -> (Verified<Message>, Arc<Block>) {
        proposal_of(view, vec![Digest([1; 32])])
    }

    fn proposal_of(view: u64, frames: Vec<FrameId>) -> (Verified<Message>, Arc<Block>) {
        let genesis = Block::genesis(Digest::default(), Epoch(0));
        let content =
            Content { view: View(view), height: Height(1), frames, ..Content::clone(&genesis) };
        let block = Arc::new(Block::new(content));
        let message = Message::Proposal { block: Arc::clone(&block), tc: None };
        let message = Claim::new(message, Vec::new()).settle(&[]).expect("nothing to check");
        (message, block)
    }

    /// A leader has others verify proofs for its blocks, and each costs as much as hundreds of
    /// signatures.
    #[test]
    fn a_proposal_whose_bodies_rest_on_too_much_is_given_up_before_they_are_verified() {
        let mut arrivals = Arrivals::<Types>::new(ReplicaId(0), 10, 1, RELAY_AFTER);
        let bodies: Vec<FrameId> = (1..=4).map(|at| Digest([at; 32])).collect();
        arrivals.add(Time(0), ReplicaId(1), proposal_of(1, bodies.clone()), |_| None, |_| false);
        arrivals.add(
            Time(0),
            ReplicaId(2),
            proposal_of(2, bodies[3..].to_vec()),
            |_| None,
            |_| false,
        );
        let nobody: [ReplicaId; 0] = [];
        assert_eq!(arrivals.weighs(&bodies[0], MOST_PROOFS / 2), nobody);
        // It is one body, though it comes twice.
        assert_eq!(arrivals.weighs(&bodies[0], MOST_PROOFS / 2), nobody);
        assert_eq!(arrivals.weighs(&bodies[1], MOST_PROOFS / 2), nobody);
        assert_eq!(arrivals.weighs(&bodies[2], 1), [ReplicaId(1)], "whose proposal it was");
        assert!(!arrivals.lacks(&bodies[2]), "nobody waits for it any more");
        // One frame alone may rest on more.
        assert_eq!(arrivals.weighs(&bodies[3], MOST_PROOFS + 1), nobody);
        assert_eq!(arrivals.weighs(&bodies[3], UNFIT), [ReplicaId(2)]);
        assert_eq!(arrivals.deadline(), None);
    }

    /// Then somebody who has them is asked.
    #[test]
    fn bodies_on_their_way_are_waited_for_twice_as_long_as_they_usually_take() {
        let mut arrivals = Arrivals::<Types>::new(ReplicaId(0), 10, 1, RELAY_AFTER);
        let mut waits = Vec::new();
        for (view, lag) in [(1, None), (2, Some(0)), (3, Some(30)), (4, Some(9_000))] {
            if let Some(lag) = lag {
                arrivals.usual_lag(Duration::from_millis(lag));
            }
            let lacking = arrivals.add(Time(0), ReplicaId(1), proposal(view), |_| None, |_| true);
            assert_eq!(lacking, Lacking { any: true, to_ask: Vec::new() });
            let deadline = arrivals.deadline().expect("it waits");
            let holder = |_: &FrameId, proposer| (proposer == ReplicaId(1)).then_some(ReplicaId(7));
            let due = arrivals.overdue(deadline, holder);
            assert_eq!(due.to_ask, [(ReplicaId(7), vec![Digest([1; 32])])]);
            // The proposer is next.
            let next = arrivals.deadline().expect("it waits on");
            waits.push([deadline.since(Time(0)), next.since(deadline)].map(|t| t.as_millis()));
            let due = arrivals.overdue(next, |_, _| None);
            assert_eq!(due.to_ask, [(ReplicaId(1), vec![Digest([1; 32])])]);
            assert_eq!(due.silent, [ReplicaId(7)], "it told of them, and sent nothing");
        }
        assert_eq!(waits, [[50, 50], [1, 50], [60, 60], [250, 250]]);
        let short = Duration::from_millis(40);
        let mut arrivals = Arrivals::<Types>::new(ReplicaId(0), 10, 1, short);
        arrivals.add(Time(0), ReplicaId(1), proposal(1), |_| None, |_| true);
        assert_eq!(arrivals.deadline(), Some(Time(10_000_000)), "where views are short, a quarter");
    }

    /// A leader could have others wait for its block for ever.
    #[test]
    fn who_sends_a_proposal_again_gains_no_time() {
        let arrivals = Arrivals::<Types>::new(ReplicaId(0), 10, 1, RELAY_AFTER);
        let mut arrivals = arrivals.with_late(true);
        let (message, block) = proposal(1);
        let send = |arrivals: &mut Arrivals<Types>, now| {
            let proposal = (message.clone(), Arc::clone(&block));
            arrivals.add(now, ReplicaId(1), proposal, |_| None, |_| true)
        };
        assert!(send(&mut arrivals, Time(0)).any);
        let deadline = arrivals.deadline().expect("it waits");
        assert!(send(&mut arrivals, Time(40_000_000)).any);
        assert_eq!(arrivals.deadline(), Some(deadline));
        assert!(arrivals.bring(&block.id(), |id| *id == block.parent()));
        assert!(!arrivals.bring(&block.id(), |_| false), "the block below it is nowhere");
        // Who told of its bodies is asked, and then the proposer.
        arrivals.overdue(deadline, |_, _| Some(ReplicaId(7)));
        arrivals.forget_below(View(2), Height(0), |_| false);
        assert!(arrivals.bring(&block.id(), |id| *id == block.parent()));
        let deadline = arrivals.deadline().expect("its view is over, and it still waits");
        assert_eq!(deadline.since(Time(0)), arrivals.longest());
        arrivals.overdue(deadline, |_, _| None);
        assert!(!arrivals.bring(&block.id(), |id| *id == block.parent()), "it is fetched");
        arrivals.forget_below(View(1), Height(0), |_| true);
        assert!(arrivals.deadline().is_some(), "its view is not over");
        arrivals.forget_below(View(2), Height(0), |_| false);
        assert_eq!(arrivals.deadline(), None);
    }

    /// Of a block's bodies one is nowhere, and its proposer is asked at once. That does not keep
    /// those from being asked for that were to come ahead.
    #[test]
    fn some_bodies_are_on_their_way_and_some_are_not() {
        let (ahead, nowhere) = (Digest([1; 32]), Digest([2; 32]));
        let mut arrivals = Arrivals::<Types>::new(ReplicaId(0), 10, 1, RELAY_AFTER);
        let proposal = proposal_of(1, vec![ahead, nowhere]);
        let lacking = arrivals.add(Time(0), ReplicaId(1), proposal, |_| None, |id| *id == ahead);
        assert_eq!(lacking, Lacking { any: true, to_ask: vec![nowhere] });
        let wait = arrivals.deadline().expect("it waits");
        let due = arrivals.overdue(wait, |_, _| Some(ReplicaId(7)));
        assert_eq!(due.to_ask, [(ReplicaId(7), vec![ahead])]);
        let next = arrivals.deadline().expect("it waits on");
        assert_eq!(next.since(wait), PATIENCE);
        let due = arrivals.overdue(next, |_, _| None);
        assert_eq!(due.to_ask, [(ReplicaId(1), vec![ahead, nowhere])]);
    }

    /// Bodies that are four hundred milliseconds away come in four copies at most, not in eight.
    #[test]
    fn peers_are_asked_less_and_less_often() {
        let mut arrivals = Arrivals::<Types>::new(ReplicaId(0), 10, 1, RELAY_AFTER);
        let lacking = arrivals.add(Time(0), ReplicaId(1), proposal(1), |_| None, |_| false);
        let mut asked = lacking.to_ask.len();
        let mut now = Time(0);
        while let Some(deadline) = arrivals.deadline().filter(|d| *d <= Time(400_000_000)) {
            now = deadline;
            asked += arrivals.overdue(now, |_, _| None).to_ask.len();
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
            (now, asked) = (deadline, asked + arrivals.overdue(deadline, |_, _| None).to_ask.len());
            assert!(asked <= 64, "without end");
        }
        // What would be the own turn is counted, and passed over.
        assert!(asked > 50 && now > Time(60_000_000_000), "{asked} until {now:?}");
    }
}
