//! A replica's secret key, of any scheme that its committee can choose.

use std::fmt;

use quorate_core::base::crypto::{ClientSigner as _, Signature, Signer, Statement};
use zeroize::Zeroizing;

use crate::bls::{self, possession, threshold};
use crate::ecdsa::{p256, secp256k1};
use crate::ed25519::{RandomnessError, SecretKey};
use crate::scheme_name::SchemeName;
use crate::unsigned;

/// A replica's secret key. Wiped when dropped; never printed.
pub struct ConsensusKey(Key);

enum Key {
    Ed25519(SecretKey),
    EcdsaSecp256k1(secp256k1::SecretKey),
    EcdsaP256(p256::SecretKey),
    Bls(bls::SecretKey),
    BlsThreshold(bls::SecretKey),
    None(unsigned::SecretKey),
}

/// The reason why no key was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GenerateError {
    /// The keys of the scheme are dealt, all at once.
    #[error("a key of the scheme {0} is not made by itself: deal the keys of the whole committee")]
    Dealt(SchemeName),
    /// The operating system gave no randomness.
    #[error(transparent)]
    Randomness(#[from] RandomnessError),
}

impl ConsensusKey {
    /// Makes a new key from the operating system's randomness.
    ///
    /// # Errors
    /// [`GenerateError`] if there is none, or if the scheme's keys are dealt ([`threshold::deal`]).
    pub fn generate(scheme: SchemeName) -> Result<Self, GenerateError> {
        if scheme.is_dealt() {
            return Err(GenerateError::Dealt(scheme));
        }
        // Bytes out of range are drawn again, so all numbers below the order are equally likely.
        loop {
            let mut bytes = Zeroizing::new([0; SchemeName::SECRET_KEY_BYTES]);
            getrandom::fill(bytes.as_mut()).map_err(RandomnessError::from)?;
            if let Some(key) = Self::from_bytes(scheme, &bytes) {
                return Ok(key);
            }
        }
    }

    /// A share that a dealer handed out, or that a key generation made.
    #[must_use]
    pub fn dealt(share: bls::SecretKey) -> Self {
        Self(Key::BlsThreshold(share))
    }

    /// The key that a file stores as these bytes: a seed for Ed25519 and `none`, a big-endian
    /// number for the others. `None` if the number is 0 or not below the group's order.
    #[must_use]
    pub fn from_bytes(
        scheme: SchemeName,
        bytes: &[u8; SchemeName::SECRET_KEY_BYTES],
    ) -> Option<Self> {
        Some(Self(match scheme {
            SchemeName::Ed25519 => Key::Ed25519(SecretKey::from_seed(bytes)),
            SchemeName::EcdsaSecp256k1 => {
                Key::EcdsaSecp256k1(secp256k1::SecretKey::from_bytes(bytes)?)
            }
            SchemeName::EcdsaP256 => Key::EcdsaP256(p256::SecretKey::from_bytes(bytes)?),
            SchemeName::Bls => Key::Bls(bls::SecretKey::from_bytes(bytes)?),
            SchemeName::BlsThreshold => Key::BlsThreshold(bls::SecretKey::from_bytes(bytes)?),
            SchemeName::None => Key::None(unsigned::SecretKey::from_bytes(bytes)),
        }))
    }

    /// The bytes that a file stores. Secret.
    #[must_use]
    pub fn to_bytes(&self) -> Zeroizing<[u8; SchemeName::SECRET_KEY_BYTES]> {
        match &self.0 {
            Key::Ed25519(key) => Zeroizing::new(*key.seed()),
            Key::EcdsaSecp256k1(key) => key.to_bytes(),
            Key::EcdsaP256(key) => key.to_bytes(),
            Key::Bls(key) | Key::BlsThreshold(key) => key.to_bytes(),
            Key::None(key) => Zeroizing::new(*key.as_bytes()),
        }
    }

    /// The scheme of the key.
    #[must_use]
    pub fn scheme(&self) -> SchemeName {
        match &self.0 {
            Key::Ed25519(_) => SchemeName::Ed25519,
            Key::EcdsaSecp256k1(_) => SchemeName::EcdsaSecp256k1,
            Key::EcdsaP256(_) => SchemeName::EcdsaP256,
            Key::Bls(_) => SchemeName::Bls,
            Key::BlsThreshold(_) => SchemeName::BlsThreshold,
            Key::None(_) => SchemeName::None,
        }
    }

    /// The public half, with [`SchemeName::public_key_bytes`] bytes.
    #[must_use]
    pub fn public_key(&self) -> Vec<u8> {
        match &self.0 {
            Key::Ed25519(key) => key.public_key().0.to_vec(),
            Key::EcdsaSecp256k1(key) => key.public_key().to_vec(),
            Key::EcdsaP256(key) => key.public_key().to_vec(),
            Key::Bls(key) | Key::BlsThreshold(key) => key.public_key().to_vec(),
            Key::None(key) => key.public_key().to_vec(),
        }
    }

    /// The proof of possession for the public half, if the scheme requires one.
    #[must_use]
    pub fn proof_of_possession(&self) -> Option<[u8; bls::SIGNATURE_BYTES]> {
        match &self.0 {
            Key::Bls(key) => Some(possession::prove(key)),
            _ => None,
        }
    }
}

impl Signer for ConsensusKey {
    fn sign(&self, statement: &Statement) -> Signature {
        let message = statement.as_bytes();
        let joinable = |key: &bls::SecretKey, domain| {
            // 48 bytes are not too many for a signature.
            Signature::new(&key.sign(message, domain)).unwrap_or(Signature::NONE)
        };
        match &self.0 {
            Key::Ed25519(key) => key.sign_bytes(message).into(),
            Key::EcdsaSecp256k1(key) => key.sign(message).into(),
            Key::EcdsaP256(key) => key.sign(message).into(),
            Key::Bls(key) => joinable(key, bls::SIGNATURE_DOMAIN),
            Key::BlsThreshold(key) => joinable(key, threshold::SIGNATURE_DOMAIN),
            Key::None(_) => Signature::NONE,
        }
    }
}

impl fmt::Debug for ConsensusKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "secret {} key", self.scheme())
    }
}
