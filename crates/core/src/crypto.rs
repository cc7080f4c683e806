//! What the core knows of signatures: what is signed, and that somebody else does the arithmetic.
//!
//! The core never computes a signature. It says *what* is to be signed ([`Statement`]) and *which*
//! signatures must hold ([`Check`]); a [`Scheme`] in `quorate-crypto` does it, on whatever thread
//! the driver likes. What passed is wrapped in [`Verified`], which nothing else can make.

use std::fmt;

use crate::types::{Digest, Epoch, View};
use crate::wire::{Decode, DecodeError, Encode, Reader};

/// A public key of the scheme in use: 32 bytes for Ed25519.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey(pub [u8; 32]);

/// A signature of the scheme in use: 64 bytes for Ed25519.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Signature(pub [u8; 64]);

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Digest(self.0).fmt(f)
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sig {:02x}{:02x}", self.0[0], self.0[1])
    }
}

impl Encode for PublicKey {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }
}

impl Decode for PublicKey {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self(reader.array()?))
    }
}

impl Encode for Signature {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }
}

impl Decode for Signature {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self(reader.array()?))
    }
}

/// What kind of thing a signature is about. Part of every signed message, so that none can be
/// passed off as another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A vote for a block.
    Vote = 1,
    /// A time-out of a view, with the view of the signer's high QC.
    TimeOut = 2,
    /// A client's frame of commands.
    Frame = 3,
    /// A replica's answer to another that lost its data folder (highest view it may have seen).
    Testimony = 4,
}

/// The exact bytes of a signed message: domain, chain, epoch, protocol, kind, view, phase, content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Statement {
    bytes: [u8; Statement::LENGTH],
}

impl Statement {
    /// Bytes in a statement.
    pub const LENGTH: usize = 16 + 32 + 8 + 1 + 1 + 8 + 1 + 32;

    /// Spells a statement out. `protocol` is the number of the protocol (0 for client frames);
    /// `phase` tells the votes of one view apart where a protocol has several.
    #[must_use]
    pub fn new(
        chain: &Digest,
        epoch: Epoch,
        protocol: u8,
        kind: Kind,
        view: View,
        phase: u8,
        content: &Digest,
    ) -> Self {
        let mut bytes = [0; Self::LENGTH];
        bytes[..16].copy_from_slice(b"quorate/signed/1");
        bytes[16..48].copy_from_slice(&chain.0);
        bytes[48..56].copy_from_slice(&epoch.0.to_le_bytes());
        bytes[56] = protocol;
        bytes[57] = kind as u8;
        bytes[58..66].copy_from_slice(&view.0.to_le_bytes());
        bytes[66] = phase;
        bytes[67..].copy_from_slice(&content.0);
        Self { bytes }
    }

    /// What a client signs for a frame whose digest is `frame`. Bound to the chain alone: a
    /// session outlives epochs.
    #[must_use]
    pub fn frame(chain: &Digest, frame: &Digest) -> Self {
        Self::new(chain, Epoch(0), 0, Kind::Frame, View(0), 0, frame)
    }

    /// The bytes to sign or verify.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// One signature that has to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Check {
    /// Whose.
    pub key: PublicKey,
    /// Of what.
    pub statement: Statement,
    /// The signature.
    pub signature: Signature,
}

/// A signature scheme. Implementations live in `quorate-crypto`; tests may bring a mock.
pub trait Scheme: Send + Sync {
    /// Which of `checks` hold, in order. An implementation verifies them as one batch and looks
    /// for the bad ones only if the batch fails. The verdict on each must not depend on the
    /// others: single and batch verification agree on every input.
    fn verify(&self, checks: &[Check]) -> Vec<bool>;
}

/// Somebody who can sign: holds the secret key.
pub trait Signer: Send + Sync {
    /// The public half.
    fn public_key(&self) -> PublicKey;
    /// Signs. Deterministic: the same statement gives the same signature, so that a message sent
    /// again after a restart is the same message.
    fn sign(&self, statement: &Statement) -> Signature;
}

/// A value all of whose signatures were checked. Made only by [`Claim::settle`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified<T>(T);

impl<T> Verified<T> {
    /// The value.
    pub fn get(&self) -> &T {
        &self.0
    }

    /// The value, by move.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> std::ops::Deref for Verified<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

/// A value that is well formed, beside the signatures it still rests on.
#[derive(Clone, Debug)]
pub struct Claim<T> {
    value: T,
    checks: Vec<Check>,
}

impl<T> Claim<T> {
    /// A claim that `value` holds if all of `checks` do. For the modules that know which
    /// signatures a value needs.
    pub(crate) fn new(value: T, checks: Vec<Check>) -> Self {
        Self { value, checks }
    }

    /// The signatures to be checked.
    #[must_use]
    pub fn checks(&self) -> &[Check] {
        &self.checks
    }

    /// The value, not to be believed.
    pub fn unverified(&self) -> &T {
        &self.value
    }

    /// Closes the claim with one verdict a check. Anything but `true` for every check refuses it.
    pub fn settle(self, verdicts: &[bool]) -> Option<Verified<T>> {
        let all = verdicts.len() == self.checks.len() && verdicts.iter().all(|verdict| *verdict);
        all.then_some(Verified(self.value))
    }
}
