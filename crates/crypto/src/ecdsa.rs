//! ECDSA with SHA-256 over [`secp256k1`] and [`p256`].
//!
//! A signature is r ‖ s, 32 bytes each, big-endian. The pair (r, n − s) satisfies the same equation
//! as (r, s), so anybody can derive a second signature of the message from the first. Only the one
//! with s ≤ (n − 1)/2 is accepted ("low s", BIP 146), so a signature has one encoding. The nonce is
//! that of RFC 6979, a function of key and message. So a statement signed again after a restart has
//! the same signature, and bad randomness cannot reveal the key.
//!
//! Public keys are compressed points of SEC 1, 33 bytes: 2 or 3, then x. Both curves have prime
//! order, so every point of the curve is in the group, and 33 bytes cannot encode infinity.
//!
//! The arithmetic is libsecp256k1's for its own curve. For P-256, AWS-LC verifies: it is the TLS
//! backend anyway, and takes a fifth of the time of the portable code. RustCrypto's `p256` signs,
//! because AWS-LC draws its nonces at random.
//!
//! There is no batch verification for ECDSA: r gives the x of a point and not which of the two
//! points, so the equations cannot be summed. Each signature is verified alone.

pub mod p256;
pub mod secp256k1;

#[cfg(test)]
mod tests;

/// Bytes in a compressed point.
const KEY_BYTES: usize = 33;
/// Bytes in a signature.
const SIGNATURE_BYTES: usize = 64;

/// The signature's bytes, if s is at most `half_order`, big-endian.
fn low_s<'a>(signature: &'a [u8], half_order: &[u8; 32]) -> Option<&'a [u8; SIGNATURE_BYTES]> {
    let signature: &[u8; SIGNATURE_BYTES] = signature.try_into().ok()?;
    let (_, s) = signature.split_last_chunk::<32>()?;
    (s <= half_order).then_some(signature)
}
