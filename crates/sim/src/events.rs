//! What will happen, in the order of time and, at one instant, in the order in which it was
//! scheduled.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use bytes::Bytes;
use quorate_core::base::crypto::Signature;
use quorate_core::client::message::{Request, Response};
use quorate_core::ledger::frame::SharedFrame;
use quorate_core::replica::Action;
use quorate_core::replica::message::Offer;
use quorate_core::{Height, Time};

use super::Peer;
use super::family::Family;

/// A message under way: as it was sent, or as its bytes.
pub(crate) enum Parcel<F: Family> {
    Message(Arc<Peer<F>>),
    Bytes(Bytes),
}

pub(crate) enum Event<F: Family> {
    Deliver { to: usize, from: usize, sent: Time, parcel: Parcel<F> },
    Connected { to: usize, peer: usize },
    Frame { to: usize, frame: SharedFrame, relay: bool },
    Verified { to: usize, life: u64, ask: u64, verdicts: Vec<bool> },
    Combined { to: usize, life: u64, ask: u64, signature: Option<Signature> },
    SnapshotWritten { to: usize, life: u64, height: Height },
    Offered { to: usize, life: u64, offer: Box<Offer<F::Types>> },
    Released { from: usize, life: u64, actions: Vec<Action<F::Types>> },
    Answer { from: usize, client: usize, response: Response },
    Wake { client: usize },
    Ask { to: usize, request: Request },
    Told { from: usize, response: Response },
    WakeReader,
    Tick { slot: usize },
}

impl<F: Family> Event<F> {
    /// Whose turn it leads to.
    pub(crate) fn slot(&self) -> Option<usize> {
        match self {
            Self::Deliver { to, .. }
            | Self::Connected { to, .. }
            | Self::Frame { to, .. }
            | Self::Verified { to, .. }
            | Self::Combined { to, .. }
            | Self::SnapshotWritten { to, .. }
            | Self::Ask { to, .. }
            | Self::Offered { to, .. } => Some(*to),
            Self::Released { .. }
            | Self::Answer { .. }
            | Self::Told { .. }
            | Self::WakeReader
            | Self::Wake { .. }
            | Self::Tick { .. } => None,
        }
    }

    /// Tells kinds apart in the hash of a run.
    pub(crate) fn code(&self) -> u64 {
        match self {
            Self::Deliver { to, from, .. } => 1 | (*to as u64) << 8 | (*from as u64) << 24,
            Self::Connected { to, peer } => 2 | (*to as u64) << 8 | (*peer as u64) << 24,
            Self::Frame { to, .. } => 3 | (*to as u64) << 8,
            Self::Verified { to, ask, .. } => 4 | (*to as u64) << 8 | ask << 24,
            Self::Combined { to, ask, .. } => 5 | (*to as u64) << 8 | ask << 24,
            Self::SnapshotWritten { to, height, .. } => 6 | (*to as u64) << 8 | height.0 << 24,
            Self::Offered { to, .. } => 7 | (*to as u64) << 8,
            Self::Answer { from, client, .. } => 8 | (*from as u64) << 8 | (*client as u64) << 24,
            Self::Wake { client } => 9 | (*client as u64) << 8,
            Self::Released { from, .. } => 10 | (*from as u64) << 8,
            Self::Tick { slot } => 11 | (*slot as u64) << 8,
            Self::Ask { to, .. } => 12 | (*to as u64) << 8,
            Self::Told { from, .. } => 13 | (*from as u64) << 8,
            Self::WakeReader => 14,
        }
    }
}

/// The queue. Events stay where they are; what moves in the heap are their places.
pub(crate) struct Events<F: Family> {
    heap: BinaryHeap<Reverse<(Time, u64, u32)>>,
    places: Vec<Option<Event<F>>>,
    free: Vec<u32>,
    scheduled: u64,
}

impl<F: Family> Default for Events<F> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), places: Vec::new(), free: Vec::new(), scheduled: 0 }
    }
}

impl<F: Family> Events<F> {
    pub(crate) fn push(&mut self, at: Time, event: Event<F>) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() as u32 - 1
        });
        self.places[place as usize] = Some(event);
        self.scheduled += 1;
        self.heap.push(Reverse((at, self.scheduled, place)));
    }

    /// When the next event happens.
    pub(crate) fn next(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((at, _, _))| *at)
    }

    pub(crate) fn pop(&mut self) -> Option<Event<F>> {
        let Reverse((_, _, place)) = self.heap.pop()?;
        self.free.push(place);
        self.places[place as usize].take()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Event<F>> {
        self.places.iter().flatten()
    }
}
