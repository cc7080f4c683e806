//! A threshold committee, whose keys a dealer made.

use super::lagrange::{at_zero, position};
use super::{SIGNATURE_DOMAIN, dealing};
use crate::bls::claims::{Claims, Keys};
use crate::bls::curve::{
    G1, G2, Scalar, combine_g1, combine_g2, is_infinity_g2, key_bytes, read_key,
    read_known_signature, write_key, write_signature,
};
use crate::bls::{KEY_BYTES, SIGNATURE_BYTES};
use crate::committee_keys::{CommitteeKeyError, GroupKey, KeyProblem};
use crate::scheme_name::SchemeName;

/// The public keys of such a committee, all checked.
pub struct Committee {
    keys: Vec<G2>,
    group: G2,
    quorum: usize,
    /// The bytes of `group`, to which the weights of a sum are bound.
    group_bytes: [u8; 192],
}

/// A weight of 128 bits in a sum of signatures, little-endian.
type Weight = [u8; 16];

impl Committee {
    /// Reads the public keys of the replicas, in the order of their ids, and of the committee.
    ///
    /// # Errors
    /// [`CommitteeKeyError`] if one is not a valid key, or they do not lie on one polynomial of
    /// degree `group.quorum` − 1.
    pub fn read(members: &[&[u8]], group: GroupKey<'_>) -> Result<Self, CommitteeKeyError> {
        let (quorum, scheme) = (group.quorum, SchemeName::BlsThreshold);
        if quorum == 0 || quorum > members.len() {
            return Err(CommitteeKeyError::Quorum { quorum, members: members.len() });
        }
        let in_group = |problem: KeyProblem| CommitteeKeyError::Group { scheme, problem };
        let group = read_key(group.key).map_err(in_group)?;
        let keys = members.iter().enumerate().map(|(replica, key)| {
            let in_member = |problem| CommitteeKeyError::Replica { replica, scheme, problem };
            read_key(key).map_err(in_member)
        });
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        dealing::check(group, &keys, quorum).map_err(CommitteeKeyError::Dealing)?;
        Ok(Self { keys, group, quorum, group_bytes: key_bytes(group) })
    }

    /// Reads the public keys of all shares, in the order of their members. Any quorum of them
    /// determines the committee's key. `None` if one is no key, or they do not lie on one
    /// polynomial of degree `quorum` − 1.
    #[must_use]
    pub fn of_shares(members: &[&[u8]], quorum: usize) -> Option<Self> {
        let keys = members.iter().map(|key| read_key(key).ok()).collect::<Option<Vec<_>>>()?;
        let some = keys.get(..quorum).filter(|some| !some.is_empty())?;
        let positions: Vec<u64> = (0..quorum).map(position).collect();
        let scalars: Vec<_> = at_zero(&positions).into_iter().map(Scalar::to_le_bytes).collect();
        let group = combine_g2(some, &scalars);
        if is_infinity_g2(&group) || !dealing::belong_together(group, &keys, quorum) {
            return None;
        }
        Some(Self { keys, group, quorum, group_bytes: key_bytes(group) })
    }

    /// The committee's public key.
    #[must_use]
    pub fn group(&self) -> [u8; KEY_BYTES] {
        write_key(self.group)
    }

    /// An empty list of claims.
    #[must_use]
    pub fn claims<'m>(&self) -> Claims<'_, 'm> {
        Claims::new(self, SIGNATURE_DOMAIN)
    }

    /// Joins valid signatures of one message, each with its signer, into the committee's signature.
    /// It uses a quorum of them and ignores the rest. `None` if there are fewer, a signer occurs
    /// twice or is not a member, or a signature is malformed.
    #[must_use]
    pub fn join_quorum(&self, shares: &[(usize, &[u8])]) -> Option<[u8; SIGNATURE_BYTES]> {
        let shares = self.in_order(shares)?;
        let shares = shares.get(..self.quorum)?;
        let points = points(shares)?;
        let positions: Vec<u64> = shares.iter().map(|(signer, _)| position(*signer)).collect();
        let scalars: Vec<_> = at_zero(&positions).into_iter().map(Scalar::to_le_bytes).collect();
        write_signature(combine_g1(&points, &scalars))
    }

    /// Joins valid signatures, each with its signer and message, into a weighted sum. `None` if
    /// there are none, a signer occurs twice or is not a member, or a signature is malformed.
    #[must_use]
    pub fn join(&self, shares: &[(usize, &[u8], &[u8])]) -> Option<[u8; SIGNATURE_BYTES]> {
        let mut messages: Vec<_> = shares.iter().map(|(who, what, _)| (*who, *what)).collect();
        messages.sort_unstable_by_key(|(signer, _)| *signer);
        let shares: Vec<_> = shares.iter().map(|(who, _, signature)| (*who, *signature)).collect();
        let shares = self.in_order(&shares)?;
        write_signature(combine_g1(&points(&shares)?, &self.weights(&messages)))
    }

    /// The shares in ascending order of signers.
    fn in_order<'s>(&self, shares: &[(usize, &'s [u8])]) -> Option<Vec<(usize, &'s [u8])>> {
        let mut shares = shares.to_vec();
        shares.sort_unstable_by_key(|(signer, _)| *signer);
        let all_differ = shares.is_sorted_by(|one, next| one.0 < next.0);
        let (last, _) = *shares.last()?;
        (all_differ && last < self.keys.len()).then_some(shares)
    }

    /// The aᵢ for a list of signers and messages, in ascending order of signers.
    fn weights(&self, list: &[(usize, &[u8])]) -> Vec<Weight> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"quorate/bls12-381-threshold/sum/1");
        hasher.update(&self.group_bytes);
        for (signer, message) in list {
            hasher.update(&(*signer as u64).to_le_bytes());
            hasher.update(&(message.len() as u64).to_le_bytes());
            hasher.update(message);
        }
        let mut stream = hasher.finalize_xof();
        let mut weights = vec![[0; 16]; list.len()];
        for weight in &mut weights {
            stream.fill(weight);
        }
        weights
    }
}

impl Keys for Committee {
    fn member(&self, place: usize) -> Option<G2> {
        self.keys.get(place).copied()
    }

    fn group(&self) -> Option<G2> {
        Some(self.group)
    }

    /// Σ aᵢXᵢ for each part.
    fn sums(&self, parts: &[(&[u8], Vec<usize>)]) -> Option<Vec<G2>> {
        let mut list: Vec<(usize, usize)> = Vec::new();
        for (part, (_, signers)) in parts.iter().enumerate() {
            list.extend(signers.iter().map(|signer| (*signer, part)));
        }
        list.sort_unstable();
        let said: Vec<_> = list.iter().map(|(who, part)| (*who, parts[*part].0)).collect();
        let mut sums = vec![(Vec::new(), Vec::new()); parts.len()];
        for ((signer, part), weight) in list.into_iter().zip(self.weights(&said)) {
            sums[part].0.push(*self.keys.get(signer)?);
            sums[part].1.push(weight);
        }
        Some(sums.iter().map(|(keys, weights)| combine_g2(keys, weights)).collect())
    }
}

fn points(shares: &[(usize, &[u8])]) -> Option<Vec<G1>> {
    shares.iter().map(|(_, signature)| read_known_signature(signature)).collect()
}
