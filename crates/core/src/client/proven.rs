//! What one replica says of its state, believed for its proof and not for its word.
//!
//! # What is believed
//! An answer shows a block with its protocol's evidence, and the protocol's [`Verifier`] says which
//! state root a quorum stands for by it. (HotStuff: the root in a certified block; PBFT: the root
//! of a stable checkpoint. Each verifier has the argument.) From the root on it is hashes: the root
//! covers the state's height and the application's root ([`StateSummary`]), and that covers
//! whatever the application proves.
//!
//! # How old
//! Reads of one replica are **bounded-stale**: it may show an old state, which was attested as
//! well. How old is counted in blocks, against the newest block with evidence that any of q
//! replicas shows ([`newest`]). No clock is involved, and no word is believed: a replica cannot
//! show a height that has no evidence, and a single correct one that is up to date is enough to see
//! it.
//!
//! *Promised*, in HotStuff: let the client's questions for the newest block leave at some instant,
//! q replicas answer, and a verified state lag L blocks behind. Then the state holds everything
//! that any correct replica had executed (and so everything that any client had been answered)
//! before that instant, but for the last L blocks.
//!
//! *Not promised*: that what is read is the newest, that two reads see states in order (compare
//! their heights), or anything against more than f faulty replicas.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::base::crypto::Scheme;
use crate::base::membership::Committee;
use crate::base::types::{Digest, Height, ReplicaId};
use crate::base::wire::{Decode, DecodeError, Encode, Reader, put_bytes};
use crate::ledger::execution::StateSummary;
use crate::ledger::message::MAX_CONTENT_BYTES;
use crate::protocols::protocol::{Malformed, Shown, Types, Verifier};

/// The version of the encodings.
pub const VERSION: u8 = 1;

/// What a replica says of its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer<T: Types> {
    /// The chain it is of.
    pub chain: Digest,
    /// What the root of the state is made of.
    pub state: StateSummary,
    /// A certified block that carries the root.
    pub shown: Shown<T>,
    /// What the application shows under its root, as it encodes that.
    pub content: Bytes,
}

/// The newest certified block that a replica knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Newest<T: Types> {
    /// The chain it is of.
    pub chain: Digest,
    /// The block, with its certificate.
    pub newest: Shown<T>,
}

/// How old a state may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The height of the newest certified block, see [`newest`].
    pub newest: Height,
    /// How many blocks the state may be behind it.
    pub max_lag_blocks: u64,
}

/// An answer that is true of the state at a height.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proven {
    /// The height of the state.
    pub height: Height,
    /// How many blocks it is behind the newest certified one.
    pub lag_blocks: u64,
    /// The application's root.
    pub application: Digest,
    /// What the application shows under it: to be verified by who knows the application.
    pub content: Bytes,
}

/// Why an answer is not believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotProven {
    /// It is not what an answer looks like.
    #[error("the answer cannot be read: {0}")]
    Unreadable(#[from] DecodeError),
    /// Of another chain.
    #[error("the answer is of the chain {found}, not of {expected}")]
    OtherChain {
        /// The client's.
        expected: Digest,
        /// The answer's.
        found: Digest,
    },
    /// The certificate is of another block than the one beside it.
    #[error("the certificate is of another block")]
    OtherBlock,
    /// The certificate is none of this committee's.
    #[error("the certificate is not one of this committee: {0}")]
    Certificate(Malformed),
    /// A signature in the certificate does not hold.
    #[error("a signature in the certificate does not hold")]
    Signature,
    /// The certified block does not carry the root of this state.
    #[error("the certified block does not carry the root of the state at height {0}")]
    Root(Height),
    /// Proven, and too old.
    #[error(
        "the state at height {height} is {lag} blocks behind height {newest}, more than the {allowed} that are allowed"
    )]
    Stale {
        /// The height of the state.
        height: Height,
        /// The height of the newest certified block.
        newest: Height,
        /// How many blocks lie between.
        lag: u64,
        /// How many were allowed.
        allowed: u64,
    },
}

/// Whether the evidence convinces of its block.
fn verify_shown<V: Verifier>(
    verifier: &V,
    shown: &Shown<V::Types>,
    scheme: &dyn Scheme,
) -> Result<(), NotProven> {
    let claimed = verifier.claim_evidence(&shown.block.id(), &shown.evidence);
    let checks = claimed.map_err(|reason| match reason {
        Malformed::Contradiction => NotProven::OtherBlock,
        reason => NotProven::Certificate(reason),
    })?;
    let verdicts = scheme.verify(&checks);
    match verdicts.len() == checks.len() && verdicts.iter().all(|verdict| *verdict) {
        true => Ok(()),
        false => Err(NotProven::Signature),
    }
}

fn same_chain(committee: &Committee, found: Digest) -> Result<(), NotProven> {
    let expected = committee.chain();
    if found == expected { Ok(()) } else { Err(NotProven::OtherChain { expected, found }) }
}

impl<T: Types> Answer<T> {
    /// Whether the answer is of a state of this chain that is recent enough. What its content says
    /// is for the application's own verification to find out.
    ///
    /// # Errors
    /// [`NotProven`]: whoever sent it is faulty, or behind.
    pub fn verify<V: Verifier<Types = T>>(
        self,
        verifier: &V,
        scheme: &dyn Scheme,
        bound: Bound,
    ) -> Result<Proven, NotProven> {
        same_chain(verifier.committee(), self.chain)?;
        verify_shown(verifier, &self.shown, scheme)?;
        let height = self.state.height;
        if V::attested_root(&self.shown) != self.state.root() {
            return Err(NotProven::Root(height));
        }
        let Bound { newest, max_lag_blocks: allowed } = bound;
        let lag = newest.0.saturating_sub(height.0);
        if lag > allowed {
            return Err(NotProven::Stale { height, newest, lag, allowed });
        }
        let StateSummary { application, .. } = self.state;
        Ok(Proven { height, lag_blocks: lag, application, content: self.content })
    }
}

impl<T: Types> Newest<T> {
    /// The height of the block, if it is certified.
    ///
    /// # Errors
    /// [`NotProven`], never [`NotProven::Root`] or [`NotProven::Stale`].
    pub fn verify<V: Verifier<Types = T>>(
        &self,
        verifier: &V,
        scheme: &dyn Scheme,
    ) -> Result<Height, NotProven> {
        same_chain(verifier.committee(), self.chain)?;
        verify_shown(verifier, &self.newest, scheme)?;
        Ok(self.newest.block.height())
    }
}

/// A [`Verifier`] of whatever protocol, for encoded answers.
pub trait Proofs: Send + Sync {
    /// What an encoded [`Newest`] proves, as [`Newest::verify`] does.
    ///
    /// # Errors
    /// As there; [`NotProven::Unreadable`] if it cannot be decoded.
    fn newest(&self, answer: Bytes, scheme: &dyn Scheme) -> Result<Height, NotProven>;

    /// What an encoded [`Answer`] proves, as [`Answer::verify`] does.
    ///
    /// # Errors
    /// As there; [`NotProven::Unreadable`] if it cannot be decoded.
    fn state(&self, answer: Bytes, scheme: &dyn Scheme, bound: Bound) -> Result<Proven, NotProven>;
}

impl<V: Verifier> Proofs for V {
    fn newest(&self, answer: Bytes, scheme: &dyn Scheme) -> Result<Height, NotProven> {
        Newest::from_bytes(answer)?.verify(self, scheme)
    }

    fn state(&self, answer: Bytes, scheme: &dyn Scheme, bound: Bound) -> Result<Proven, NotProven> {
        Answer::from_bytes(answer)?.verify(self, scheme, bound)
    }
}

/// The height that states are held against: the highest one that replicas showed to be certified,
/// by [`Newest::verify`]. `None` until q have: fewer may all be behind or faulty.
#[must_use]
pub fn newest(committee: &Committee, shown: &BTreeMap<ReplicaId, Height>) -> Option<Height> {
    committee.quorum_among(shown.keys().copied())?;
    let members = shown.iter().filter(|(replica, _)| committee.contains(**replica));
    members.map(|(_, height)| *height).max()
}

fn version(reader: &mut Reader) -> Result<(), DecodeError> {
    match reader.u8()? {
        VERSION => Ok(()),
        _ => Err(DecodeError::Invalid { field: "version of a proof" }),
    }
}

impl<T: Types> Encode for Answer<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        self.chain.encode(out);
        self.state.encode(out);
        self.shown.encode(out);
        put_bytes(out, &self.content);
    }
}

impl<T: Types> Decode for Answer<T> {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        version(reader)?;
        Ok(Self {
            chain: Digest::decode(reader)?,
            state: StateSummary::decode(reader)?,
            shown: Shown::decode(reader)?,
            content: reader.byte_string("content of an answer", MAX_CONTENT_BYTES)?,
        })
    }
}

impl<T: Types> Encode for Newest<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        self.chain.encode(out);
        self.newest.encode(out);
    }
}

impl<T: Types> Decode for Newest<T> {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        version(reader)?;
        Ok(Self { chain: Digest::decode(reader)?, newest: Shown::decode(reader)? })
    }
}
