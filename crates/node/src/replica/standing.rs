//! Whose signatures have held: what a connection may cost others.
//!
//! One frame whose signature does not hold makes the batch that it is in fail, and the replica
//! looks for it by bisection: work that is done for everybody's frames. So a connection has as many
//! frames in the common batch as it has sent good ones, and none once one was bad: it is verified
//! apart from then on, at its own cost. After [`MOST_BAD`] its end has come.

use std::collections::BTreeMap;

use quorate_core::base::crypto::PublicKey;
use quorate_transport::ConnectionId;

/// Bad signatures after which a connection ends.
const MOST_BAD: u8 = 4;

/// The standing of each connection that sent a frame.
#[derive(Debug, Default)]
pub struct Standings(BTreeMap<ConnectionId, Standing>);

#[derive(Clone, Copy, Debug, Default)]
struct Standing {
    good: u32,
    bad: u8,
    /// The key whose signature held last.
    key: Option<PublicKey>,
}

impl Standings {
    /// How many frames of `connection` may be verified together with those of others.
    #[must_use]
    pub fn trusted(&self, connection: ConnectionId) -> usize {
        let standing = self.0.get(&connection).copied().unwrap_or_default();
        if standing.bad > 0 { 0 } else { standing.good as usize }
    }

    /// A signature of `key` held.
    pub fn good(&mut self, connection: ConnectionId, key: PublicKey) {
        let standing = self.0.entry(connection).or_default();
        standing.key = Some(key);
        standing.good = standing.good.saturating_add(1);
    }

    /// A signature did not hold. Whether the connection ends for it.
    pub fn bad(&mut self, connection: ConnectionId) -> bool {
        let standing = self.0.entry(connection).or_default();
        standing.bad = standing.bad.saturating_add(1);
        standing.bad == MOST_BAD
    }

    /// Whether `connection` is that of the holder of `key`, as far as the signature shows that held
    /// on it last.
    #[must_use]
    pub fn is_of(&self, connection: ConnectionId, key: &PublicKey) -> bool {
        self.0.get(&connection).is_some_and(|standing| standing.key.as_ref() == Some(key))
    }

    /// Whether the end of `connection` has come.
    #[must_use]
    pub fn is_ended(&self, connection: ConnectionId) -> bool {
        self.0.get(&connection).is_some_and(|standing| standing.bad >= MOST_BAD)
    }

    /// `connection` is gone.
    pub fn forget(&mut self, connection: ConnectionId) {
        self.0.remove(&connection);
    }

    /// How many connections have one.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
