//! The way to the other replicas and to clients. In a laboratory an adversary may stand in it.
//!
//! Outside of a laboratory there is none, and messages go straight to the transport.

#[cfg(feature = "laboratory")]
mod byzantine;

use std::sync::Arc;

use bytes::Bytes;
use quorate_core::ReplicaId;
use quorate_core::base::crypto::{Scheme, Signer};
use quorate_core::client::message::Response;
use quorate_core::protocols::protocol::Types;
use quorate_core::replica::message::PeerMessage;
use quorate_transport::{Member, Peers, Versions};

use super::metrics::Metrics;
use crate::adversary::Schedule;
use crate::family::Attacked;

/// The way to the other replicas.
#[derive(Clone)]
pub struct Links {
    peers: Arc<Peers>,
    between: Option<Arc<dyn Between>>,
}

/// What stands between a replica and its links, and may bend what passes.
trait Between: Send + Sync {
    /// See [`Links::send`].
    fn send(&self, to: ReplicaId, message: &Bytes);

    /// See [`Links::broadcast`].
    fn broadcast(&self, message: &Bytes);

    /// See [`Links::received`].
    fn received(&self, from: ReplicaId, message: &Bytes);

    /// See [`Links::answers`].
    fn answers(&self, response: Response) -> Vec<Response>;

    /// The replica ends.
    fn close(&self);
}

/// What an adversary needs of the replica it stands around.
pub struct Keys {
    /// The replica.
    pub me: ReplicaId,
    /// The protocol.
    pub attacked: Attacked,
    /// Signs with its key.
    pub signer: Arc<dyn Signer>,
    /// Verifies and joins.
    pub scheme: Arc<dyn Scheme>,
}

impl Links {
    /// The way straight to the transport.
    #[must_use]
    pub fn honest(peers: Arc<Peers>) -> Self {
        Self { peers, between: None }
    }

    /// The way through the adversary that `schedule` describes, on a thread of its own. Its time
    /// begins now.
    ///
    /// # Errors
    /// An adversary of the schedule is none of the protocol, or the system gave no thread.
    #[cfg(feature = "laboratory")]
    pub fn byzantine(
        peers: Arc<Peers>,
        schedule: &Schedule,
        keys: Keys,
        metrics: Arc<Metrics>,
    ) -> std::io::Result<Self> {
        let between = byzantine::start(&peers, schedule, keys, metrics)?;
        Ok(Self { peers, between: Some(between) })
    }

    /// There is no adversary in this build, and so no schedule.
    ///
    /// # Errors
    /// Never.
    #[cfg(not(feature = "laboratory"))]
    pub fn byzantine(
        _: Arc<Peers>,
        schedule: &Schedule,
        _: Keys,
        _: Arc<Metrics>,
    ) -> std::io::Result<Self> {
        match *schedule {}
    }

    /// Sends an encoded message to one replica.
    pub fn send(&self, to: ReplicaId, message: Bytes) {
        match &self.between {
            None => self.peers.send(to, message),
            Some(between) => between.send(to, &message),
        }
    }

    /// Sends an encoded message to all other replicas.
    pub fn broadcast(&self, message: &Bytes) {
        match &self.between {
            None => self.peers.broadcast(message),
            Some(between) => between.broadcast(message),
        }
    }

    /// Sends an encoded message to those other replicas with whom at least this version of the
    /// wire protocol is spoken.
    pub fn broadcast_since(&self, version: u16, message: &Bytes) {
        match &self.between {
            None => self.peers.broadcast_since(version, message),
            Some(between) => between.broadcast(message),
        }
    }

    /// Whether at least this version of the wire protocol is spoken with a replica.
    #[must_use]
    pub fn speaks(&self, to: ReplicaId, version: u16) -> bool {
        self.peers.version(to) >= Some(version)
    }

    /// Sends an encoded message to all other replicas, behind all other messages.
    pub fn broadcast_behind(&self, message: &Bytes) {
        match &self.between {
            None => self.peers.broadcast_behind(message),
            Some(between) => between.broadcast(message),
        }
    }

    /// An encoded message has arrived.
    pub fn received(&self, from: ReplicaId, message: &Bytes) {
        if let Some(between) = &self.between {
            between.received(from, message);
        }
    }

    /// What a client is answered.
    pub fn answers(&self, response: Response) -> Vec<Response> {
        match &self.between {
            None => vec![response],
            Some(between) => between.answers(response),
        }
    }

    /// See [`Peers::change_members`].
    pub fn change_members(&self, members: Vec<Option<Member>>) {
        self.peers.change_members(members);
    }

    /// See [`Peers::changes`].
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.peers.changes()
    }

    /// The others that are connected now, ascending.
    #[must_use]
    pub fn connected(&self) -> Vec<ReplicaId> {
        self.peers.connected()
    }

    /// See [`Peers::connections`].
    #[must_use]
    pub fn connections(&self) -> Vec<(ReplicaId, u64)> {
        self.peers.connections()
    }

    /// See [`Peers::versions`].
    #[must_use]
    pub fn versions(&self) -> Versions {
        self.peers.versions()
    }

    /// The replica ends: so does the adversary.
    pub fn close(&self) {
        if let Some(between) = &self.between {
            between.close();
        }
    }
}

/// The first version of the wire protocol that has a message; 0: each that is spoken.
#[must_use]
pub fn version_of<T: Types>(message: &PeerMessage<T>) -> u16 {
    if matches!(message, PeerMessage::Held(_)) { Versions::TELLS_HELD } else { 0 }
}
