//! Ed25519 under the rules of ZIP-215: single and batch verification agree on every input.
//!
//! RFC 8032 leaves open whether the equation is checked with the cofactor, and which encodings of a
//! point are accepted. Implementations differ; two replicas that differ fork (Chalkias, Garillot,
//! Nikolaenko, "Taming the many EdDSAs", SSR 2020). All code here follows
//! [ZIP-215](https://zips.z.cash/zip-0215):
//!
//! * s is canonical: below the group order ℓ;
//! * A and R are any encodings of curve points: y above p and the sign bit of x = 0 are read;
//! * k = SHA-512(R ‖ A ‖ message) mod ℓ, over the encodings as they came;
//! * \[8\](sB − kA − R) = 0.
//!
//! A batch checks \[8\](Σ zᵢ(sᵢB − kᵢAᵢ − Rᵢ)) = 0. The zᵢ have 128 bits and are hashed from all
//! inputs of the batch. So the verdict is a function of the input, and the input's author cannot
//! know the zᵢ before. A batch with a false signature passes with probability 2⁻¹²⁸. A batch that
//! fails is halved until the single check finds the false ones.

mod known_keys;
mod secret_key;
mod verify;

#[cfg(test)]
mod tests;

pub use secret_key::{RandomnessError, SecretKey};
pub use verify::{Ed25519, Whose, read_key};

use curve25519_dalek::Scalar;
use sha2::{Digest as _, Sha512};

/// k = SHA-512(R ‖ A ‖ message), the whole output of the hash.
fn challenge_bytes(r: &[u8], key: &[u8; 32], message: &[u8]) -> [u8; 64] {
    Sha512::new().chain_update(r).chain_update(key).chain_update(message).finalize().into()
}

fn challenge(bytes: &[u8; 64]) -> Scalar {
    Scalar::from_bytes_mod_order_wide(bytes)
}
