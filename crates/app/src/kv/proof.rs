//! What one replica says is under a key, verified: with the state's certificate
//! ([`proven`](quorate_core::client::proven)) and the key's Merkle proof.
//!
//! The content of an answer, integers little-endian:
//!
//! ```text
//! root of the Merkle map [32] | head of the change feed: height u64, digest [32]
//! 0 u8: nothing is there; or 1 u8, length u32, the value as it is written
//! length u32, proof (docs/store.md, "Authenticated mode")
//! ```
//!
//! A written value is its kind u8 (1 a string, 2 a hash; 3 and 4 the same with an owner), the key
//! of its owner (32 bytes, `kv/quotas.rs`) if it has one, and the string, or each field's name and
//! value behind their lengths (u32), names ascending. What the proof shows is the keyed BLAKE3 of
//! all but the kind, keyed by the kind.

use bytes::Bytes;
use quorate_core::base::crypto::Scheme;
use quorate_core::base::wire::{Decode as _, DecodeError, Encode as _, Reader, put_bytes};
use quorate_core::client::proven::{Bound, NotProven, Proofs};
use quorate_core::{Digest, Height};
use quorate_merkle::{Hash, PROOF_LIMIT_BYTES, Proof, ProofError};

use super::feed::Head;
use super::value::{OWNER_BYTES, Value, place, read_value, value_digest};
use super::{MAX_KEY_BYTES, MAX_VALUE_BYTES};

/// Longest written value: the kind and the owner come on top.
const MAX_WRITTEN_BYTES: usize = MAX_VALUE_BYTES + 1 + OWNER_BYTES;

const _: () = assert!(MAX_KEY_BYTES <= quorate_core::client::message::MAX_QUESTION_BYTES);
const _: () = assert!(
    MAX_WRITTEN_BYTES + PROOF_LIMIT_BYTES + 64 + Head::BYTES
        <= quorate_core::client::message::MAX_CONTENT_BYTES
);

/// A value that was proven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// A string.
    Text(Vec<u8>),
    /// A hash: names and values of its fields, names ascending.
    Hash(Vec<(Vec<u8>, Vec<u8>)>),
}

/// What is under a key, in the state of one height.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// The value; `None`: it is proven that there is none.
    pub value: Option<Shown>,
    /// The height of the state.
    pub height: Height,
    /// How many blocks that is behind the newest certified one.
    pub lag_blocks: u64,
    /// The head of the [change feed](super::feed) in that state.
    pub head: Head,
}

/// Why an answer is not believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is of no state of this chain that is recent enough.
    #[error(transparent)]
    State(#[from] NotProven),
    /// What is said of the key cannot be read.
    #[error("what is said of the key cannot be read: {0}")]
    Unreadable(DecodeError),
    /// A value is claimed, and not the one that is there.
    #[error("a forged value: {0}")]
    ForgedValue(ProofError),
    /// The key is said not to be there, and that is not shown.
    #[error("a forged absence: {0}")]
    ForgedAbsence(ProofError),
}

/// What a replica claims of a key.
pub(super) struct Content<'a> {
    /// The root of the Merkle map.
    pub(super) root: Hash,
    /// The head of the change feed.
    pub(super) head: Head,
    /// The value, as it is written.
    pub(super) value: Option<&'a [u8]>,
    /// The encoded proof.
    pub(super) proof: &'a [u8],
}

impl Content<'_> {
    pub(super) fn encode(&self) -> Bytes {
        let value_bytes = self.value.map_or(0, <[u8]>::len);
        let mut out = Vec::with_capacity(32 + Head::BYTES + 9 + value_bytes + self.proof.len());
        out.extend_from_slice(&self.root);
        self.head.encode(&mut out);
        match self.value {
            None => out.push(0),
            Some(value) => {
                out.push(1);
                put_bytes(&mut out, value);
            }
        }
        put_bytes(&mut out, self.proof);
        out.into()
    }
}

/// A content that was read.
struct Claim {
    root: Hash,
    head: Head,
    value: Option<Bytes>,
    proof: Bytes,
}

fn read(content: Bytes) -> Result<Claim, DecodeError> {
    let mut reader = Reader::new(content);
    let claim = Claim {
        root: reader.array()?,
        head: Head::decode(&mut reader)?,
        value: match reader.u8()? {
            0 => None,
            1 => Some(reader.byte_string("value", MAX_WRITTEN_BYTES)?),
            _ => return Err(DecodeError::Invalid { field: "whether there is a value" }),
        },
        proof: reader.byte_string("proof", PROOF_LIMIT_BYTES)?,
    };
    reader.finish()?;
    Ok(claim)
}

/// The application's root with this Merkle map and this head of the change feed.
pub(super) fn root_of(map: &Hash, head: &Head) -> Digest {
    let mut parts = [0; 32 + 32 + 8];
    parts[..32].copy_from_slice(map);
    parts[32..64].copy_from_slice(&head.digest.0);
    parts[64..].copy_from_slice(&head.height.0.to_le_bytes());
    Digest::of("quorate kv root", &parts)
}

/// What `answer`, an encoded [`Answer`](quorate_core::client::proven::Answer) of any one replica,
/// proves of `key`: no word of the replica is believed. `proofs` and `scheme` are of the client's
/// own configuration, and so is `bound`, with the height of the newest certified block.
///
/// # Errors
/// [`Refusal`]: the replica is faulty, behind, or of another chain. Ask another.
pub fn verify(
    proofs: &dyn Proofs,
    scheme: &dyn Scheme,
    key: &[u8],
    answer: Bytes,
    bound: Bound,
) -> Result<Verified, Refusal> {
    let proven = proofs.state(answer, scheme, bound)?;
    let claim = read(proven.content).map_err(Refusal::Unreadable)?;
    let forged = if claim.value.is_some() { Refusal::ForgedValue } else { Refusal::ForgedAbsence };
    if root_of(&claim.root, &claim.head) != proven.application {
        return Err(forged(ProofError::Root));
    }
    let proof = Proof::decode(&claim.proof).map_err(forged)?;
    let there = proof.verify(&claim.root, &place(key)).map_err(forged)?;
    if there != claim.value.as_deref().map(|written| value_digest(written).unwrap_or_default()) {
        return Err(forged(ProofError::Value));
    }
    let value = match claim.value {
        None => None,
        Some(written) => Some(shown(&written).ok_or(forged(ProofError::Value))?),
    };
    Ok(Verified { value, height: proven.height, lag_blocks: proven.lag_blocks, head: claim.head })
}

fn shown(written: &[u8]) -> Option<Shown> {
    Some(match read_value(written)?.0 {
        Value::Text(text) => Shown::Text(text),
        Value::Hash(fields) => Shown::Hash(
            fields.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect(),
        ),
    })
}
