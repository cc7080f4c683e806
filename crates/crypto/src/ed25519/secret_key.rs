//! The signing half (RFC 8032, section 5.1.6).

use std::fmt;

use curve25519_dalek::{EdwardsPoint, Scalar, scalar::clamp_integer};
use quorate_core::crypto::{ClientSigner, PublicKey, Signature, Signer, Statement};
use sha2::{Digest as _, Sha512};
use zeroize::{ZeroizeOnDrop, Zeroizing};

use super::{challenge, challenge_bytes};

/// A secret key, beside what is derived from it once. Wiped when dropped; never printed.
#[derive(Clone, ZeroizeOnDrop)]
pub struct SecretKey {
    seed: [u8; 32],
    scalar: Scalar,
    prefix: [u8; 32],
    #[zeroize(skip)]
    public: PublicKey,
}

/// The operating system gave no randomness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no randomness from the operating system for a new key: {0}")]
pub struct RandomnessError(#[from] getrandom::Error);

impl SecretKey {
    /// The key that a seed of 32 bytes stands for (the "private key" of RFC 8032).
    #[must_use]
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        let hash = Zeroizing::new(<[u8; 64]>::from(Sha512::digest(seed)));
        let (mut low, mut prefix) = (Zeroizing::new([0; 32]), [0; 32]);
        low.copy_from_slice(&hash[..32]);
        prefix.copy_from_slice(&hash[32..]);
        let scalar = Scalar::from_bytes_mod_order(clamp_integer(*low));
        let public = PublicKey(EdwardsPoint::mul_base(&scalar).compress().to_bytes());
        Self { seed: *seed, scalar, prefix, public }
    }

    /// A new key from the operating system's randomness.
    ///
    /// # Errors
    /// [`RandomnessError`] if there is none.
    pub fn generate() -> Result<Self, RandomnessError> {
        let mut seed = Zeroizing::new([0; 32]);
        getrandom::fill(seed.as_mut())?;
        Ok(Self::from_seed(&seed))
    }

    /// The 32 bytes this key is kept as. Secret.
    #[must_use]
    pub fn seed(&self) -> &[u8; 32] {
        &self.seed
    }

    pub(crate) fn sign_bytes(&self, message: &[u8]) -> [u8; 64] {
        let nonce = Zeroizing::new(<[u8; 64]>::from(
            Sha512::new().chain_update(self.prefix).chain_update(message).finalize(),
        ));
        let r = Zeroizing::new(Scalar::from_bytes_mod_order_wide(&nonce));
        let r_point = EdwardsPoint::mul_base(&r).compress();
        let k = challenge(&challenge_bytes(r_point.as_bytes(), &self.public.0, message));
        let s = *r + k * self.scalar;
        let mut signature = [0; 64];
        signature[..32].copy_from_slice(r_point.as_bytes());
        signature[32..].copy_from_slice(s.as_bytes());
        signature
    }
}

impl Signer for SecretKey {
    fn sign(&self, statement: &Statement) -> Signature {
        self.sign_bytes(statement.as_bytes()).into()
    }
}

impl ClientSigner for SecretKey {
    fn public_key(&self) -> PublicKey {
        self.public
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "secret key of {:?}", self.public)
    }
}
