//! What everything else is written in: numbers and identities, encodings, hashes, signatures as
//! the core sees them, and the members with their quorums.

pub mod crypto;
pub mod format;
pub mod membership;
pub mod per_peer;
pub mod types;
pub mod wire;
