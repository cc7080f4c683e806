//! Where a replica stands between epochs: how those before ended, whether this one is sealed, and
//! who is further. What follows from it is in [`succession`](super::succession).

use std::collections::{BTreeMap, BTreeSet};

use crate::base::types::{Digest, Duration, Epoch, Height, ReplicaId, Time};
use crate::ledger::block::BlockId;
use crate::protocols::protocol::{Decision, FullBlockOf, MAX_VOID_BLOCKS, SharedHandover, Types};

/// A peer is told a handover again, or an earlier one, this often at most.
const AGAIN_AFTER: Duration = Duration::from_millis(100);
/// Whoever is behind asks this often, one peer after another.
const ASKS_EVERY: Duration = Duration::from_millis(300);

/// Whether a replica may speak in the epoch that it is in ([`voice`](super::voice)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Voice {
    /// It knows what it said there.
    Speaks,
    /// It lost its memory, and waits for testimonies. The protocol has not begun.
    Asks,
    /// It knows that the epoch has ended, and not what it said there. It comes to the end.
    Mute,
}

/// What was on the disk of an epoch beyond that of the state.
#[derive(Debug)]
pub(super) struct Kept<T: Types> {
    pub epoch: Epoch,
    /// As [`Recovery::memory`](super::Recovery).
    pub memory: Option<T::Memory>,
    /// Recorded blocks, in the order they were recorded.
    pub blocks: Vec<FullBlockOf<T>>,
}

/// Where a replica stands between epochs.
#[derive(Debug)]
pub(super) struct Epochs<T: Types> {
    /// By the epoch that ended, from the first.
    handovers: Vec<SharedHandover<T>>,
    /// The height and the root of the sealed state, from the sealing block to the next epoch.
    pub sealed: Option<(Height, Digest)>,
    /// What was decided above the sealing block. The handover has these blocks with their frames.
    void: BTreeSet<BlockId>,
    /// Peers known to be in a later epoch, and in which: they have what this one lacks.
    pub ahead: BTreeMap<ReplicaId, Epoch>,
    /// When one of them is asked next.
    pub asks_at: Option<Time>,
    /// How many were asked.
    asked: usize,
    /// What each peer was told last, and when.
    told: BTreeMap<ReplicaId, (Epoch, Time)>,
    /// Handovers of the current epoch and those behind it, believed by their signatures alone.
    pub believed: Vec<SharedHandover<T>>,
    /// Up to this epoch handovers are to be believed so: a state of it is offered.
    pub skips_to: Option<Epoch>,
    /// Whether it may speak in the current epoch.
    pub voice: Voice,
    /// What it remembers of a later epoch than that of its state.
    pub kept: Option<Kept<T>>,
}

impl<T: Types> Epochs<T> {
    pub fn first() -> Self {
        Self {
            handovers: Vec::new(),
            sealed: None,
            void: BTreeSet::new(),
            ahead: BTreeMap::new(),
            asks_at: None,
            asked: 0,
            told: BTreeMap::new(),
            believed: Vec::new(),
            skips_to: None,
            voice: Voice::Speaks,
            kept: None,
        }
    }

    /// Whether the replica may say something in the current epoch.
    pub fn speaks(&self) -> bool {
        self.voice == Voice::Speaks
    }

    /// Whether it waits for testimonies.
    pub fn asks(&self) -> bool {
        self.voice == Voice::Asks
    }

    /// The ends of epochs, from the first.
    pub fn handovers(&self) -> &[SharedHandover<T>] {
        &self.handovers
    }

    /// The end of an epoch, if it has ended.
    pub fn ended(&self, epoch: Epoch) -> Option<&SharedHandover<T>> {
        self.handovers.get(usize::try_from(epoch.0).ok()?)
    }

    /// The height of the sealed state, if the epoch is sealed and the next has not begun.
    pub fn sealed(&self) -> Option<Height> {
        self.sealed.map(|(height, _)| height)
    }

    /// Notes blocks that are decided above the sealing one.
    pub fn are_void<'a>(&mut self, decisions: impl IntoIterator<Item = &'a Decision<T>>) {
        let blocks = decisions.into_iter().filter_map(Decision::block);
        let room = MAX_VOID_BLOCKS.saturating_sub(self.void.len());
        self.void.extend(blocks.map(|block| block.id()).take(room));
    }

    /// Whether a block is decided and void.
    pub fn is_void(&self, block: &BlockId) -> bool {
        self.void.contains(block)
    }

    /// The first epoch's end at or above a height: where a peer that is there has to come through.
    pub fn end_above(&self, height: Height) -> Option<&SharedHandover<T>> {
        self.handovers.iter().find(|handover| handover.state.height >= height)
    }

    /// Whether a peer may be told now how an epoch ended. If so, that is noted.
    pub fn may_tell(&mut self, now: Time, to: ReplicaId, epoch: Epoch) -> bool {
        let last = self.told.get(&to);
        let may = last.is_none_or(|(last, at)| epoch > *last || now >= at.after(AGAIN_AFTER));
        if may {
            self.told.insert(to, (epoch, now));
        }
        may
    }

    /// When a peer is to be asked.
    pub fn deadline(&self) -> Option<Time> {
        self.asks_at
    }

    /// The peer to ask now, if it is time.
    pub fn ask(&mut self, now: Time) -> Option<ReplicaId> {
        self.asks_at.filter(|at| now >= *at)?;
        let peers = self.ahead.len().max(1);
        let peer = self.ahead.keys().nth(self.asked % peers).copied();
        self.asked += 1;
        self.asks_at = peer.map(|_| now.after(ASKS_EVERY));
        peer
    }

    /// Notes that an epoch has ended and the next begins.
    pub fn passed(&mut self, handover: SharedHandover<T>) {
        let epoch = handover.next.epoch();
        self.handovers.push(handover);
        (self.sealed, self.void) = (None, BTreeSet::new());
        self.ahead.retain(|_, theirs| *theirs > epoch);
        // Those who are further are asked at once.
        self.asks_at = self.ahead.first_key_value().map(|_| Time(0));
        self.believed.retain(|believed| believed.ended() >= epoch);
        self.skips_to.take_if(|to| *to <= epoch);
    }
}
