//! The hello: the first frame in each direction. It names protocol version, chain and role.

use quorate_core::base::wire::{Decode as _, Encode as _, Reader};
use quorate_core::{Digest, ReplicaId, planted};

use bytes::Bytes;

use super::counters::{Counters, count};

/// The version of everything that follows the hello. A hello of another version is read only up to
/// this field.
pub const PROTOCOL_VERSION: u16 = 2;

const MAGIC: [u8; 8] = *b"quorate\x01";
/// The limit of a hello's length; every hello is shorter.
pub(super) const MAX_HELLO_BYTES: usize = 256;

/// The role of a participant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A replica, to another replica.
    Peer(ReplicaId),
    /// A client.
    Client,
    /// A replica, to a client.
    Server(ReplicaId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) chain: Digest,
    pub(super) role: Role,
}

/// The reason why the other side was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The other side does not speak this protocol at all.
    #[error("does not speak Quorate's protocol")]
    Garbage,
    /// The other side speaks another version of it.
    #[error("speaks version {0} of the protocol, not {PROTOCOL_VERSION}")]
    Version(u16),
    /// The other side belongs to another chain.
    #[error("belongs to chain {0}")]
    Chain(Digest),
    /// The other side is another participant than expected: a client on the port for replicas, or a
    /// replica with another number.
    #[error("is another kind of participant, or another replica")]
    Role,
}

impl Refusal {
    pub(super) fn count(self, counters: &Counters) {
        count(match self {
            Self::Garbage => &counters.bad_handshake,
            Self::Version(_) => &counters.wrong_version,
            Self::Chain(_) => &counters.wrong_chain,
            Self::Role => &counters.wrong_role,
        });
    }
}

impl Hello {
    pub(super) fn encode(&self) -> Bytes {
        let mut out = MAGIC.to_vec();
        PROTOCOL_VERSION.encode(&mut out);
        self.chain.encode(&mut out);
        let (role, id) = match self.role {
            Role::Peer(id) => (1u8, id),
            Role::Client => (2, ReplicaId(0)),
            Role::Server(id) => (3, id),
        };
        role.encode(&mut out);
        id.encode(&mut out);
        out.into()
    }

    /// Reads the other side's hello, which must name `chain`.
    pub(super) fn read(bytes: Bytes, chain: &Digest) -> Result<Role, Refusal> {
        let mut reader = Reader::new(bytes);
        if reader.array() != Ok(MAGIC) {
            return Err(Refusal::Garbage);
        }
        let version = reader.u16().map_err(|_| Refusal::Garbage)?;
        if planted!("older-hello-welcome", version > PROTOCOL_VERSION, version != PROTOCOL_VERSION,)
        {
            return Err(Refusal::Version(version));
        }
        let theirs = Digest::decode(&mut reader).map_err(|_| Refusal::Garbage)?;
        if theirs != *chain {
            return Err(Refusal::Chain(theirs));
        }
        let role = reader.u8().map_err(|_| Refusal::Garbage)?;
        let id = ReplicaId::decode(&mut reader).map_err(|_| Refusal::Garbage)?;
        reader.finish().map_err(|_| Refusal::Garbage)?;
        match role {
            1 => Ok(Role::Peer(id)),
            // A client has no number, so this field must be 0. Each role has exactly one encoding.
            2 if id == ReplicaId(0) => Ok(Role::Client),
            3 => Ok(Role::Server(id)),
            _ => Err(Refusal::Garbage),
        }
    }
}
