//! BLS secret keys, and signing.

use std::fmt;

use blst::min_sig;
use zeroize::Zeroizing;

use super::{KEY_BYTES, SIGNATURE_BYTES};

/// A secret key with its public key. Wiped when dropped (by [`min_sig::SecretKey`]); never printed.
pub struct SecretKey {
    scalar: min_sig::SecretKey,
    public: [u8; KEY_BYTES],
}

impl SecretKey {
    /// The key with these 32 bytes, big-endian; `None` if they are 0 or at least the order.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; 32]) -> Option<Self> {
        min_sig::SecretKey::from_bytes(bytes).ok().map(Self::new)
    }

    fn new(scalar: min_sig::SecretKey) -> Self {
        let public = scalar.sk_to_pk().compress();
        Self { scalar, public }
    }

    /// Its bytes. Secret.
    #[must_use]
    pub fn to_bytes(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.scalar.to_bytes())
    }

    /// The public half.
    #[must_use]
    pub fn public_key(&self) -> [u8; KEY_BYTES] {
        self.public
    }

    /// Signs `message` under the tag `domain`, in constant time.
    #[must_use]
    pub fn sign(&self, message: &[u8], domain: &[u8]) -> [u8; SIGNATURE_BYTES] {
        self.scalar.sign(message, domain, &[]).compress()
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("secret BLS12-381 key")
    }
}
