//! What everything else is written in: numbers and identities, encodings, hashes, signatures as
//! the core sees them, and the committee with its quorums.

pub mod committee;
pub mod crypto;
pub mod hashes;
pub mod merkle;
pub mod types;
pub mod wire;
