//! Ed25519 secret keys, and signing (RFC 8032, section 5.1.6). ZIP-215 does not concern signing.
//! AWS-LC signs: its arithmetic on x86-64 and AArch64 is proven, runs in constant time, and takes
//! half the time of the library that verifies.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use quorate_core::base::crypto::{ClientSigner, PublicKey, Signature, Signer, Statement};
use zeroize::{ZeroizeOnDrop, Zeroizing};

/// A secret key, with values derived from it. Wiped when dropped (AWS-LC wipes memory that it
/// frees); never printed.
#[derive(Clone, ZeroizeOnDrop)]
pub struct SecretKey {
    seed: [u8; 32],
    #[zeroize(skip)]
    pair: Arc<Ed25519KeyPair>,
    #[zeroize(skip)]
    public: PublicKey,
}

/// The operating system gave no randomness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no randomness from the operating system for a new key: {0}")]
pub struct RandomnessError(#[from] getrandom::Error);

impl SecretKey {
    /// The key from a seed of 32 bytes (the "private key" of RFC 8032).
    #[must_use]
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).expect("a seed has 32 bytes");
        let public = pair.public_key().as_ref().try_into().expect("a key has 32 bytes");
        Self { seed: *seed, pair: Arc::new(pair), public: PublicKey(public) }
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

    pub(crate) fn sign_bytes(&self, message: &[u8]) -> [u8; 64] {
        self.pair.sign(message).as_ref().try_into().expect("a signature has 64 bytes")
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
