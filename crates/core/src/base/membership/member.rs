use std::fmt;
use std::sync::Arc;

use crate::base::crypto::PublicKey;
use crate::base::wire::{Decode, DecodeError, Encode, Reader, put_bytes, put_list};

/// A replica's public key, of whatever scheme the committee uses: the core compares keys and hashes
/// them, and no more.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaKey(Arc<[u8]>);

impl ReplicaKey {
    /// The longest key of any scheme (BLS12-381 in G2).
    pub const MAX_BYTES: usize = 96;

    /// A key of these bytes; `None` if they are too many.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        (bytes.len() <= Self::MAX_BYTES).then(|| Self(bytes.into()))
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<[u8; 32]> for ReplicaKey {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes.as_slice().into())
    }
}

/// In hexadecimal.
impl fmt::Display for ReplicaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ReplicaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().take(4).try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Encode for ReplicaKey {
    fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, &self.0);
    }
}

impl Decode for ReplicaKey {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self(reader.byte_string("a replica's key", Self::MAX_BYTES)?.as_ref().into()))
    }
}

/// A replica in a committee.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// What it signs with.
    pub key: ReplicaKey,
    /// How much it counts; 0 for a learner.
    pub weight: u16,
    /// Where it is reached, and by which transport key. The node reads it; the core carries it.
    pub contact: Arc<[u8]>,
}

impl Member {
    /// The most bytes of a contact.
    pub const MAX_CONTACT_BYTES: usize = 1024;

    /// A member that counts once, and whose address somebody else knows.
    #[must_use]
    pub fn new(key: ReplicaKey) -> Self {
        Self { key, weight: 1, contact: Arc::from([]) }
    }

    /// Whether it is sent everything, and counts for nothing.
    #[must_use]
    pub fn is_learner(&self) -> bool {
        self.weight == 0
    }
}

impl Encode for Member {
    fn encode(&self, out: &mut Vec<u8>) {
        self.key.encode(out);
        self.weight.encode(out);
        put_bytes(out, &self.contact);
    }
}

impl Decode for Member {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            key: ReplicaKey::decode(reader)?,
            weight: reader.u16()?,
            contact: reader.byte_string("a contact", Self::MAX_CONTACT_BYTES)?.as_ref().into(),
        })
    }
}

/// The administrators of a committee. Some number of them must sign a change of its members. A
/// committee without administrators never changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Governance {
    /// The administrators' keys.
    pub administrators: Vec<PublicKey>,
    /// How many of them must sign.
    pub approvals: u16,
}

impl Governance {
    /// The most administrators.
    pub const MAX_ADMINISTRATORS: usize = 64;
}

impl Encode for Governance {
    fn encode(&self, out: &mut Vec<u8>) {
        put_list(out, &self.administrators);
        self.approvals.encode(out);
    }
}

impl Decode for Governance {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let administrators = reader.list("administrators", Self::MAX_ADMINISTRATORS)?;
        Ok(Self { administrators, approvals: reader.u16()? })
    }
}
