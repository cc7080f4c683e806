//! The names of the signature schemes that a committee can choose.

use std::fmt;
use std::str::FromStr;

use quorate_core::base::crypto::Form;

/// A signature scheme of replicas, as named in configuration and key files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SchemeName {
    /// Ed25519 under ZIP-215 ([`crate::ed25519`]).
    Ed25519,
    /// ECDSA over secp256k1 ([`crate::ecdsa`]).
    EcdsaSecp256k1,
    /// ECDSA over P-256 ([`crate::ecdsa`]).
    EcdsaP256,
    /// BLS signatures, joined by addition; every replica made its own key ([`crate::bls`]).
    Bls,
    /// BLS signatures under one key, of which each replica has a share: from a dealer, or from a
    /// key generation of all ([`crate::bls::threshold`]).
    BlsThreshold,
    /// No signatures ([`crate::unsigned`]): for the laboratory alone.
    None,
}

/// An unknown name of a scheme.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown signature scheme `{0}`; there are: {names}", names = SchemeName::list())]
pub struct UnknownScheme(pub String);

impl SchemeName {
    /// All schemes, in the order of the documentation.
    pub const ALL: [Self; 6] = [
        Self::Ed25519,
        Self::EcdsaSecp256k1,
        Self::EcdsaP256,
        Self::Bls,
        Self::BlsThreshold,
        Self::None,
    ];

    /// The name in configuration and key files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ed25519 => "ed25519",
            Self::EcdsaSecp256k1 => "ecdsa-secp256k1",
            Self::EcdsaP256 => "ecdsa-p256",
            Self::Bls => "bls12-381",
            Self::BlsThreshold => "bls12-381-threshold",
            Self::None => "none",
        }
    }

    /// The length of a secret key, the same for all schemes.
    pub const SECRET_KEY_BYTES: usize = 32;

    /// The length of a public key.
    #[must_use]
    pub const fn public_key_bytes(self) -> usize {
        match self {
            Self::Ed25519 | Self::None => 32,
            Self::EcdsaSecp256k1 | Self::EcdsaP256 => 33,
            Self::Bls | Self::BlsThreshold => 96,
        }
    }

    /// The length of a replica's signature, and of a joined one.
    #[must_use]
    pub const fn signature_bytes(self) -> usize {
        match self {
            Self::Ed25519 | Self::EcdsaSecp256k1 | Self::EcdsaP256 => 64,
            Self::Bls | Self::BlsThreshold => 48,
            Self::None => 0,
        }
    }

    /// The form of the signatures in a certificate of votes.
    #[must_use]
    pub const fn vote_form(self) -> Form {
        match self {
            Self::Ed25519 | Self::EcdsaSecp256k1 | Self::EcdsaP256 | Self::None => Form::List,
            Self::Bls => Form::Aggregate,
            Self::BlsThreshold => Form::Threshold,
        }
    }

    /// The form of the signatures in a certificate of time-outs, whose statements differ.
    #[must_use]
    pub const fn time_out_form(self) -> Form {
        match self {
            Self::Ed25519 | Self::EcdsaSecp256k1 | Self::EcdsaP256 | Self::None => Form::List,
            Self::Bls | Self::BlsThreshold => Form::Aggregate,
        }
    }

    /// Whether a public key requires a proof of possession ([`crate::bls::possession`]).
    #[must_use]
    pub const fn needs_possession(self) -> bool {
        matches!(self, Self::Bls)
    }

    /// Whether all keys are made at once, by a dealer ([`crate::bls::threshold::deal`]) or by a key
    /// generation of all ([`crate::bls::threshold::generation`]), with a group key of the
    /// committee.
    #[must_use]
    pub const fn is_dealt(self) -> bool {
        matches!(self, Self::BlsThreshold)
    }

    /// The names, for messages.
    fn list() -> String {
        Self::ALL.map(Self::as_str).join(", ")
    }
}

impl fmt::Display for SchemeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for SchemeName {
    type Err = UnknownScheme;

    fn from_str(name: &str) -> Result<Self, UnknownScheme> {
        let found = Self::ALL.into_iter().find(|scheme| scheme.as_str() == name);
        found.ok_or_else(|| UnknownScheme(name.to_owned()))
    }
}
