//! ECDSA over secp256k1, the curve of SEC 2, section 2.4.1.

use std::fmt;

use secp256k1::ecdsa::Signature;
use secp256k1::{Message, PublicKey as Point, SecretKey as Scalar, ecdsa};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use super::{KEY_BYTES, SIGNATURE_BYTES, low_s};
use crate::committee_keys::KeyProblem;

/// (n − 1) / 2.
const HALF_ORDER: [u8; 32] = [
    0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    0x5d, 0x57, 0x6e, 0x73, 0x57, 0xa4, 0x50, 0x1d, 0xdf, 0xe9, 0x2f, 0x46, 0x68, 0x1b, 0x20, 0xa0,
];

/// A secret key. Wiped when dropped; never printed.
pub struct SecretKey {
    scalar: Scalar,
    public: [u8; KEY_BYTES],
}

impl SecretKey {
    /// The key with these 32 bytes, big-endian; `None` if they are 0 or at least the order.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; 32]) -> Option<Self> {
        let scalar = Scalar::from_secret_bytes(*bytes).ok()?;
        let public = Point::from_secret_key(&scalar).serialize();
        Some(Self { scalar, public })
    }

    /// Its bytes. Secret.
    #[must_use]
    pub fn to_bytes(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.scalar.to_secret_bytes())
    }

    /// The public half.
    #[must_use]
    pub fn public_key(&self) -> [u8; KEY_BYTES] {
        self.public
    }

    /// Signs SHA-256 of `message`, with low s and the nonce of RFC 6979.
    #[must_use]
    pub fn sign(&self, message: &[u8]) -> [u8; SIGNATURE_BYTES] {
        ecdsa::sign(digest(message), &self.scalar).serialize_compact()
    }
}

impl Drop for SecretKey {
    fn drop(&mut self) {
        self.scalar.non_secure_erase();
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("secret ECDSA key over secp256k1")
    }
}

/// A public key, read and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey(Point);

impl PublicKey {
    /// Reads a compressed point.
    ///
    /// # Errors
    /// [`KeyProblem`] if there is no such point.
    pub fn read(bytes: &[u8]) -> Result<Self, KeyProblem> {
        let bytes: &[u8; KEY_BYTES] = bytes
            .try_into()
            .map_err(|_| KeyProblem::Length { expected: KEY_BYTES, found: bytes.len() })?;
        Point::from_byte_array_compressed(*bytes).map(Self).map_err(|_| KeyProblem::NotOnCurve)
    }

    /// Whether `signature` is a valid signature of `message` by this key, with low s.
    #[must_use]
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        // The library refuses a high s by default. This check does not rely on that.
        low_s(signature, &HALF_ORDER)
            .and_then(|signature| Signature::from_compact(signature).ok())
            .is_some_and(|signature| ecdsa::verify(&signature, digest(message), &self.0).is_ok())
    }
}

fn digest(message: &[u8]) -> Message {
    Message::from_digest(Sha256::digest(message).into())
}
