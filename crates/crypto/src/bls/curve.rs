//! Points of the curves, and numbers modulo the order of their groups.
//!
//! `blst` offers safe functions for most operations. This module calls the five foreign functions
//! that are needed beside them; no other module does.
#![allow(unsafe_code)]

use std::ops::{Add, Mul, Sub};
use std::sync::LazyLock;

use blst::min_sig::{AggregatePublicKey, AggregateSignature, PublicKey, SecretKey, Signature};
use blst::{BLST_ERROR, MultiPoint as _};
use zeroize::Zeroize;

use super::{KEY_BYTES, SIGNATURE_BYTES};
use crate::committee_keys::KeyProblem;

/// A point of G1's curve: a signature, a hash.
pub(super) type G1 = blst::blst_p1_affine;
/// A point of G2's curve: a public key.
pub(super) type G2 = blst::blst_p2_affine;

/// H(message) under the tag `domain`.
pub(super) fn hash(message: &[u8], domain: &[u8]) -> G1 {
    let mut point = blst::blst_p1::default();
    // SAFETY: `point` is a valid place for the result. The function reads two slices up to their
    // lengths and does not keep them; it does not read the third, whose length is 0.
    unsafe {
        blst::blst_hash_to_g1(
            &mut point,
            message.as_ptr(),
            message.len(),
            domain.as_ptr(),
            domain.len(),
            std::ptr::null(),
            0,
        );
    }
    affine_g1(point)
}

/// Reads a signature from outside, with all checks.
pub(super) fn read_signature(bytes: &[u8]) -> Option<G1> {
    let signature = Signature::uncompress(bytes).ok()?;
    signature.validate(true).ok()?;
    Some(signature.into())
}

/// Reads a signature that [`read_signature`] accepted before. It checks only that the point is on
/// the curve.
pub(super) fn read_known_signature(bytes: &[u8]) -> Option<G1> {
    Signature::uncompress(bytes).ok().map(Into::into)
}

/// The encoding of a joined signature; `None` if it is infinity.
pub(super) fn write_signature(point: G1) -> Option<[u8; SIGNATURE_BYTES]> {
    (!is_infinity_g1(&point)).then(|| Signature::from(point).compress())
}

/// Reads a public key from outside, with all checks.
pub(super) fn read_key(bytes: &[u8]) -> Result<G2, KeyProblem> {
    if bytes.len() != KEY_BYTES {
        return Err(KeyProblem::Length { expected: KEY_BYTES, found: bytes.len() });
    }
    let key = PublicKey::uncompress(bytes).map_err(|_| KeyProblem::NotOnCurve)?;
    key.validate().map_err(|error| match error {
        BLST_ERROR::BLST_PK_IS_INFINITY => KeyProblem::Infinity,
        _ => KeyProblem::OutsideSubgroup,
    })?;
    Ok(key.into())
}

/// The encoding of a key, which is not infinity.
pub(super) fn write_key(key: G2) -> [u8; KEY_BYTES] {
    PublicKey::from(key).compress()
}

/// All bytes of a key, for hashing.
pub(super) fn key_bytes(key: G2) -> [u8; 2 * KEY_BYTES] {
    PublicKey::from(key).serialize()
}

/// Whether the point is the neutral element.
pub(super) fn is_infinity_g1(point: &G1) -> bool {
    *point == G1::default()
}

/// Whether the point is the neutral element.
pub(super) fn is_infinity_g2(point: &G2) -> bool {
    *point == G2::default()
}

/// Σ points; infinity for none.
pub(super) fn sum_g1(points: &[G1]) -> G1 {
    if points.is_empty() { G1::default() } else { affine_g1(points.add()) }
}

/// Σ points; infinity for none.
pub(super) fn sum_g2(points: &[G2]) -> G2 {
    if points.is_empty() { G2::default() } else { affine_g2(points.add()) }
}

/// Σ scalarᵢ·pointᵢ; each scalar has N bytes, little-endian. Both slices have the same length. Not
/// in constant time, so for public values only.
pub(super) fn combine_g1<const N: usize>(points: &[G1], scalars: &[[u8; N]]) -> G1 {
    assert_eq!(points.len(), scalars.len());
    match points {
        [] => G1::default(),
        _ => affine_g1(points.mult(scalars.as_flattened(), 8 * N)),
    }
}

/// As [`combine_g1`], in the other group.
pub(super) fn combine_g2<const N: usize>(points: &[G2], scalars: &[[u8; N]]) -> G2 {
    assert_eq!(points.len(), scalars.len());
    match points {
        [] => G2::default(),
        _ => affine_g2(points.mult(scalars.as_flattened(), 8 * N)),
    }
}

/// `whole` − `part`.
pub(super) fn subtract_g2(whole: G2, part: G2) -> G2 {
    let mut difference = AggregatePublicKey::from_public_key(&whole.into());
    difference.sub_aggregate(&AggregatePublicKey::from_public_key(&part.into()));
    difference.to_public_key().into()
}

/// −g₂, the opposite of G2's generator.
pub(super) fn minus_generator() -> G2 {
    static POINT: LazyLock<G2> = LazyLock::new(|| subtract_g2(G2::default(), multiple(1)));
    *POINT
}

/// n·g₂, for n above 0.
fn multiple(n: u8) -> G2 {
    let mut bytes = [0; 32];
    bytes[31] = n;
    SecretKey::from_bytes(&bytes).map_or(G2::default(), |key| key.sk_to_pk().into())
}

fn affine_g1(point: blst::blst_p1) -> G1 {
    AggregateSignature::from(point).to_signature().into()
}

fn affine_g2(point: blst::blst_p2) -> G2 {
    AggregatePublicKey::from(point).to_public_key().into()
}

/// A number modulo the order r of the groups.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Scalar(blst::blst_fr);

impl Scalar {
    pub(super) const ZERO: Self = Self(blst::blst_fr { l: [0; 4] });

    /// `number`, which is below r as every `u64` is.
    pub(super) fn from_u64(number: u64) -> Self {
        let mut scalar = blst::blst_fr::default();
        let limbs = [number, 0, 0, 0];
        // SAFETY: reads four limbs of `limbs`, which has four, and writes to `scalar`.
        unsafe { blst::blst_fr_from_uint64(&mut scalar, limbs.as_ptr()) };
        Self(scalar)
    }

    /// A number from 48 bytes modulo r, big-endian. It is uniform if the bytes are.
    pub(super) fn reduced(bytes: &[u8; 48]) -> Self {
        let byte = Self::from_u64(256);
        bytes.iter().fold(Self::ZERO, |sum, next| sum * byte + Self::from_u64(u64::from(*next)))
    }

    /// Its 32 bytes, little-endian.
    pub(super) fn to_le_bytes(self) -> [u8; 32] {
        let mut scalar = blst::blst_scalar::default();
        // SAFETY: reads its second argument and writes to its first; both are valid.
        unsafe { blst::blst_scalar_from_fr(&mut scalar, &self.0) };
        scalar.b
    }

    /// The multiplicative inverse; 0 for 0.
    pub(super) fn inverse(self) -> Self {
        let mut inverse = blst::blst_fr::default();
        // SAFETY: reads its second argument and writes to its first; both are valid.
        unsafe { blst::blst_fr_eucl_inverse(&mut inverse, &self.0) };
        Self(inverse)
    }
}

impl Add for Scalar {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        let mut sum = blst::blst_fr::default();
        // SAFETY: reads its last two arguments and writes to its first; all are valid.
        unsafe { blst::blst_fr_add(&mut sum, &self.0, &other.0) };
        Self(sum)
    }
}

impl Sub for Scalar {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        let mut difference = blst::blst_fr::default();
        // SAFETY: reads its last two arguments and writes to its first; all are valid.
        unsafe { blst::blst_fr_sub(&mut difference, &self.0, &other.0) };
        Self(difference)
    }
}

impl Mul for Scalar {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        let mut product = blst::blst_fr::default();
        // SAFETY: reads its last two arguments and writes to its first; all are valid.
        unsafe { blst::blst_fr_mul(&mut product, &self.0, &other.0) };
        Self(product)
    }
}

impl Zeroize for Scalar {
    fn zeroize(&mut self) {
        self.0.l.zeroize();
    }
}
