//! Frames that are not committed yet, in the order they came.
//!
//! # What a block is filled with
//!
//! [`Mempool::batch`] leaves out the frames that the ancestors of the block being extended hold,
//! and nothing else. A frame is removed when it is *committed*, not when it was seen in a
//! proposal: the HotStuff dissertation's Algorithm 3 takes proposed commands out of the buffer,
//! and loses those of every fork that is abandoned. Here they were never gone, and are proposed
//! again. For the same reason the frames of other leaders' proposals are put in as well
//! ([`Origin::Proposal`]).
//!
//! Oldest first, except that the frames of one session go in the order of their numbers: a frame
//! that arrived before its predecessor waits for no other client, and its predecessor goes with
//! it. A frame whose predecessor is nowhere to be seen is proposed all the same. The predecessor
//! may have been executed, or sit in an ancestor that never reached this mempool; if it is indeed
//! missing, the session table lets the frame wait, or turns it down beyond its window. Held back
//! here, such frames could fill the mempool for ever.
//!
//! # Bounds
//!
//! Frames that clients or replicas submitted and those learnt from proposals have room apart from
//! each other, so that a leader who proposes without end takes no room from clients. Within each,
//! a session and a key have their caps, and a key one for [steps of key generations](MOST_STEPS).
//! Where frames travel ahead, each replica has a cap for those that it passes on. A full mempool
//! refuses; it never evicts.
//!
//! Bytes are those of the encodings. Whoever decodes a frame out of a much larger buffer that it
//! shares with nothing else to be kept should copy it before it is put in.

mod batch;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::base::crypto::PublicKey;
use crate::base::membership::{MAX_REPLICAS, Rules};
use crate::base::types::{ReplicaId, Sequence, SessionId, Time};
use crate::ledger::frame::{Frame, FrameId, SharedFrame};
use crate::ledger::outcome::{Outcome, Refusal};
use crate::ledger::sessions::{Sessions, Standing};

/// How many steps of key generations one key may have here: more than a member has to say, which is
/// its dealing, and a complaint of each dealer.
pub const MOST_STEPS: usize = MAX_REPLICAS + 2;

/// How much may be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    /// Most frames.
    pub frames: usize,
    /// Most encoded bytes.
    pub bytes: usize,
}

/// The bounds of one replica's mempool. Replicas need not agree on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Of one session.
    pub session: Cap,
    /// Of one client key.
    pub key: Cap,
    /// Of all that clients and other replicas submitted.
    pub submitted: Cap,
    /// Of all that was learnt from proposals.
    pub learnt: Cap,
}

impl Cap {
    /// Whether a frame fits beside what is held.
    fn takes(self, held: Usage, frame: &Frame) -> bool {
        held.frames < self.frames && held.bytes + frame.encoded_bytes().len() <= self.bytes
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            session: Cap { frames: 8192, bytes: 16 << 20 },
            key: Cap { frames: 16_384, bytes: 32 << 20 },
            submitted: Cap { frames: 100_000, bytes: 256 << 20 },
            learnt: Cap { frames: 50_000, bytes: 64 << 20 },
        }
    }
}

/// How a frame came here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// From its client. Other replicas may not have it: see [`Mempool::unrelayed_before`].
    Client,
    /// From its client, which sent it here alone: it is passed on at once.
    Relayed,
    /// From this replica, which passed it on.
    RelayedBy(ReplicaId),
    /// In another replica's proposal.
    Proposal,
}

/// What became of a frame that was handed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It is in.
    Added,
    /// It was in.
    Known,
    /// It is committed, and waits in the session table for the numbers before it.
    Waiting,
    /// It needs no ordering: this is its outcome.
    Answered(Outcome),
    /// There is no room for it.
    Refused(Refusal),
}

/// Frames that are not committed yet.
#[derive(Debug)]
pub struct Mempool {
    limits: Limits,
    /// The number that the next arrival gets.
    next_arrival: u64,
    by_arrival: BTreeMap<u64, Entry>,
    by_id: BTreeMap<FrameId, u64>,
    lanes: BTreeMap<LaneId, Lane>,
    keys: BTreeMap<PublicKey, Usages>,
    total: Usages,
    /// The arrivals that came from clients and were not passed on.
    unrelayed: BTreeSet<u64>,
    /// What each replica passed on.
    peers: BTreeMap<ReplicaId, Usage>,
    /// How much that may be.
    peer: Cap,
}

#[derive(Debug)]
struct Entry {
    frame: SharedFrame,
    arrived: Time,
    /// When it was last passed on, by this replica or to it; while it never was, when it arrived.
    passed_on: Time,
    room: Room,
    origin: Origin,
}

impl Entry {
    /// The replica that passed it on, if it was another one.
    fn brought_by(&self) -> Option<ReplicaId> {
        match self.origin {
            Origin::RelayedBy(peer) => Some(peer),
            Origin::Client | Origin::Relayed | Origin::Proposal => None,
        }
    }

    fn is_passed_on_at_once(&self) -> bool {
        matches!(self.origin, Origin::Relayed | Origin::RelayedBy(_))
    }
}

/// The frames of one session. The key is part of its identity: with another's session number a
/// client reaches none but its own lane. Requests to open a session are in lane 0 of their key.
type LaneId = (PublicKey, SessionId);
/// A frame's place in its lane.
type Place = (Sequence, FrameId);

#[derive(Debug, Default)]
struct Lane {
    frames: BTreeMap<Place, SharedFrame>,
    usages: Usages,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    Submitted,
    Learnt,
}

/// What is held in either room.
#[derive(Clone, Copy, Debug, Default)]
struct Usages {
    submitted: Usage,
    learnt: Usage,
    /// How many are steps of key generations.
    steps: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    frames: usize,
    bytes: usize,
}

impl Mempool {
    /// A mempool that holds nothing.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            next_arrival: 0,
            by_arrival: BTreeMap::new(),
            by_id: BTreeMap::new(),
            lanes: BTreeMap::new(),
            keys: BTreeMap::new(),
            total: Usages::default(),
            unrelayed: BTreeSet::new(),
            peers: BTreeMap::new(),
            peer: limits.submitted,
        }
    }

    /// From now on so many replicas may lie: together they get half of the room for what was
    /// submitted.
    pub fn share_among(&mut self, liars: usize) {
        let Cap { frames, bytes } = self.limits.submitted;
        let parts = 2 * liars.max(1);
        self.peer = Cap { frames: frames / parts, bytes: bytes / parts };
    }

    /// How many frames it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_arrival.len()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_arrival.is_empty()
    }

    /// The encoded bytes of the frames it holds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.total.submitted.bytes + self.total.learnt.bytes
    }

    /// The frame called `id`.
    #[must_use]
    pub fn get(&self, id: &FrameId) -> Option<&SharedFrame> {
        Some(&self.by_arrival.get(self.by_id.get(id)?)?.frame)
    }

    /// When the frame called `id` arrived, if it was passed on at once: to others by this replica,
    /// or to it.
    #[must_use]
    pub fn passed_on_at_once(&self, id: &FrameId) -> Option<Time> {
        let entry = self.by_arrival.get(self.by_id.get(id)?)?;
        entry.is_passed_on_at_once().then_some(entry.arrived)
    }

    /// The frames that were passed on at once, oldest first.
    pub fn all_passed_on_at_once(&self) -> impl Iterator<Item = &SharedFrame> {
        let passed_on = self.by_arrival.values().filter(|entry| entry.is_passed_on_at_once());
        passed_on.map(|entry| &entry.frame)
    }

    /// Whether it holds the frame called `id`.
    #[must_use]
    pub fn contains(&self, id: &FrameId) -> bool {
        self.by_id.contains_key(id)
    }

    /// When the frame that is here longest arrived.
    #[must_use]
    pub fn oldest(&self) -> Option<Time> {
        Some(self.by_arrival.first_key_value()?.1.arrived)
    }

    /// When the oldest frame arrived of those [not passed on](Self::unrelayed_before) yet.
    #[must_use]
    pub fn oldest_unrelayed(&self) -> Option<Time> {
        let oldest = self.unrelayed.first();
        Some(self.by_arrival.get(mutant!("relay-never-done", None, oldest)?)?.arrived)
    }

    /// Takes in a frame whose signature was checked. `now` never goes back; `sessions` is this
    /// replica's latest state, which tells what need not be ordered.
    pub fn insert(
        &mut self,
        frame: SharedFrame,
        origin: Origin,
        now: Time,
        sessions: &Sessions,
    ) -> Admission {
        let room = origin.room();
        if let Some(arrival) = self.by_id.get(&frame.id()).copied() {
            self.promote(arrival, room);
            self.came_from_its_client(arrival, origin);
            return Admission::Known;
        }
        match sessions.standing(&frame) {
            Standing::Settled(outcome) => return Admission::Answered(outcome),
            Standing::Waiting => return Admission::Waiting,
            Standing::New => {}
        }
        let has_room = self.has_room(&frame, room) && self.takes_from(origin, &frame);
        if !mutant!("mempool-unbounded", true, has_room) {
            return Admission::Refused(Refusal::Busy);
        }
        let arrival = self.next_arrival;
        self.next_arrival += 1;
        self.count(&frame, room);
        if let Origin::RelayedBy(peer) = origin {
            self.peers.entry(peer).or_default().add(&frame);
        }
        self.by_id.insert(frame.id(), arrival);
        let lane = self.lanes.entry(lane_id(&frame)).or_default();
        lane.frames.insert(place(&frame), Arc::clone(&frame));
        if origin == Origin::Client {
            self.unrelayed.insert(arrival);
        }
        self.by_arrival
            .insert(arrival, Entry { frame, arrived: now, passed_on: now, room, origin });
        Admission::Added
    }

    /// A frame that was learnt from a proposal and is now submitted no longer takes up the room
    /// for what is learnt, if there is room for it elsewhere.
    fn promote(&mut self, arrival: u64, room: Room) {
        let Some(entry) = self.by_arrival.get(&arrival) else { return };
        let frame = Arc::clone(&entry.frame);
        if (entry.room, room) != (Room::Learnt, Room::Submitted) || !self.has_room(&frame, room) {
            return;
        }
        self.count(&frame, Room::Submitted);
        self.discount(&frame, Room::Learnt);
        if let Some(entry) = self.by_arrival.get_mut(&arrival) {
            entry.room = Room::Submitted;
        }
    }

    /// A frame that another replica passed on came from its client as well: it takes up nothing of
    /// that replica's share, and does not wait until others tell of it.
    fn came_from_its_client(&mut self, arrival: u64, origin: Origin) {
        let Some(entry) = self.by_arrival.get_mut(&arrival) else { return };
        let (Origin::RelayedBy(peer), Origin::Client) = (entry.origin, origin) else { return };
        entry.origin = origin;
        if let Some(usage) = self.peers.get_mut(&peer) {
            usage.subtract(&entry.frame);
        }
    }

    /// Whether there is room for it `beside` so many frames of its key, if it is a step of a key
    /// generation: a member has few to say, and each costs as much as hundreds of frames.
    #[must_use]
    pub fn takes_step(&self, frame: &Frame, beside: usize) -> bool {
        let steps = self.keys.get(&frame.key()).map_or(0, |usages| usages.steps);
        steps + beside < MOST_STEPS || !frame.is_step(Rules::EVERY_FORMAT)
    }

    fn has_room(&self, frame: &Frame, room: Room) -> bool {
        if !self.takes_step(frame, 0) {
            return false;
        }
        let total = match room {
            Room::Submitted => self.limits.submitted,
            Room::Learnt => self.limits.learnt,
        };
        let lane = self.lanes.get(&lane_id(frame)).map(|lane| &lane.usages);
        let bounds = [
            (Some(&self.total), total),
            (self.keys.get(&frame.key()), self.limits.key),
            (lane, self.limits.session),
        ];
        bounds.into_iter().all(|(usages, cap)| {
            let usage = usages.map_or_else(Usage::default, |usages| usages.of(room));
            cap.takes(usage, frame)
        })
    }

    /// Whether a replica that passed a frame on may have one more here.
    fn takes_from(&self, origin: Origin, frame: &Frame) -> bool {
        let Origin::RelayedBy(peer) = origin else { return true };
        let usage = self.peers.get(&peer).copied().unwrap_or_default();
        self.peer.takes(usage, frame)
    }

    fn count(&mut self, frame: &Frame, room: Room) {
        self.total.add(frame, room);
        self.keys.entry(frame.key()).or_default().add(frame, room);
        self.lanes.entry(lane_id(frame)).or_default().usages.add(frame, room);
    }

    fn discount(&mut self, frame: &Frame, room: Room) {
        self.total.subtract(frame, room);
        if let Some(usages) = self.keys.get_mut(&frame.key()) {
            usages.subtract(frame, room);
            if usages.is_empty() {
                self.keys.remove(&frame.key());
            }
        }
        if let Some(lane) = self.lanes.get_mut(&lane_id(frame)) {
            lane.usages.subtract(frame, room);
            if lane.usages.is_empty() {
                self.lanes.remove(&lane_id(frame));
            }
        }
    }

    /// Removes what a block that was committed and executed held; `sessions` is the state behind
    /// it. Returns the frames that it settled besides (the same commands in other frames, or those
    /// of a session that ended): they are removed too, and their clients are to be
    /// [answered](Sessions::answer).
    pub fn committed(&mut self, frames: &[SharedFrame], sessions: &Sessions) -> Vec<SharedFrame> {
        let mut touched = BTreeSet::new();
        for frame in frames {
            self.remove(&frame.id());
            touched.insert(lane_id(frame));
        }
        let settled: Vec<_> =
            touched.into_iter().flat_map(|lane| self.settled_in(lane, sessions)).collect();
        for frame in &settled {
            self.remove(&frame.id());
        }
        settled
    }

    /// Removes all that needs no ordering any more, now that a later state was taken over. Returns
    /// the frames that it settled, whose clients are to be [answered](Sessions::answer).
    pub fn taken_over(&mut self, sessions: &Sessions) -> Vec<SharedFrame> {
        let held: Vec<SharedFrame> =
            self.by_arrival.values().map(|entry| Arc::clone(&entry.frame)).collect();
        let mut settled = Vec::new();
        for frame in held {
            match sessions.standing(&frame) {
                Standing::New => continue,
                Standing::Waiting => self.remove(&frame.id()),
                Standing::Settled(_) => {
                    self.remove(&frame.id());
                    settled.push(frame);
                }
            }
        }
        settled
    }

    /// The frames that need no ordering any more: of a lane, or, if it is that of requests to open
    /// a session, of all lanes of the key, as such a request may have ended a session.
    fn settled_in(&self, lane: LaneId, sessions: &Sessions) -> Vec<SharedFrame> {
        let (key, session) = lane;
        let last = if session == SessionId(0) { SessionId(u64::MAX) } else { session };
        let lanes = self.lanes.range(lane..=(key, last));
        let mut settled = Vec::new();
        for ((_, session), lane) in lanes {
            // Frames that begin later have not executed. In a session that is gone all are settled.
            let next = sessions.next_number(*session);
            let reached = lane.frames.values().take_while(|f| next.is_none_or(|n| f.first() < n));
            settled.extend(reached.filter(|f| sessions.answer(f).is_some()).map(Arc::clone));
        }
        settled
    }

    /// Lets go of the frames of which this holds. Their clients send them again.
    pub fn drop_where(&mut self, is_dropped: impl Fn(&Frame) -> bool) {
        let held = self.by_arrival.values();
        let dropped = held.filter(|entry| is_dropped(&entry.frame)).map(|entry| entry.frame.id());
        for id in dropped.collect::<Vec<_>>() {
            self.remove(&id);
        }
    }

    /// Forgets frames but not that they were here: they are never taken in again.
    #[cfg(quorate_mutants)]
    pub(crate) fn take_out(&mut self, frames: Vec<SharedFrame>) -> Vec<SharedFrame> {
        for frame in &frames {
            self.remove(&frame.id());
            self.by_id.insert(frame.id(), u64::MAX);
        }
        frames
    }

    fn remove(&mut self, id: &FrameId) {
        let Some(arrival) = self.by_id.remove(id) else { return };
        let Some(entry) = self.by_arrival.remove(&arrival) else { return };
        let Entry { frame, room, origin, .. } = entry;
        self.unrelayed.remove(&arrival);
        if let Origin::RelayedBy(peer) = origin
            && let Some(usage) = self.peers.get_mut(&peer)
        {
            usage.subtract(&frame);
        }
        if let Some(lane) = self.lanes.get_mut(&lane_id(&frame)) {
            lane.frames.remove(&place(&frame));
        }
        self.discount(&frame, room);
    }

    /// The frames that came from clients before `time` and were not passed on, oldest first. They
    /// count as passed on from now: send them to the other replicas, one of which may lead before
    /// this one does.
    pub fn unrelayed_before(&mut self, time: Time, now: Time) -> Vec<SharedFrame> {
        let mut frames = Vec::new();
        while let Some(arrival) = self.unrelayed.first().copied() {
            match self.by_arrival.get_mut(&arrival) {
                Some(entry) if entry.arrived >= time => break,
                Some(entry) => {
                    entry.passed_on = now;
                    frames.push(Arc::clone(&entry.frame));
                }
                None => {}
            }
            self.unrelayed.pop_first();
        }
        frames
    }

    /// The client of a frame that is here asks for it again: whether it is to be passed on again,
    /// which it is if that was last done before `time`. It counts as passed on `now` then. (What
    /// was passed on may have been lost, and the client reach no other replica.)
    pub fn pass_on_again(&mut self, id: &FrameId, time: Time, now: Time) -> bool {
        let Some(arrival) = self.by_id.get(id) else { return false };
        let Some(entry) = self.by_arrival.get_mut(arrival) else { return false };
        let due = entry.passed_on < time;
        if due {
            entry.passed_on = now;
            self.unrelayed.remove(arrival);
        }
        due
    }
}

impl Origin {
    fn room(self) -> Room {
        match self {
            Self::Client | Self::Relayed | Self::RelayedBy(_) => Room::Submitted,
            Self::Proposal => Room::Learnt,
        }
    }
}

impl Usages {
    fn of(&self, room: Room) -> Usage {
        match room {
            Room::Submitted => self.submitted,
            Room::Learnt => self.learnt,
        }
    }

    fn of_mut(&mut self, room: Room) -> &mut Usage {
        match room {
            Room::Submitted => &mut self.submitted,
            Room::Learnt => &mut self.learnt,
        }
    }

    fn add(&mut self, frame: &Frame, room: Room) {
        self.of_mut(room).add(frame);
        self.steps += usize::from(frame.is_step(Rules::EVERY_FORMAT));
    }

    fn subtract(&mut self, frame: &Frame, room: Room) {
        self.of_mut(room).subtract(frame);
        self.steps -= usize::from(frame.is_step(Rules::EVERY_FORMAT));
    }

    fn is_empty(&self) -> bool {
        self.submitted.frames + self.learnt.frames == 0
    }
}

impl Usage {
    fn add(&mut self, frame: &Frame) {
        self.frames += 1;
        self.bytes += frame.encoded_bytes().len();
    }

    fn subtract(&mut self, frame: &Frame) {
        self.frames -= 1;
        self.bytes -= frame.encoded_bytes().len();
    }
}

fn lane_id(frame: &Frame) -> LaneId {
    (frame.key(), frame.session())
}

fn place(frame: &Frame) -> Place {
    (frame.first(), frame.id())
}
