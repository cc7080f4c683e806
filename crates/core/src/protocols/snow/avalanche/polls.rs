//! The polls under way.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::super::sampling::Asked;
use super::names::VertexId;
use crate::base::types::{ReplicaId, Time};

/// A poll.
#[derive(Clone, Debug)]
pub(super) struct Poll {
    pub(super) vertex: VertexId,
    pub(super) waiting: Vec<Asked>,
    pub(super) yes: u32,
    pub(super) no: u32,
    /// Seats that will not answer.
    pub(super) missing: u32,
    /// Each negative answer's seats, and what it names.
    pub(super) against: Vec<(u32, Vec<VertexId>)>,
    /// How often this vertex was asked about before.
    pub(super) repeated: u32,
    pub(super) own: bool,
}

/// All polls, by number.
#[derive(Clone, Debug, Default)]
pub(super) struct Polls {
    pub(super) open: BTreeMap<u64, Poll>,
    /// When each ends, in this order; decided ones are in it still.
    ends: VecDeque<(Time, u64)>,
    /// Vertices to ask about, whether they are this node's, and how often they were asked about.
    pub(super) queue: VecDeque<(VertexId, bool, u32)>,
    next: u64,
    /// Own vertices in the queue or under way.
    pub(super) own: usize,
}

impl Polls {
    /// Numbers polls on from earlier ones.
    pub(super) fn go_on_from(&mut self, earlier: &Self) {
        self.next = earlier.next;
    }

    pub(super) fn add(&mut self, poll: Poll, end: Time) -> u64 {
        let number = self.next;
        self.next += 1;
        self.open.insert(number, poll);
        self.ends.push_back((end, number));
        number
    }

    /// Forgets the vertices in the queue that are not here any more, and keeps one place for each
    /// of the others.
    pub(super) fn forget(&mut self, is_here: impl Fn(&VertexId) -> bool) {
        let (mut seen, mut own) = (BTreeSet::new(), 0);
        self.queue.retain(|(id, is_own, _)| {
            let is_kept = is_here(id) && seen.insert(*id);
            own += usize::from(*is_own && !is_kept);
            is_kept
        });
        self.own -= own;
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<Poll> {
        let poll = self.open.remove(&number)?;
        while self.ends.front().is_some_and(|(_, number)| !self.open.contains_key(number)) {
            self.ends.pop_front();
        }
        Some(poll)
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.ends.front().map(|(end, _)| *end)
    }

    pub(super) fn take_expired(&mut self, now: Time) -> Vec<u64> {
        let mut expired = Vec::new();
        while let Some((_, number)) = self.ends.pop_front_if(|(end, _)| *end <= now) {
            if self.open.contains_key(&number) {
                expired.push(number);
            }
        }
        expired
    }

    /// Those that wait for this peer.
    pub(super) fn all_of(&self, peer: ReplicaId) -> Vec<u64> {
        let waits = |poll: &Poll| poll.waiting.iter().any(|asked| asked.peer == peer);
        self.open.iter().filter(|(_, poll)| waits(poll)).map(|(number, _)| *number).collect()
    }
}
