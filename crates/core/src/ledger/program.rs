//! What a replica says of its program: what an operator looks at who upgrades a cluster.

use bytes::Bytes;

use crate::base::membership::Rules;
use crate::base::types::Epoch;
use crate::base::wire::{Decode, DecodeError, Encode, Reader, put_bytes};

/// The most bytes of a release's name.
const MAX_RELEASE_BYTES: usize = 64;
/// The most bytes of the reason why it is not ready.
const MAX_REASON_BYTES: usize = 16 << 10;

/// What a replica says of its program. Its own word: nothing is switched on by it. The members'
/// signatures under a [change](super::change) are what counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The release, in UTF-8.
    pub release: Bytes,
    /// The oldest and the newest version of the wire protocol that it speaks.
    pub versions: (u16, u16),
    /// The newest rules that it supports.
    pub supports: Rules,
    /// The epoch that it executes in.
    pub epoch: Epoch,
    /// The rules in force there.
    pub rules: Rules,
    /// Why it would not say now that it is ready for another epoch, in UTF-8; empty if it would.
    pub not_ready: Bytes,
}

impl Encode for Program {
    fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, &self.release);
        self.versions.0.encode(out);
        self.versions.1.encode(out);
        self.supports.encode(out);
        self.epoch.encode(out);
        self.rules.encode(out);
        put_bytes(out, &self.not_ready);
    }
}

impl Decode for Program {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            release: reader.byte_string("release", MAX_RELEASE_BYTES)?,
            versions: (reader.u16()?, reader.u16()?),
            supports: Rules::decode(reader)?,
            epoch: Epoch::decode(reader)?,
            rules: Rules::decode(reader)?,
            not_ready: reader.byte_string("why it is not ready", MAX_REASON_BYTES)?,
        })
    }
}
