//! ECDSA over P-256, the curve of FIPS 186-5 / SP 800-186, section 3.2.1.3.

use std::fmt;

use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, ParsedPublicKey};
use p256::ecdsa::signature::Signer as _;
use p256::ecdsa::{Signature, SigningKey};
use zeroize::Zeroizing;

use super::{KEY_BYTES, SIGNATURE_BYTES, low_s};
use crate::committee_keys::KeyProblem;

/// (n − 1) / 2.
const HALF_ORDER: [u8; 32] = [
    0x7f, 0xff, 0xff, 0xff, 0x80, 0x00, 0x00, 0x00, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    0xde, 0x73, 0x7d, 0x56, 0xd3, 0x8b, 0xcf, 0x42, 0x79, 0xdc, 0xe5, 0x61, 0x7e, 0x31, 0x92, 0xa8,
];

/// A secret key. Wiped when dropped (by [`SigningKey`]); never printed.
pub struct SecretKey {
    key: SigningKey,
    public: [u8; KEY_BYTES],
}

impl SecretKey {
    /// The key with these 32 bytes, big-endian; `None` if they are 0 or at least the order.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; 32]) -> Option<Self> {
        let key = SigningKey::from_slice(bytes).ok()?;
        let public = key.verifying_key().to_sec1_point(true).as_bytes().try_into().ok()?;
        Some(Self { key, public })
    }

    /// Its bytes. Secret.
    #[must_use]
    pub fn to_bytes(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.key.to_bytes().into())
    }

    /// The public half.
    #[must_use]
    pub fn public_key(&self) -> [u8; KEY_BYTES] {
        self.public
    }

    /// Signs SHA-256 of `message`, with low s and the nonce of RFC 6979.
    #[must_use]
    pub fn sign(&self, message: &[u8]) -> [u8; SIGNATURE_BYTES] {
        let signature: Signature = self.key.sign(message);
        signature.normalize_s().to_bytes().into()
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("secret ECDSA key over P-256")
    }
}

/// A public key, read and checked.
#[derive(Clone, Debug)]
pub struct PublicKey(ParsedPublicKey);

impl PublicKey {
    /// Reads a compressed point.
    ///
    /// # Errors
    /// [`KeyProblem`] if there is no such point.
    pub fn read(bytes: &[u8]) -> Result<Self, KeyProblem> {
        if bytes.len() != KEY_BYTES {
            return Err(KeyProblem::Length { expected: KEY_BYTES, found: bytes.len() });
        }
        let key = ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, bytes);
        key.map(Self).map_err(|_| KeyProblem::NotOnCurve)
    }

    /// Whether `signature` is a valid signature of `message` by this key, with low s.
    #[must_use]
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        low_s(signature, &HALF_ORDER)
            .is_some_and(|signature| self.0.verify_sig(message, signature).is_ok())
    }
}
