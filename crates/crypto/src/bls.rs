//! BLS signatures over BLS12-381, with short signatures: 48 bytes in G1, public keys of 96 bytes
//! in G2.
//!
//! With secret key x and public key X = x·g₂, the signature of a message m is σ = x·H(m). It is
//! valid if e(σ, g₂) = e(H(m), X). Signatures are points and can be added. The sum of the
//! signatures of replicas in S is one signature, valid if e(Σ σᵢ, g₂) = e(H(m), Σ Xᵢ); it costs as
//! much as one. (Boneh, Lynn, Shacham, "Short Signatures from the Weil Pairing", ASIACRYPT 2001;
//! Boneh, Gentry, Lynn, Shacham, EUROCRYPT 2003; draft-irtf-cfrg-bls-signature, section 2.)
//!
//! # What is hashed
//!
//! H is `hash_to_curve` of RFC 9380 for the suite `BLS12381G1_XMD:SHA-256_SSWU_RO_`. It hashes the
//! bytes of the statement under one of three domain separation tags:
//!
//! | tag | of |
//! |---|---|
//! | [`SIGNATURE_DOMAIN`] | statements, in a committee whose replicas made their own keys |
//! | [`POSSESSION_DOMAIN`] | the 96 bytes of a public key, signed by itself |
//! | [`threshold::SIGNATURE_DOMAIN`] | statements, in a committee whose keys were dealt |
//!
//! So a signature of one kind is never valid as another.
//!
//! # What is refused
//!
//! Every point from outside must be one compressed encoding of the draft's appendix (ZCash's):
//! correct flag bits, x below the field's modulus, a point on the curve and in the group of prime
//! order (both curves have points outside it), not infinity. Keys are checked once, when the
//! committee is loaded; signatures are checked each time. A joined signature that is infinity is
//! refused like any other.
//!
//! Inside a check, only the sum of *keys* may be infinity. Two replicas with keys X and −X could
//! cause it by both signing one statement, and that must not invalidate a certificate that includes
//! their time-outs. Accepting it is sound: their [`possession`] proofs show that they know their
//! keys, and together they did sign. (The draft refuses such a sum.)
//!
//! Without further proof, a sum of keys cannot be trusted: with X' = x'·g₂ − X, the owner of x'
//! alone signs for both keys. So the proofs of [`possession`] are required. [`threshold`] has other
//! means.

mod batch;
mod claims;
mod committee;
mod curve;
pub mod possession;
mod secret_key;
pub mod threshold;

#[cfg(test)]
mod tests;

pub use claims::Claims;
pub use committee::Committee;
pub use secret_key::SecretKey;

/// Bytes in a public key.
pub const KEY_BYTES: usize = 96;
/// Bytes in a signature, joined or not.
pub const SIGNATURE_BYTES: usize = 48;

/// The tag of statements: section 4.2.3 of the draft, for signatures in G1 with proofs of
/// possession.
pub const SIGNATURE_DOMAIN: &[u8] = b"BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_POP_";
/// The tag of proofs of possession: section 4.2.3 of the draft.
pub const POSSESSION_DOMAIN: &[u8] = b"BLS_POP_BLS12381G1_XMD:SHA-256_SSWU_RO_POP_";
