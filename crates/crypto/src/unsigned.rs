//! The scheme without signatures, which shows the cost of signatures. It is for the laboratory
//! only.
//!
//! Every replica's signature is empty and valid. A node of this scheme believes every connected
//! participant, so it refuses to run outside the laboratory. Clients sign as usual.

use std::fmt;

use zeroize::ZeroizeOnDrop;

/// The stand-in for a secret key: random bytes, so that replicas have different identities.
#[derive(Clone, ZeroizeOnDrop)]
pub struct SecretKey {
    bytes: [u8; 32],
}

impl SecretKey {
    /// The key of these bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; 32]) -> Self {
        Self { bytes: *bytes }
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.bytes
    }

    /// The stand-in for the public half: a hash. It proves nothing.
    #[must_use]
    pub fn public_key(&self) -> [u8; 32] {
        blake3::derive_key("quorate/none/public-key/1", &self.bytes)
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("secret key that signs nothing")
    }
}
