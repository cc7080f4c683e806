//! The signature schemes behind [`quorate_core::base::crypto`], and the files of secret keys.
//!
//! Clients sign with Ed25519. The replicas of a committee sign with the scheme that it has chosen
//! ([`SchemeName`]): [`ed25519`], [`ecdsa`] over one of two curves, [`bls`] with keys that the
//! replicas made or that were dealt, or nothing at all ([`unsigned`]). [`CommitteeScheme`] checks
//! [`committee_keys`], and then verifies and joins signatures of both; [`MembersScheme`] does so
//! where members change. [`ConsensusKey`] signs for a replica. [`key_file`] reads and writes secret
//! keys: a replica's consensus key, its transport key, or a client's key.
// Denied and not forbidden: `bls::curve` calls foreign functions.
#![deny(unsafe_code)]

pub mod bls;
pub mod committee_keys;
pub mod committee_scheme;
pub mod consensus_key;
pub mod ecdsa;
pub mod ed25519;
pub mod key_file;
pub mod members_scheme;
pub mod scheme_name;
pub mod unsigned;

#[cfg(test)]
mod test_bytes;

pub use committee_scheme::CommitteeScheme;
pub use consensus_key::ConsensusKey;
pub use ed25519::{Ed25519, SecretKey};
pub use members_scheme::MembersScheme;
pub use scheme_name::SchemeName;
