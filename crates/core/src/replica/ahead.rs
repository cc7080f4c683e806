//! Frames that travel ahead of the proposals that name them ([`Dissemination::Ahead`]).
//!
//! A leader that sends each payload of B bytes to n − 1 replicas orders C / ((n − 1) B) payloads a
//! second over an uplink of C bytes a second. Here a replica passes on at once what a client sent
//! to it alone. So the n uplinks share the n − 1 copies of a payload, and a proposal only names it.
//!
//! # When a frame is proposed
//! Each replica tells all others which frames it holds and has verified (`PeerMessage::Held`). A
//! leader proposes a frame once a quorum holds it, or after it has waited for as long as frames
//! wait that are passed on late (`relay_after`).
//!
//! *Safety* does not depend on it. A frame's identity is its digest, and a replica votes for a
//! block only with all frames at hand.
//!
//! *Liveness* does not either. What no quorum is known to hold is proposed after the wait, and a
//! replica that lacks a body asks for it (`arrivals`). Dead and silent replicas delay nothing, for
//! the others are a quorum.
//!
//! *The leader's uplink* does. A replica could send its frames to the leader alone, and the leader
//! would have to send them to all others. Of a quorum that holds a frame f may lie, so f + 1
//! correct ones hold it, and at most f correct ones of n = 3f + 1 lack it. These ask replicas that
//! told of it, each another one, before they ask the leader.
//!
//! # Why nothing is signed
//! Only the choice of the leader depends on what it was told, and the channel tells it by whom. A
//! leader that lies about it proposes what others lack. It can do so anyway, and is asked for it.
//! (Narwhal, arXiv 2105.11827, section 3.1, needs signed certificates, as its validators vote for
//! certificates without the payload.)
//!
//! # What a liar can do
//! - It tells of what it lacks, or withholds frames from some: see above. A replica that lacks such
//!   a frame waits for it, if another one than the proposer told of it, for twice as long as
//!   others' frames take ([lags](super::lags)). It asks whoever told, who may lie too, and 50 ms
//!   later, or as much as it waited, the proposer. A replica that told of a frame and did not send
//!   it is neither asked nor waited for during [`SILENT_FOR`], unless it sends one after all. So a
//!   liar gains that in so much time, and not with each block.
//! - It tells without end: of each peer the last [`MOST_TOLD`] frames count, and no more than
//!   [`TOLD_A_MILLISECOND`] are looked at.
//! - It passes on without end: the mempool gives all liars together half of its room.
//! - It says nothing: a replica that has told of nothing since it connected is taken to hold what
//!   others passed on. It may run an older program, and to tell lies would do the same.

use std::collections::{BTreeMap, VecDeque};

use super::interface::Dissemination;
use super::lags::Lags;
use super::message::{MAX_HELD, ShortId};
use crate::base::membership::{Committee, MAX_REPLICAS};
use crate::base::per_peer::PerPeer;
use crate::base::types::{Duration, ReplicaId, Time};
use crate::ledger::frame::{FrameId, SharedFrame};

/// So many frames count that a peer told of, the latest ones.
const MOST_TOLD: usize = 8192;

/// So many frames that a peer tells of are looked at; [`MOST_TOLD`] at once, if it told of none for
/// long.
const TOLD_A_MILLISECOND: u64 = 64;

/// A message that tells of fewer costs as much.
const LEAST_TOLD: usize = 16;

/// A peer that did not send what it told of is not asked again for so long.
const SILENT_FOR: Duration = Duration::from_secs(10);

/// A replica tells of what it holds at most once in so much time for each replica that it tells:
/// what it sends for that is bounded, whatever their number.
const PAUSE_EACH: Duration = Duration::from_millis(1);

/// The holders of each frame, and what this replica still has to tell.
#[derive(Debug)]
pub(super) struct Ahead {
    dissemination: Dissemination,
    holders: BTreeMap<ShortId, Spread>,
    told: PerPeer<Told>,
    lags: Lags,
    /// What this replica has not told of yet.
    to_tell: VecDeque<ShortId>,
    /// When it may tell again.
    tells_at: Time,
    /// When a frame is proposed all the same that a block was made without.
    put_off: Option<Time>,
}

/// How far a frame has spread.
#[derive(Clone, Copy, Debug, Default)]
struct Spread {
    holders: Holders,
    /// When more replicas than lie had told of it.
    since: Option<Time>,
    /// Whether somebody passed it on to this replica.
    came: bool,
}

/// Some replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Holders([u64; MAX_REPLICAS / 64]);

/// What a peer told.
#[derive(Debug, Default)]
struct Told {
    /// Whether it told anything since it connected.
    tells: bool,
    /// Until when it is not asked.
    silent_until: Time,
    /// When what it tells will have been paid for.
    paid_at: Time,
    /// The frames, oldest first.
    ids: VecDeque<ShortId>,
}

impl Holders {
    fn contains(&self, replica: ReplicaId) -> bool {
        let word = self.0.get(replica.index() / 64).copied().unwrap_or_default();
        (word >> (replica.index() % 64)) & 1 == 1
    }

    /// Whether the replica was none of them before.
    fn insert(&mut self, replica: ReplicaId) -> bool {
        let is_new = !self.contains(replica);
        if let Some(word) = self.0.get_mut(replica.index() / 64) {
            *word |= 1 << (replica.index() % 64);
        }
        is_new
    }

    fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether none is left.
    fn remove(&mut self, replica: ReplicaId) -> bool {
        if let Some(word) = self.0.get_mut(replica.index() / 64) {
            *word &= !(1 << (replica.index() % 64));
        }
        *self == Self::default()
    }
}

impl Ahead {
    /// Nothing is known of `peers` replicas.
    pub fn new(dissemination: Dissemination, peers: usize) -> Self {
        Self {
            dissemination,
            holders: BTreeMap::new(),
            told: PerPeer::new(peers),
            lags: Lags::new(peers),
            to_tell: VecDeque::new(),
            tells_at: Time(0),
            put_off: None,
        }
    }

    /// Has accounts for so many replicas.
    pub fn grow(&mut self, peers: usize) {
        self.told.grow(peers);
        self.lags.grow(peers);
    }

    /// Whether frames travel ahead at all.
    pub fn is_on(&self) -> bool {
        self.dissemination == Dissemination::Ahead
    }

    /// A peer passes these frames on, so it holds them.
    pub fn passed_on(
        &mut self,
        now: Time,
        from: ReplicaId,
        ids: impl IntoIterator<Item = ShortId>,
        faults: usize,
    ) {
        for id in ids {
            let spread = self.holders.get(&id).copied().unwrap_or_default();
            // Of an executed body others may tell once more.
            let lag = match self.lags.take_executed(&id) {
                Some(since) => since.map(|since| now.since(since)),
                None if spread.came => None,
                None => Some(spread.since.map_or(Duration::ZERO, |since| now.since(since))),
            };
            if let Some(lag) = lag {
                self.lags.note(now, from, lag);
            }
            self.note(now, from, [id], faults);
            if let Some(spread) = self.holders.get_mut(&id) {
                spread.came = true;
            }
        }
    }

    /// How late frames usually are that a peer passes on.
    pub fn usual_lag(&self, now: Time) -> Option<Duration> {
        self.lags.usual(now)
    }

    /// A peer holds these frames, or says so. Whether that is news of any.
    pub fn note(
        &mut self,
        now: Time,
        from: ReplicaId,
        ids: impl IntoIterator<Item = ShortId>,
        faults: usize,
    ) -> bool {
        let Some(told) = self.told.get_mut(from) else { return false };
        let mut is_news = false;
        for id in ids {
            let spread = self.holders.entry(id).or_default();
            if !spread.holders.insert(from) {
                continue;
            }
            if spread.since.is_none() && spread.holders.count() > faults {
                spread.since = Some(now);
            }
            is_news = true;
            told.ids.push_back(id);
            if told.ids.len() > MOST_TOLD
                && let Some(oldest) = told.ids.pop_front()
            {
                forget(&mut self.holders, from, oldest);
            }
        }
        is_news
    }

    /// A peer tells what it holds, and of what it does not tell it holds nothing. Whether so much
    /// of what it tells is looked at.
    pub fn tells(&mut self, now: Time, peer: ReplicaId, count: usize) -> bool {
        let Some(told) = self.told.get_mut(peer) else { return false };
        told.tells = true;
        let nanoseconds =
            |frames: u64| Duration::from_nanos(frames * 1_000_000 / TOLD_A_MILLISECOND);
        // A message has a price, too.
        let paid_at = told.paid_at.max(now).after(nanoseconds(count.max(LEAST_TOLD) as u64));
        let has_room = paid_at <= now.after(nanoseconds(MOST_TOLD as u64));
        if has_room {
            told.paid_at = paid_at;
        }
        has_room
    }

    /// A peer did not send what it told of.
    pub fn was_silent(&mut self, now: Time, peer: ReplicaId) {
        if let Some(told) = self.told.get_mut(peer) {
            told.silent_until = now.after(SILENT_FOR);
        }
    }

    /// A peer sent frames that it was asked for, late perhaps.
    pub fn sent(&mut self, peer: ReplicaId) {
        if let Some(told) = self.told.get_mut(peer) {
            told.silent_until = Time(0);
        }
    }

    /// A peer connected: what it held before its restart it may have lost.
    pub fn connected(&mut self, peer: ReplicaId) {
        let Some(told) = self.told.get_mut(peer) else { return };
        told.tells = false;
        for id in std::mem::take(&mut told.ids) {
            forget(&mut self.holders, peer, id);
        }
    }

    /// These frames were executed.
    pub fn settled(&mut self, frames: &[SharedFrame]) {
        if self.is_on() {
            for frame in frames {
                let id = ShortId::of(&frame.id());
                let spread = self.holders.remove(&id).unwrap_or_default();
                self.lags.executed(id, spread.since.filter(|_| !spread.came));
            }
        }
    }

    /// Whether a quorum holds a frame that replica `me` has. Who tells nothing counts, if
    /// `counts_mute`.
    pub fn is_spread(
        &self,
        id: &FrameId,
        me: ReplicaId,
        committee: &Committee,
        counts_mute: bool,
    ) -> bool {
        let spread = self.holders.get(&ShortId::of(id)).copied().unwrap_or_default();
        let holders = spread.holders;
        let is_mute =
            |replica| counts_mute && self.told.get(replica).is_some_and(|told| !told.tells);
        let holds =
            |replica: &ReplicaId| *replica == me || holders.contains(*replica) || is_mute(*replica);
        committee.weight_of(committee.replicas().filter(holds)) >= committee.quorum()
    }

    /// Whom `me` asks for a frame: the next one behind it that told of it, does not propose it, and
    /// has not been silent of late.
    pub fn holder(
        &self,
        now: Time,
        id: &FrameId,
        me: ReplicaId,
        proposer: ReplicaId,
    ) -> Option<ReplicaId> {
        let Spread { holders, .. } = self.holders.get(&ShortId::of(id))?;
        let peers = self.told.replicas();
        let sends = |peer| self.told.get(peer).is_some_and(|told| told.silent_until <= now);
        let mut behind = (1..peers).map(|step| ReplicaId(((me.index() + step) % peers) as u16));
        behind.find(|peer| *peer != proposer && holders.contains(*peer) && sends(*peer))
    }

    /// This replica holds a frame that was passed on to it.
    pub fn tell(&mut self, id: &FrameId) {
        if self.is_on() && self.to_tell.len() < MOST_TOLD {
            self.to_tell.push_back(ShortId::of(id));
        }
    }

    /// The frames to tell of now.
    pub fn take_due(&mut self, now: Time) -> Option<Vec<ShortId>> {
        if self.to_tell.is_empty() || now < self.tells_at {
            return None;
        }
        self.tells_at = now.after(PAUSE_EACH * self.told.replicas() as u32);
        let count = self.to_tell.len().min(MAX_HELD);
        Some(self.to_tell.drain(..count).collect())
    }

    /// A block was made, and without frames until this instant; `None` outside: none was made.
    pub fn put_off(&mut self, until: Option<Option<Time>>) {
        if let Some(until) = until {
            self.put_off = until;
        }
    }

    /// Whether the last block was made without frames that wait.
    pub fn has_put_off(&self) -> bool {
        self.put_off.is_some()
    }

    /// Whether frames that a block was made without have waited long enough. They wait no more.
    pub fn take_put_off(&mut self, now: Time) -> bool {
        self.put_off.take_if(|until| *until <= now).is_some()
    }

    /// When something is to be told, or proposed.
    pub fn deadline(&self) -> Option<Time> {
        let tells_at = (!self.to_tell.is_empty()).then_some(self.tells_at);
        tells_at.into_iter().chain(self.put_off).min()
    }
}

fn forget(holders: &mut BTreeMap<ShortId, Spread>, peer: ReplicaId, id: ShortId) {
    if holders.get_mut(&id).is_some_and(|spread| spread.holders.remove(peer)) {
        holders.remove(&id);
    }
}

#[cfg(test)]
mod tests;
