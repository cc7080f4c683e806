use crate::base::types::{Digest, MAX_REPLICAS, ReplicaId};
use crate::base::wire::{Decode, DecodeError, Encode, Reader};

/// Bytes in the public key of a share (BLS12-381 in G2).
pub const SHARE_KEY_BYTES: usize = 96;

/// The public keys of the shares of a threshold key: one for each member that counts, ascending.
///
/// They say which key the committee signs with: any [quorum](Self::quorum) of them determines all
/// others, and the committee's own. The member at place k (from 0) has the polynomial's value at
/// k + 1. So ids may have gaps.
///
/// Equal if their digests are: a hundred keys are compared for every signature otherwise.
#[derive(Clone, Debug)]
pub struct ShareKeys {
    quorum: usize,
    keys: Vec<(ReplicaId, [u8; SHARE_KEY_BYTES])>,
    digest: Digest,
}

impl ShareKeys {
    /// These keys, of which `quorum` sign for the committee. `None` unless they are 1 to
    /// [`MAX_REPLICAS`], with ascending ids, and at least the quorum.
    #[must_use]
    pub fn new(quorum: usize, keys: Vec<(ReplicaId, [u8; SHARE_KEY_BYTES])>) -> Option<Self> {
        let ascend = keys.is_sorted_by(|one, next| one.0 < next.0);
        let are_ids = keys.iter().all(|(id, _)| id.index() < MAX_REPLICAS);
        if !(1..=keys.len()).contains(&quorum) || !ascend || !are_ids {
            return None;
        }
        let mut shares = Self { quorum, keys, digest: Digest::default() };
        shares.digest = Digest::of("quorate share keys", &shares.to_bytes());
        Some(shares)
    }

    /// What identifies them.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// How many shares sign for the committee.
    #[must_use]
    pub fn quorum(&self) -> usize {
        self.quorum
    }

    /// The place of a member among them.
    #[must_use]
    pub fn place(&self, id: ReplicaId) -> Option<usize> {
        self.keys.binary_search_by_key(&id, |(id, _)| *id).ok()
    }

    /// The key of a member.
    #[must_use]
    pub fn key(&self, id: ReplicaId) -> Option<&[u8; SHARE_KEY_BYTES]> {
        self.place(id).map(|place| &self.keys[place].1)
    }

    /// The members, ascending.
    pub fn replicas(&self) -> impl Iterator<Item = ReplicaId> + '_ {
        self.keys.iter().map(|(id, _)| *id)
    }

    /// The keys, in the order of the members.
    pub fn keys(&self) -> impl Iterator<Item = &[u8; SHARE_KEY_BYTES]> {
        self.keys.iter().map(|(_, key)| key)
    }
}

impl PartialEq for ShareKeys {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for ShareKeys {}

impl PartialOrd for ShareKeys {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ShareKeys {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.digest.cmp(&other.digest)
    }
}

impl std::hash::Hash for ShareKeys {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.digest.hash(state);
    }
}

/// The quorum u16 ‖ the number of keys u32 ‖ for each its member u16 and 96 bytes.
impl Encode for ShareKeys {
    fn encode(&self, out: &mut Vec<u8>) {
        (self.quorum as u16).encode(out);
        (self.keys.len() as u32).encode(out);
        for (id, key) in &self.keys {
            id.encode(out);
            out.extend_from_slice(key);
        }
    }
}

impl Decode for ShareKeys {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let quorum = usize::from(reader.u16()?);
        let count = reader.length("shares of a threshold key", MAX_REPLICAS)?;
        let keys = (0..count)
            .map(|_| Ok((ReplicaId::decode(reader)?, reader.array()?)))
            .collect::<Result<_, DecodeError>>()?;
        Self::new(quorum, keys).ok_or(DecodeError::Invalid { field: "shares of a threshold key" })
    }
}
