//! Encryption of shares over ristretto255, and proofs about its discrete logarithms.
//!
//! A proof shows that one x satisfies Yⱼ = x·Gⱼ for a list of pairs (Gⱼ, Yⱼ). With one pair it is
//! Schnorr's, with two that of Chaum and Pedersen ("Wallet Databases with Observers", CRYPTO 1992).
//! It is made non-interactive by Fiat and Shamir's hash, over the pairs, the message and a tag of
//! its use. The nonce is hashed from the secret and all the hash covers, so a prover never reuses
//! it.

use std::fmt;

use curve25519_dalek::constants::RISTRETTO_BASEPOINT_POINT;
use curve25519_dalek::ristretto::CompressedRistretto;
use curve25519_dalek::traits::IsIdentity as _;
use curve25519_dalek::{RistrettoPoint, Scalar};
use quorate_core::planted;
use zeroize::Zeroizing;

use crate::ed25519::RandomnessError;

/// Bytes in a public encryption key.
pub const ENCRYPTION_KEY_BYTES: usize = 32;
/// Bytes in a proof.
pub const PROOF_BYTES: usize = 64;

/// B, the generator.
pub(super) const BASE: RistrettoPoint = RISTRETTO_BASEPOINT_POINT;

/// A pair (G, Y) of which a proof says Y = x·G.
pub(super) type Pair = (RistrettoPoint, RistrettoPoint);

/// The tag of proofs that the owner of an encryption key knows its secret half.
const POSSESSION: &str = "quorate bls12-381 generation possession 1";

/// The public half of a key that shares are encrypted to. It is never the neutral element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncryptionKey {
    bytes: [u8; ENCRYPTION_KEY_BYTES],
    point: RistrettoPoint,
}

impl EncryptionKey {
    /// Reads a key from outside. `None` if the bytes are not the one encoding of a point, or if the
    /// point is the neutral element.
    #[must_use]
    pub fn read(bytes: &[u8; ENCRYPTION_KEY_BYTES]) -> Option<Self> {
        let point = read_point(bytes)?;
        Some(Self { bytes: *bytes, point })
    }

    fn of(point: RistrettoPoint) -> Self {
        Self { bytes: point.compress().to_bytes(), point }
    }

    /// Its bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; ENCRYPTION_KEY_BYTES] {
        self.bytes
    }

    /// Whether the owner of this key signed `message` with it ([`DecryptionKey::prove`]).
    #[must_use]
    pub fn has_proved(&self, message: &[u8], proof: &[u8; PROOF_BYTES]) -> bool {
        holds(POSSESSION, message, &[(BASE, self.point)], proof)
    }

    pub(super) fn point(&self) -> RistrettoPoint {
        self.point
    }
}

/// The secret half. Wiped when dropped; never printed.
pub struct DecryptionKey {
    seed: Zeroizing<[u8; 32]>,
    secret: Zeroizing<Scalar>,
    public: EncryptionKey,
}

impl DecryptionKey {
    /// The key of a seed of 32 bytes, which a file stores.
    #[must_use]
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        let mut hasher =
            blake3::Hasher::new_derive_key("quorate bls12-381 generation encryption key 1");
        hasher.update(seed);
        let secret = scalar(&hasher);
        let public = EncryptionKey::of(RistrettoPoint::mul_base(&secret));
        Self { seed: Zeroizing::new(*seed), secret, public }
    }

    /// Makes a new key from the operating system's randomness.
    ///
    /// # Errors
    /// [`RandomnessError`] if there is none.
    pub fn generate() -> Result<Self, RandomnessError> {
        let mut seed = Zeroizing::new([0; 32]);
        getrandom::fill(seed.as_mut())?;
        Ok(Self::from_seed(&seed))
    }

    /// The 32 bytes that a file stores. Secret.
    #[must_use]
    pub fn seed(&self) -> &[u8; 32] {
        &self.seed
    }

    /// The public half.
    #[must_use]
    pub fn public_key(&self) -> EncryptionKey {
        self.public
    }

    /// A signature of `message`, which proves that the owner knows the secret half.
    #[must_use]
    pub fn prove(&self, message: &[u8]) -> [u8; PROOF_BYTES] {
        prove(POSSESSION, message, &self.secret, &[(BASE, self.public.point)])
    }

    pub(super) fn secret(&self) -> &Scalar {
        &self.secret
    }

    /// The secret shared with the owner of r, for R = r·B.
    pub(super) fn shared_with(&self, point: &RistrettoPoint) -> Zeroizing<RistrettoPoint> {
        Zeroizing::new(point * *self.secret)
    }
}

impl fmt::Debug for DecryptionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "secret half of the encryption key {:?}", self.public.bytes)
    }
}

/// Reads a point from outside; `None` for the neutral element too.
pub(super) fn read_point(bytes: &[u8; 32]) -> Option<RistrettoPoint> {
    let point = CompressedRistretto(*bytes).decompress()?;
    (!point.is_identity()).then_some(point)
}

/// A scalar of 512 hashed bits, uniform to within 2⁻²⁵⁶.
pub(super) fn scalar(hasher: &blake3::Hasher) -> Zeroizing<Scalar> {
    let mut wide = Zeroizing::new([0; 64]);
    hasher.finalize_xof().fill(wide.as_mut());
    Zeroizing::new(Scalar::from_bytes_mod_order_wide(&wide))
}

/// Proves that Y = `secret`·G for all pairs.
pub(super) fn prove(
    tag: &str,
    message: &[u8],
    secret: &Scalar,
    pairs: &[Pair],
) -> [u8; PROOF_BYTES] {
    let key = Zeroizing::new(blake3::derive_key(
        "quorate bls12-381 generation nonce 1",
        secret.as_bytes(),
    ));
    let mut hasher = blake3::Hasher::new_keyed(&key);
    absorb(&mut hasher, tag, message, pairs);
    let nonce = scalar(&hasher);
    let first: Vec<RistrettoPoint> = pairs.iter().map(|(base, _)| base * *nonce).collect();
    let challenge = challenge(tag, message, pairs, &first);
    let answer = *nonce - challenge * secret;
    let mut proof = [0; PROOF_BYTES];
    proof[..32].copy_from_slice(challenge.as_bytes());
    proof[32..].copy_from_slice(answer.as_bytes());
    proof
}

/// Whether `proof` shows one x with Y = x·G for all pairs.
pub(super) fn holds(tag: &str, message: &[u8], pairs: &[Pair], proof: &[u8; PROOF_BYTES]) -> bool {
    let read = |half: &[u8]| -> Option<Scalar> {
        Scalar::from_canonical_bytes(half.try_into().ok()?).into()
    };
    let Some((expected, answer)) = read(&proof[..32]).zip(read(&proof[32..])) else {
        return false;
    };
    let first: Vec<RistrettoPoint> =
        pairs.iter().map(|(base, image)| base * answer + image * expected).collect();
    challenge(tag, message, pairs, &first) == expected
}

fn challenge(tag: &str, message: &[u8], pairs: &[Pair], first: &[RistrettoPoint]) -> Scalar {
    let mut hasher = blake3::Hasher::new_derive_key("quorate bls12-381 generation challenge 1");
    absorb(&mut hasher, tag, message, pairs);
    for point in planted!("complaint-of-any-secret", &first[..1], first) {
        hasher.update(point.compress().as_bytes());
    }
    *scalar(&hasher)
}

fn absorb(hasher: &mut blake3::Hasher, tag: &str, message: &[u8], pairs: &[Pair]) {
    for bytes in [tag.as_bytes(), message] {
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    }
    hasher.update(&(pairs.len() as u64).to_le_bytes());
    for (base, image) in pairs {
        hasher.update(base.compress().as_bytes());
        hasher.update(image.compress().as_bytes());
    }
}
