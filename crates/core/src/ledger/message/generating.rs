//! What members and administrators tell each other while a threshold key is generated.

use bytes::Bytes;

use crate::base::crypto::{ENCRYPTION_KEY_BYTES, ENCRYPTION_PROOF_BYTES, ShareKeys, Signature};
use crate::base::types::{Digest, Epoch, Height};
use crate::base::wire::{Decode, DecodeError, Encode, Reader, put_bytes};
use crate::ledger::generation::Generation;

/// Longest reason of a replica that is not ready.
pub(super) const MAX_REASON_BYTES: usize = 16 << 10;

/// How the key generation stands in a replica's state, and the replica's own part in it. Its word
/// alone: what rests on it is judged where it executes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generating {
    /// The epoch of that state.
    pub epoch: Epoch,
    /// The height of that state.
    pub height: Height,
    /// The serial of the next generation.
    pub next_serial: u64,
    /// The latest generation of the epoch.
    pub current: Option<Generation>,
    /// What the replica's share of the next generation may be encrypted to. The key serves one
    /// generation. `None`: it could not be made; [`Self::waits_for`] has the reason.
    pub encryption: Option<OfferedKey>,
    /// What the replica waits for, in words; empty: it has its share.
    pub waits_for: Bytes,
}

/// What a member's share may be encrypted to in one generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfferedKey {
    /// The key.
    pub key: [u8; ENCRYPTION_KEY_BYTES],
    /// That the member knows its secret half
    /// ([what it proves](crate::ledger::generation::Dealer::possession)).
    pub proof: [u8; ENCRYPTION_PROOF_BYTES],
}

/// A next member's word for a change, with its share of the key that was generated for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareWord {
    /// The [digest](Generation::digest) of the generation as the member sees it.
    pub generation: Digest,
    /// The public shares that it came to.
    pub keys: ShareKeys,
    /// Its signature by its own key
    /// ([what it signs](crate::ledger::change::SignedChange::readiness)).
    pub ready: Signature,
    /// Its signature by its share
    /// ([what it signs](crate::ledger::change::SignedChange::possession)).
    pub possession: Signature,
}

/// The epoch u64 ‖ the height u64 ‖ the next serial u64 ‖ the generation, behind a byte that says
/// whether there is one ‖ the encryption key, behind such a byte ‖ what it waits for.
impl Encode for Generating {
    fn encode(&self, out: &mut Vec<u8>) {
        self.epoch.encode(out);
        self.height.encode(out);
        self.next_serial.encode(out);
        self.current.encode(out);
        self.encryption.encode(out);
        put_bytes(out, &self.waits_for);
    }
}

impl Decode for Generating {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            epoch: Epoch::decode(reader)?,
            height: Height::decode(reader)?,
            next_serial: reader.u64()?,
            current: reader.option("whether there is a key generation")?,
            encryption: reader.option("whether there is an encryption key")?,
            waits_for: reader.byte_string("what a member waits for", MAX_REASON_BYTES)?,
        })
    }
}

/// The key 32 ‖ the proof 64.
impl Encode for OfferedKey {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.key);
        out.extend_from_slice(&self.proof);
    }
}

impl Decode for OfferedKey {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self { key: reader.array()?, proof: reader.array()? })
    }
}

/// The digest of the generation 32 ‖ the public shares ‖ both signatures.
impl Encode for ShareWord {
    fn encode(&self, out: &mut Vec<u8>) {
        self.generation.encode(out);
        self.keys.encode(out);
        self.ready.encode(out);
        self.possession.encode(out);
    }
}

impl Decode for ShareWord {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            generation: Digest::decode(reader)?,
            keys: ShareKeys::decode(reader)?,
            ready: Signature::decode(reader)?,
            possession: Signature::decode(reader)?,
        })
    }
}
