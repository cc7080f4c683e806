//! How far the peers are.

use crate::base::per_peer::PerPeer;
use crate::base::types::{Height, ReplicaId, Time};

/// How far the peers are.
#[derive(Clone, Debug)]
pub(super) struct Peers {
    accepted: PerPeer<Height>,
    /// When each was helped last.
    pub helped: PerPeer<Option<Time>>,
    /// The height that was said last, how often, and when it is said again.
    pub said: (Height, u32),
    /// See [`said`](Self::said).
    pub repeat: Option<Time>,
}

impl Peers {
    /// All have the genesis block.
    pub fn new(replicas: usize) -> Self {
        let (accepted, helped) = (PerPeer::new(replicas), PerPeer::new(replicas));
        Self { accepted, helped, said: (Height(0), 0), repeat: None }
    }

    /// A peer says how far it has accepted. One such claim decides what that peer is told, and
    /// f + 1 of them that this replica is behind.
    pub fn hears(&mut self, peer: ReplicaId, accepted: Height) {
        if let Some(known) = self.accepted.get_mut(peer) {
            *known = accepted.max(*known);
        }
    }

    /// How many are above a height, as they say.
    pub fn above(&self, height: Height) -> usize {
        self.accepted.iter().filter(|accepted| **accepted > height).count()
    }

    /// Those that are not known to be as far as a height.
    pub fn below(&self, height: Height, me: ReplicaId) -> Vec<ReplicaId> {
        let below = |(peer, accepted): &(ReplicaId, &Height)| *peer != me && **accepted < height;
        self.accepted.of_each().filter(below).map(|(peer, _)| peer).collect()
    }
}
