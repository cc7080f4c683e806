//! Proofs of presence and of absence.

use crate::{Domain, EMPTY_ROOT, Hash, bit, message, value_digest};

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
    /// Where a search for the key ends.
    pub leaf: ProofLeaf,
    /// From the leaf to the root: the bit at which two sets part, and the digest of the one without
    /// the leaf.
    pub path: Vec<(u8, Hash)>,
}

/// Where a search for the key ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProofLeaf {
    /// Nowhere.
    None,
    /// At the key, with the digest of its value.
    Own(Hash),
    /// At another.
    Other(Hash, Hash),
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
    pub fn verify(&self, root: &Hash, key: &Hash) -> Result<Option<Hash>, ProofError> {
        let (from, value) = match self.leaf {
            ProofLeaf::None if self.path.is_empty() && *root == EMPTY_ROOT => return Ok(None),
            ProofLeaf::None => return Err(ProofError::Root),
            ProofLeaf::Own(value) => (*key, value),
            ProofLeaf::Other(other, value) => {
                let agree = self.path.iter().all(|(at, _)| bit(key, *at) == bit(&other, *at));
                if other == *key || !agree {
                    return Err(ProofError::Key);
                }
                (other, value)
            }
        };
        let mut digest = Domain::leaf().hash(&message(&from, &value));
        let mut below = JOINS_LIMIT;
        for (at, side) in &self.path {
            if usize::from(*at) >= below {
                return Err(ProofError::Root);
            }
            below = usize::from(*at);
            let halves =
                if bit(&from, *at) { message(side, &digest) } else { message(&digest, side) };
            digest = Domain::join(*at).hash(&halves);
        }
        if digest != *root {
            return Err(ProofError::Root);
        }
        Ok((from == *key).then_some(value))
    }

    /// Whether the set with this root has exactly this value under a key, or, if `None`, nothing:
    /// where the BLAKE3 of a value stands for it.
    ///
    /// # Errors
    /// As [`Proof::verify`], and [`ProofError::Value`].
    pub fn verify_value(
        &self,
        root: &Hash,
        key: &Hash,
        value: Option<&[u8]>,
    ) -> Result<(), ProofError> {
        if self.verify(root, key)? == value.map(value_digest) {
            return Ok(());
        }
        Err(ProofError::Value)
    }

    /// The encoding; see the [crate](crate).
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(68 + self.path.len() * JOIN_BYTES);
        bytes.push(PROOF_VERSION);
        match &self.leaf {
            ProofLeaf::None => bytes.push(EMPTY),
            ProofLeaf::Own(value) => {
                bytes.push(PRESENT);
                bytes.extend_from_slice(value);
            }
            ProofLeaf::Other(other, value) => {
                bytes.push(ABSENT);
                bytes.extend_from_slice(other);
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
            EMPTY => ProofLeaf::None,
            PRESENT => ProofLeaf::Own(rest.take()?),
            ABSENT => ProofLeaf::Other(rest.take()?, rest.take()?),
            _ => return Err(rest.wrong("a kind there is not")),
        };
        let count = usize::from(u16::from_le_bytes(rest.take()?));
        if count > JOINS_LIMIT || count * JOIN_BYTES != rest.bytes.len() {
            return Err(rest.wrong("a number of joins that its length does not have"));
        }
        if leaf == ProofLeaf::None && count > 0 {
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
