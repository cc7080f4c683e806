//! A dealing: one member's polynomial, committed to and shared out.
//!
//! ```text
//! R (32)  proof of r (64)  proof of a₀ (48)  commitments (t × 96)  encrypted shares (n × 32)
//! ```
//!
//! Both proofs cover the round, the dealer and all else in the dealing. So a dealing changed on the
//! way, or handed in by another member or in another round, is refused.

use curve25519_dalek::RistrettoPoint;
use curve25519_dalek::ristretto::CompressedRistretto;
use zeroize::{Zeroize as _, Zeroizing};

use super::Round;
use super::encryption::{BASE, DecryptionKey, PROOF_BYTES, holds, prove, read_point, scalar};
use crate::bls::batch::Batch;
use crate::bls::curve::{
    G2, Scalar, combine_g2, is_infinity_g2, read_key, subtract_g2, sum_g2, write_key,
};
use crate::bls::threshold::lagrange::position;
use crate::bls::{KEY_BYTES, SIGNATURE_BYTES, SecretKey};
use crate::committee_keys::KeyProblem;
use quorate_core::planted;

/// The tag of proofs that a dealer knows a₀.
const DEALING_DOMAIN: &[u8] = b"QUORATE_V1_DEALING_BLS12381G1_XMD:SHA-256_SSWU_RO_";
/// The tag of proofs that a dealer knows r.
const RANDOMNESS: &str = "quorate bls12-381 generation randomness 1";

const SHARE_BYTES: usize = 32;
const HEAD_BYTES: usize = 32 + PROOF_BYTES + SIGNATURE_BYTES;

/// A dealing that passed every check that needs no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dealing {
    dealer: usize,
    bytes: Vec<u8>,
    /// A hash of the round, the dealer and the content.
    digest: [u8; 32],
    randomness: RistrettoPoint,
    commitments: Vec<G2>,
    shares: Vec<[u8; SHARE_BYTES]>,
}

/// The reason why bytes are not a dealing of this dealer in this round. The text continues "the
/// dealing of carol".
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DealingFault {
    /// The round has no such member.
    #[error("is of nobody in the round")]
    Stranger,
    /// The length is wrong.
    #[error("has {found} bytes, and {expected} are needed for this number of members")]
    Length {
        /// The length of dealings in this round, in bytes.
        expected: usize,
        /// The length found, in bytes.
        found: usize,
    },
    /// R is no point, or the neutral element.
    #[error("has no randomness for its encryption")]
    Randomness,
    /// A commitment is no key.
    #[error("has a commitment {coefficient} that {problem}")]
    Commitment {
        /// The power of x that it belongs to.
        coefficient: usize,
        /// What is wrong.
        problem: KeyProblem,
    },
    /// The dealer does not know what it encrypted with, or the dealing was changed.
    #[error("comes with a proof of its encryption that does not hold for it")]
    RandomnessProof,
    /// The dealer does not know its polynomial, or the dealing was changed.
    #[error("comes with a proof of its secret that does not hold for it")]
    SecretProof,
}

/// A polynomial, the constant coefficient first.
pub(super) type Polynomial = Zeroizing<Vec<Scalar>>;

impl Round {
    /// The bytes of a dealing in this round.
    #[must_use]
    pub fn dealing_bytes(&self) -> usize {
        HEAD_BYTES + self.quorum * KEY_BYTES + self.members() * SHARE_BYTES
    }

    /// The dealing of the member `dealer`. It is a function of the round, the dealer and the secret
    /// `seed`: a dealer that was interrupted makes the same one again. `None` if the round has no
    /// such member.
    #[must_use]
    pub fn deal(&self, dealer: usize, seed: &[u8; 32]) -> Option<Vec<u8>> {
        self.deal_wrongly(dealer, seed, &[])
    }

    /// As [`Self::deal`], but the shares for `victims` do not fit: what a dealer may do who cheats.
    /// For tests.
    #[must_use]
    pub fn deal_wrongly(
        &self,
        dealer: usize,
        seed: &[u8; 32],
        victims: &[usize],
    ) -> Option<Vec<u8>> {
        if dealer >= self.members() {
            return None;
        }
        // A coefficient of 0 makes no commitment. The probability is 1 in 2²⁵⁵.
        (0..u64::MAX).find_map(|attempt| {
            let polynomial = self.polynomial(dealer, seed, attempt);
            let randomness = scalar(&self.stream("randomness", dealer, seed, attempt));
            let shares = (0..self.members()).map(|place| {
                let elsewhere = self.members() + place;
                value(&polynomial, if victims.contains(&place) { elsewhere } else { place })
            });
            self.write(dealer, &polynomial, &randomness, &shares.collect::<Vec<_>>())
        })
    }

    /// As [`Self::deal`], but the commitment to the coefficient of x is the opposite of the sum of
    /// those of `others`: what the last dealer may do so that no key comes of them all. Its shares
    /// fit nobody. For tests.
    #[must_use]
    pub fn deal_against(
        &self,
        dealer: usize,
        seed: &[u8; 32],
        others: &[Dealing],
    ) -> Option<Vec<u8>> {
        let randomness = scalar(&self.stream("randomness", dealer, seed, 0));
        let own = self.read(dealer, &self.deal(dealer, seed)?).ok()?;
        let sum = others.iter().filter_map(|other| other.commitments.get(1).copied());
        let opposite = subtract_g2(G2::default(), sum_g2(&sum.collect::<Vec<_>>()));
        let mut content = own.bytes[HEAD_BYTES..].to_vec();
        content.get_mut(KEY_BYTES..2 * KEY_BYTES)?.copy_from_slice(&write_key(opposite));
        let secret = secret_key(*self.polynomial(dealer, seed, 0).first()?)?;
        Some(self.seal(dealer, &randomness, &content, &secret))
    }

    /// The coefficients of [`Self::deal`], each little-endian, as secret as `seed`. For the test
    /// that searches memory for them.
    #[doc(hidden)]
    #[must_use]
    pub fn coefficients(&self, dealer: usize, seed: &[u8; 32]) -> Vec<[u8; 32]> {
        self.polynomial(dealer, seed, 0).iter().map(|it| it.to_le_bytes()).collect()
    }

    pub(super) fn polynomial(&self, dealer: usize, seed: &[u8; 32], attempt: u64) -> Polynomial {
        let mut stream = self.stream("polynomial", dealer, seed, attempt).finalize_xof();
        let mut polynomial = Zeroizing::new(Vec::with_capacity(self.quorum));
        for _ in 0..self.quorum {
            let mut bytes = Zeroizing::new([0; 48]);
            stream.fill(bytes.as_mut());
            polynomial.push(Scalar::reduced(&bytes));
        }
        polynomial
    }

    fn stream(&self, what: &str, dealer: usize, seed: &[u8; 32], attempt: u64) -> blake3::Hasher {
        let key = Zeroizing::new(blake3::derive_key("quorate bls12-381 dealing seed 1", seed));
        let mut hasher = blake3::Hasher::new_keyed(&key);
        hasher.update(&self.context);
        hasher.update(&(dealer as u64).to_le_bytes());
        hasher.update(&attempt.to_le_bytes());
        hasher.update(what.as_bytes());
        hasher
    }

    /// A dealing with these shares, which the caller may choose to be wrong.
    pub(super) fn write(
        &self,
        dealer: usize,
        polynomial: &[Scalar],
        randomness: &curve25519_dalek::Scalar,
        shares: &[Zeroizing<[u8; SHARE_BYTES]>],
    ) -> Option<Vec<u8>> {
        // A vector that grew would leave coefficients in the memory that it gave back.
        let mut secrets = Vec::with_capacity(polynomial.len());
        for coefficient in polynomial {
            secrets.push(secret_key(*coefficient)?);
        }
        let sent = RistrettoPoint::mul_base(randomness).compress();
        let mut content = Vec::with_capacity(self.dealing_bytes());
        secrets.iter().for_each(|secret| content.extend_from_slice(&secret.public_key()));
        for (place, (key, share)) in self.keys.iter().zip(shares).enumerate() {
            let shared = Zeroizing::new(key.point() * randomness);
            content.extend_from_slice(&self.masked(dealer, place, &sent, &shared, share)[..]);
        }
        Some(self.seal(dealer, randomness, &content, secrets.first()?))
    }

    /// A dealing of this content, with its proofs.
    pub(super) fn seal(
        &self,
        dealer: usize,
        randomness: &curve25519_dalek::Scalar,
        content: &[u8],
        secret: &SecretKey,
    ) -> Vec<u8> {
        let point = RistrettoPoint::mul_base(randomness);
        let sent = point.compress();
        let digest = self.digest(dealer, &sent, content);
        let mut bytes = Vec::with_capacity(self.dealing_bytes());
        bytes.extend_from_slice(sent.as_bytes());
        bytes.extend_from_slice(&prove(RANDOMNESS, &digest, randomness, &[(BASE, point)]));
        bytes.extend_from_slice(&secret.sign(&digest, DEALING_DOMAIN));
        bytes.extend_from_slice(content);
        bytes
    }

    /// Reads the dealing of the member `dealer`, with every check that needs no secret.
    ///
    /// # Errors
    /// [`DealingFault`].
    pub fn read(&self, dealer: usize, bytes: &[u8]) -> Result<Dealing, DealingFault> {
        if dealer >= self.members() {
            return Err(DealingFault::Stranger);
        }
        let length = DealingFault::Length { expected: self.dealing_bytes(), found: bytes.len() };
        if bytes.len() != self.dealing_bytes() {
            return Err(length);
        }
        let (sent, rest) = bytes.split_first_chunk::<32>().ok_or(length)?;
        let (proof, rest) = rest.split_first_chunk::<PROOF_BYTES>().ok_or(length)?;
        let (signature, content) = rest.split_first_chunk::<SIGNATURE_BYTES>().ok_or(length)?;
        let randomness = read_point(sent).ok_or(DealingFault::Randomness)?;
        let digest = self.digest(dealer, &CompressedRistretto(*sent), content);
        let is_proved = holds(RANDOMNESS, &digest, &[(BASE, randomness)], proof);
        if !planted!("dealing-with-randomness-unproved", true, is_proved) {
            return Err(DealingFault::RandomnessProof);
        }
        let (keys, shares) = content.split_at(self.quorum * KEY_BYTES);
        let commitments = keys.chunks_exact(KEY_BYTES).enumerate().map(|(coefficient, key)| {
            read_key(key).map_err(|problem| DealingFault::Commitment { coefficient, problem })
        });
        let commitments = commitments.collect::<Result<Vec<_>, _>>()?;
        let first = *commitments.first().ok_or(length)?;
        let mut verdict = [false];
        let mut batch = Batch::new(DEALING_DOMAIN);
        batch.claim(0, signature, [(&digest[..], first)]);
        batch.settle(&mut verdict);
        if !planted!("dealing-with-secret-unproved", true, verdict[0]) {
            return Err(DealingFault::SecretProof);
        }
        let shares = shares.as_chunks::<SHARE_BYTES>().0.to_vec();
        Ok(Dealing { dealer, bytes: bytes.to_vec(), digest, randomness, commitments, shares })
    }

    fn digest(&self, dealer: usize, sent: &CompressedRistretto, content: &[u8]) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_derive_key("quorate bls12-381 dealing 1");
        hasher.update(&self.context);
        hasher.update(&(dealer as u64).to_le_bytes());
        hasher.update(sent.as_bytes());
        hasher.update(content);
        *hasher.finalize().as_bytes()
    }

    /// A share, hidden or shown again: it is added to a hash of the shared secret, bit by bit.
    fn masked(
        &self,
        dealer: usize,
        recipient: usize,
        sent: &CompressedRistretto,
        shared: &RistrettoPoint,
        share: &[u8; SHARE_BYTES],
    ) -> Zeroizing<[u8; SHARE_BYTES]> {
        let mut hasher = blake3::Hasher::new_derive_key("quorate bls12-381 dealing share 1");
        hasher.update(&self.context);
        hasher.update(&(dealer as u64).to_le_bytes());
        hasher.update(&(recipient as u64).to_le_bytes());
        hasher.update(sent.as_bytes());
        hasher.update(Zeroizing::new(shared.compress()).as_bytes());
        let mut masked = Zeroizing::new(*hasher.finalize().as_bytes());
        masked.iter_mut().zip(share).for_each(|(mask, byte)| *mask ^= byte);
        masked
    }

    /// The share in `dealing` for `recipient`, if it fits the commitments. `shared` must be the
    /// shared secret of the two.
    pub(super) fn share(
        &self,
        dealing: &Dealing,
        recipient: usize,
        shared: &RistrettoPoint,
    ) -> Option<Zeroizing<Scalar>> {
        let sent = dealing.randomness.compress();
        let hidden = dealing.shares.get(recipient)?;
        let bytes = self.masked(dealing.dealer, recipient, &sent, shared, hidden);
        let share = read_scalar(&bytes)?;
        let expected = evaluate(&dealing.commitments, recipient);
        let fits = match secret_key(*share) {
            Some(key) => !is_infinity_g2(&expected) && key.public_key() == write_key(expected),
            None => is_infinity_g2(&expected),
        };
        fits.then_some(share)
    }
}

impl Dealing {
    /// The member that dealt.
    #[must_use]
    pub fn dealer(&self) -> usize {
        self.dealer
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What identifies it: a hash of the round, the dealer and the content.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        self.digest
    }

    pub(super) fn randomness(&self) -> RistrettoPoint {
        self.randomness
    }

    pub(super) fn commitments(&self) -> &[G2] {
        &self.commitments
    }

    pub(super) fn shared_with(&self, key: &DecryptionKey) -> Zeroizing<RistrettoPoint> {
        key.shared_with(&self.randomness)
    }
}

/// f(x)·g₂ at the position of the member `place`, from commitments to f.
pub(super) fn evaluate(commitments: &[G2], place: usize) -> G2 {
    let x = Scalar::from_u64(position(place));
    let mut power = Scalar::from_u64(1);
    let powers = commitments.iter().map(|_| {
        let this = power.to_le_bytes();
        power = power * x;
        this
    });
    combine_g2(commitments, &powers.collect::<Vec<_>>())
}

/// f(x) at the position of the member `place`.
pub(super) fn value(polynomial: &[Scalar], place: usize) -> Zeroizing<[u8; SHARE_BYTES]> {
    let x = Scalar::from_u64(position(place));
    let mut value = polynomial.iter().rev().fold(Scalar::ZERO, |sum, next| sum * x + *next);
    let bytes = Zeroizing::new(value.to_le_bytes());
    value.zeroize();
    bytes
}

/// The number with these bytes, little-endian; `None` if it is not below the order.
fn read_scalar(bytes: &[u8; SHARE_BYTES]) -> Option<Zeroizing<Scalar>> {
    let mut wide = Zeroizing::new([0; 48]);
    wide[16..].copy_from_slice(bytes);
    wide[16..].reverse();
    let scalar = Zeroizing::new(Scalar::reduced(&wide));
    (*Zeroizing::new(scalar.to_le_bytes()) == *bytes).then_some(scalar)
}

/// A number as a secret key; `None` for 0.
pub(super) fn secret_key(scalar: Scalar) -> Option<SecretKey> {
    let mut bytes = Zeroizing::new(scalar.to_le_bytes());
    bytes.reverse();
    SecretKey::from_bytes(&bytes)
}
