//! ECDSA with SHA-256 over [`secp256k1`] and [`p256`].
//!
//! A signature is r ‖ s, 32 bytes each, big-endian. Beside (r, s) the pair (r, n − s) satisfies the
//! same equation, so anybody can make a second signature of one message out of the first; only the
//! one with s ≤ (n − 1)/2 is read here ("low s", BIP 146), which leaves one encoding of one
//! signature. The nonce is RFC 6979's, a function of key and message: a statement signed again after
//! a restart has the same signature, and no bad randomness can give the key away.
//!
//! Public keys are compressed points of SEC 1, 33 bytes: 2 or 3, then x. Both curves have prime
//! order, so a point of the curve is a point of the group, and 33 bytes cannot spell infinity.
//!
//! The arithmetic: libsecp256k1 for its own curve; for P-256, verification by AWS-LC (whose backend
//! TLS has here anyway, and which takes a fifth of the time of the portable code), signing by
//! RustCrypto's `p256`, since AWS-LC draws its nonces.
//!
//! There is no batch of ECDSA: r tells the x of a point and not which of the two points, so the
//! equations cannot be summed. Each signature is verified by itself.

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
