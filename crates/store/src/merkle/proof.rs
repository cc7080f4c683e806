//! Proofs of presence and of absence.

use super::{Digest, Domain, EMPTY_ROOT, message, value_digest};
use crate::lazy_trie::{Hash, Name};

/// The version of the encoding.
pub const PROOF_VERSION: u8 = 1;
/// No proof is longer, in bytes.
pub const PROOF_LIMIT_BYTES: usize = 2 + 64 + 2 + JOINS_LIMIT * JOIN_BYTES;

/// As many as a key has bits.
const JOINS_LIMIT: usize = 256;
const JOIN_BYTES: usize = 33;

const EMPTY: u8 = 0;
const PRESENT: u8 = 1;
const ABSENT: u8 = 2;

/// What shows that the set of a root has, or has not, a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    pub(crate) leaf: Leaf,
    /// From the leaf to the root: the bit at which two sets part, and the digest of the one without the leaf.
    pub(crate) path: Vec<(u8, Digest)>,
}

/// Where a search for the key ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaf {
    /// Nowhere.
    None,
    /// At the key, with the digest of its value.
    Own(Digest),
    /// At another.
    Other(Hash, Digest),
}

/// Why a proof is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    /// The bytes are not a proof.
    #[error("no proof: at byte {offset}, {what}")]
    Malformed {
        /// Where in the bytes.
        offset: usize,
        /// What is wrong there.
        what: &'static str,
    },
    /// Another version of the encoding.
    #[error("the proof has version {found}, this program reads {PROOF_VERSION}")]
    Version {
        /// Its version.
        found: u8,
    },
    /// It proves something of another root: it was forged, or is of another state.
    #[error("the proof does not lead to the root: it is forged, or of another state")]
    Root,
    /// It is of another key, or shows as missing what is there.
    #[error("the proof is not of this key")]
    Key,
    /// The value is not the one that is there, or there is none, or there should be none.
    #[error("the value is not what the proof shows to be there")]
    Value,
}

impl Proof {
    /// What the set with this root has under a key: the BLAKE3 of the value, or nothing.
    ///
    /// # Errors
    /// [`ProofError::Root`], [`ProofError::Key`].
    pub fn verify<'a>(
        &self,
        root: &Digest,
        name: impl Into<Name<'a>>,
    ) -> Result<Option<Digest>, ProofError> {
        let hash = name.into().hash();
        let (from, value) = match self.leaf {
            Leaf::None if self.path.is_empty() && *root == EMPTY_ROOT => return Ok(None),
            Leaf::None => return Err(ProofError::Root),
            Leaf::Own(value) => (hash, value),
            Leaf::Other(other, value) => {
                let agree = self.path.iter().all(|(bit, _)| hash.bit(*bit) == other.bit(*bit));
                if other == hash || !agree {
                    return Err(ProofError::Key);
                }
                (other, value)
            }
        };
        let mut digest = Domain::LEAF.hash(&message(&from.0, &value));
        let mut below = JOINS_LIMIT;
        for (bit, side) in &self.path {
            if usize::from(*bit) >= below {
                return Err(ProofError::Root);
            }
            below = usize::from(*bit);
            let halves =
                if from.bit(*bit) { message(side, &digest) } else { message(&digest, side) };
            digest = Domain::join(*bit).hash(&halves);
        }
        if digest != *root {
            return Err(ProofError::Root);
        }
        Ok((from == hash).then_some(value))
    }

    /// Whether the set with this root has exactly this value under a key, or, if `None`, nothing: where the BLAKE3 of a value stands for it.
    ///
    /// # Errors
    /// As [`Proof::verify`], and [`ProofError::Value`].
    pub fn verify_value<'a>(
        &self,
        root: &Digest,
        name: impl Into<Name<'a>>,
        value: Option<&[u8]>,
    ) -> Result<(), ProofError> {
        if self.verify(root, name)? == value.map(value_digest) {
            return Ok(());
        }
        Err(ProofError::Value)
    }

    /// The encoding; see the [module](super).
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(68 + self.path.len() * JOIN_BYTES);
        bytes.push(PROOF_VERSION);
        match &self.leaf {
            Leaf::None => bytes.push(EMPTY),
            Leaf::Own(value) => {
                bytes.push(PRESENT);
                bytes.extend_from_slice(value);
            }
            Leaf::Other(other, value) => {
                bytes.push(ABSENT);
                bytes.extend_from_slice(&other.0);
                bytes.extend_from_slice(value);
            }
        }
        bytes.extend_from_slice(&(self.path.len() as u16).to_le_bytes());
        for (bit, side) in &self.path {
            bytes.push(*bit);
            bytes.extend_from_slice(side);
        }
        bytes
    }

    /// Reads an encoded proof, which is all of `bytes`.
    ///
    /// # Errors
    /// [`ProofError::Malformed`], [`ProofError::Version`].
    pub fn decode(bytes: &[u8]) -> Result<Proof, ProofError> {
        let mut rest = Rest { bytes, at: 0 };
        let [found] = rest.take()?;
        if found != PROOF_VERSION {
            return Err(ProofError::Version { found });
        }
        let [kind] = rest.take()?;
        let leaf = match kind {
            EMPTY => Leaf::None,
            PRESENT => Leaf::Own(rest.take()?),
            ABSENT => Leaf::Other(Hash(rest.take()?), rest.take()?),
            _ => return Err(rest.wrong("a kind there is not")),
        };
        let count = usize::from(u16::from_le_bytes(rest.take()?));
        if count > JOINS_LIMIT || count * JOIN_BYTES != rest.bytes.len() {
            return Err(rest.wrong("a number of joins that its length does not have"));
        }
        if leaf == Leaf::None && count > 0 {
            return Err(rest.wrong("joins of an empty set"));
        }
        let mut path = Vec::with_capacity(count);
        let mut below = JOINS_LIMIT;
        for _ in 0..count {
            let [bit] = rest.take()?;
            if usize::from(bit) >= below {
                return Err(rest.wrong("a bit that does not fall"));
            }
            below = usize::from(bit);
            path.push((bit, rest.take()?));
        }
        Ok(Proof { leaf, path })
    }
}

/// Bytes still to be read.
struct Rest<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Rest<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], ProofError> {
        let (taken, rest) =
            self.bytes.split_first_chunk().ok_or_else(|| self.wrong("it ends too early"))?;
        self.bytes = rest;
        self.at += N;
        Ok(*taken)
    }

    fn wrong(&self, what: &'static str) -> ProofError {
        ProofError::Malformed { offset: self.at, what }
    }
}
