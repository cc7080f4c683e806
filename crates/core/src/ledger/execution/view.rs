//! A frozen state that proves what it holds.

use bytes::Bytes;

use crate::base::types::{Digest, Height};
use crate::base::wire::{Decode, DecodeError, Encode, Reader};
use crate::ledger::state_machine::{ProveError, Prover};

/// What the root of a state is the hash of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateSummary {
    /// The height of the state.
    pub height: Height,
    /// The block behind which it stands.
    pub block_id: Digest,
    /// The application's root.
    pub application: Digest,
    /// The session table's root.
    pub sessions: Digest,
    /// The [digest](crate::base::membership::Committee::digest) of the members that order the next
    /// block: in the last state of an epoch those of the next. Zero where members are fixed.
    pub members: Digest,
    /// The [digest](crate::ledger::clients::Clients::digest) of the list of clients. Zero as long
    /// as nobody has made one.
    pub clients: Digest,
}

impl StateSummary {
    /// The root of the state, as blocks carry it.
    #[must_use]
    pub fn root(&self) -> Digest {
        Digest::of("quorate state", &self.to_bytes())
    }
}

impl Encode for StateSummary {
    fn encode(&self, out: &mut Vec<u8>) {
        self.height.encode(out);
        self.block_id.encode(out);
        self.application.encode(out);
        self.sessions.encode(out);
        self.members.encode(out);
        self.clients.encode(out);
    }
}

impl Decode for StateSummary {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            height: Height::decode(reader)?,
            block_id: Digest::decode(reader)?,
            application: Digest::decode(reader)?,
            sessions: Digest::decode(reader)?,
            members: Digest::decode(reader)?,
            clients: Digest::decode(reader)?,
        })
    }
}

/// A state of one height, frozen.
pub struct View {
    pub(super) summary: StateSummary,
    pub(super) prover: Box<dyn Prover>,
}

impl View {
    /// Which state it is.
    #[must_use]
    pub fn summary(&self) -> &StateSummary {
        &self.summary
    }

    /// What the application's state holds, with its proof; see [`Prover::prove`].
    ///
    /// # Errors
    /// [`ProveError`].
    pub fn prove(&mut self, question: &[u8]) -> Result<Bytes, ProveError> {
        self.prover.prove(question)
    }
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.summary.fmt(f)
    }
}
