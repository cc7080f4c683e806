//! Proposals whose frames are not all here yet.
//!
//! With clients that send to all replicas a body is usually here before the block that orders it.
//! When it is not, the proposer is asked for it, then the others in turn. One proposal a peer
//! waits, its latest: no peer can make this grow.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::block::SharedBlock;
use crate::crypto::Verified;
use crate::frame::{FrameId, SharedFrame};
use crate::types::{Duration, ReplicaId, Time};

/// How long a peer has to send bodies.
const PATIENCE: Duration = Duration::from_millis(50);

/// The proposals that wait.
#[derive(Debug)]
pub struct Arrivals<M> {
    by_peer: Vec<Option<Arrival<M>>>,
}

#[derive(Debug)]
struct Arrival<M> {
    message: Verified<M>,
    block: SharedBlock,
    bodies: BTreeMap<FrameId, Option<SharedFrame>>,
    missing: usize,
    /// How often bodies were asked for.
    asked: u16,
    deadline: Time,
}

/// A proposal that is complete: its sender, itself, its block, its bodies in order.
pub type Complete<M> = (ReplicaId, Verified<M>, SharedBlock, Vec<SharedFrame>);

impl<M> Arrivals<M> {
    /// No proposals, of `peers` peers.
    #[must_use]
    pub fn new(peers: usize) -> Self {
        Self { by_peer: std::iter::repeat_with(|| None).take(peers).collect() }
    }

    /// Takes in a proposal; `find` says which bodies are here. Returns the ids of those that are
    /// not: they are to be asked for.
    pub fn add(
        &mut self,
        now: Time,
        from: ReplicaId,
        message: Verified<M>,
        block: SharedBlock,
        find: impl Fn(&FrameId) -> Option<SharedFrame>,
    ) -> Vec<FrameId> {
        let bodies: BTreeMap<FrameId, Option<SharedFrame>> =
            block.frames.iter().map(|id| (*id, find(id))).collect();
        let lacking: Vec<FrameId> =
            bodies.iter().filter(|(_, body)| body.is_none()).map(|(id, _)| *id).collect();
        if let Some(place) = self.by_peer.get_mut(from.index()) {
            let (missing, deadline) = (lacking.len(), now.after(PATIENCE));
            *place = Some(Arrival { message, block, bodies, missing, asked: 1, deadline });
        }
        lacking
    }

    /// A body has come, from whomever.
    pub fn supply(&mut self, frame: &SharedFrame) {
        for arrival in self.by_peer.iter_mut().flatten() {
            if let Some(place @ None) = arrival.bodies.get_mut(&frame.id()) {
                *place = Some(Arc::clone(frame));
                arrival.missing -= 1;
            }
        }
    }

    /// Takes out a proposal that is complete now.
    pub fn take_complete(&mut self) -> Option<Complete<M>> {
        let complete = |place: &Option<Arrival<M>>| place.as_ref().is_some_and(|a| a.missing == 0);
        let at = self.by_peer.iter().position(complete)?;
        let arrival = self.by_peer.get_mut(at)?.take()?;
        let bodies = arrival
            .block
            .frames
            .iter()
            .filter_map(|id| arrival.bodies.get(id).cloned().flatten())
            .collect();
        Some((ReplicaId(at as u16), arrival.message, arrival.block, bodies))
    }

    /// What to ask for again, and whom: the proposer first, then each peer after it in turn.
    pub fn overdue(&mut self, now: Time) -> Vec<(ReplicaId, Vec<FrameId>)> {
        let peers = self.by_peer.len() as u16;
        let mut due = Vec::new();
        for (from, place) in self.by_peer.iter_mut().enumerate() {
            let Some(arrival) = place.as_mut().filter(|arrival| now >= arrival.deadline) else {
                continue;
            };
            let ids = arrival.bodies.iter().filter(|(_, b)| b.is_none()).map(|(id, _)| *id);
            due.push((ReplicaId((from as u16 + arrival.asked) % peers), ids.collect()));
            arrival.asked = (arrival.asked + 1) % peers;
            arrival.deadline = now.after(PATIENCE);
        }
        due
    }

    /// When [`overdue`](Self::overdue) is to be asked again.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.by_peer.iter().flatten().map(|arrival| arrival.deadline).min()
    }

    /// Forgets proposals of views below `view`: nobody will vote for them here.
    pub fn forget_below(&mut self, view: crate::types::View) {
        for place in &mut self.by_peer {
            if place.as_ref().is_some_and(|arrival| arrival.block.view < view) {
                *place = None;
            }
        }
    }
}
