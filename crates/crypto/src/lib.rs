//! The arithmetic behind [`quorate_core::crypto`], and the files secret keys live in.
//!
//! [`ed25519`] has the one signature scheme in use; [`key_file`] reads and writes secret keys, be
//! they a replica's consensus key, its transport key, or a client's key.
// Denied and not forbidden: `bls::curve` calls foreign functions.
#![deny(unsafe_code)]

pub mod bls;
pub mod committee_keys;
pub mod consensus_key;
pub mod ecdsa;
pub mod ed25519;
pub mod key_file;
pub mod scheme_name;
pub mod unsigned;

#[cfg(test)]
mod test_bytes;

pub use consensus_key::ConsensusKey;
pub use ed25519::{Ed25519, SecretKey};
pub use scheme_name::SchemeName;
