//! Which channels to peers have opened since the last look.
//!
//! The replica tells a peer where it stands when its channel opens, for messages that were on their
//! way over an earlier channel are lost. A turn may take longer than a peer needs to come back. So
//! channels are told apart by their numbers: the same peers may be connected over others.

use quorate_core::ReplicaId;

/// The channels that were open at the last look.
#[derive(Debug, Default)]
pub struct Channels {
    open: Vec<(ReplicaId, u64)>,
    /// How often channels had opened or closed by then.
    changes: u64,
}

impl Channels {
    /// Looks at the channels that are open, unless nothing has changed since the last look.
    /// Returns the peers whose channel has opened since.
    pub fn look(
        &mut self,
        changes: u64,
        open: impl FnOnce() -> Vec<(ReplicaId, u64)>,
    ) -> Option<Vec<ReplicaId>> {
        if changes == self.changes {
            return None;
        }
        self.changes = changes;
        let before = std::mem::replace(&mut self.open, open());
        let new = self.open.iter().filter(|channel| !before.contains(channel));
        Some(new.map(|(peer, _)| *peer).collect())
    }

    /// How many are open.
    #[must_use]
    pub fn count(&self) -> usize {
        self.open.len()
    }
}
