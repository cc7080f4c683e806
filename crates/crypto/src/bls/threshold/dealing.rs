//! The check that public keys were dealt together, that is, that they lie on one polynomial.
//!
//! Values at m positions are those of a polynomial of degree below t if and only if Σ
//! wᵢ·g(xᵢ)·f(xᵢ) = 0 for every polynomial g of degree below m − t, with the wᵢ of
//! [`super::lagrange::weights`]: the sum is the coefficient of f·g of degree m − 1. For one g that
//! nobody could choose, other values pass once in r ≈ 2²⁵⁵ (Cascudo, David, "SCRAPE", ACNS 2017).
//! The same holds for keys, with f(xᵢ)·g₂ in place of f(xᵢ).

use super::lagrange::{position, weights};
use crate::bls::curve::{G2, Scalar, combine_g2, is_infinity_g2, key_bytes};
use crate::committee_keys::DealingProblem;

/// Checks that `group` and `shares` are values of one polynomial of degree `quorum` − 1 exactly.
pub(super) fn check(group: G2, shares: &[G2], quorum: usize) -> Result<(), DealingProblem> {
    let mut points: Vec<(u64, G2)> = vec![(0, group)];
    points.extend(shares.iter().enumerate().map(|(place, key)| (position(place), *key)));
    let seed = seed(&points);
    if !lie_on_one(&points, quorum, &seed) {
        return Err(culprit(&points, quorum, &seed));
    }
    if leading_coefficient_is_zero(&points[..quorum]) {
        return Err(DealingProblem::Degree);
    }
    Ok(())
}

/// The same, without a look for the culprit, which costs as much as a check of each: for keys that
/// anybody may send.
pub(super) fn belong_together(group: G2, shares: &[G2], quorum: usize) -> bool {
    let mut points: Vec<(u64, G2)> = vec![(0, group)];
    points.extend(shares.iter().enumerate().map(|(place, key)| (position(place), *key)));
    lie_on_one(&points, quorum, &seed(&points)) && !leading_coefficient_is_zero(&points[..quorum])
}

/// The one point without which the others lie on one polynomial.
fn culprit(points: &[(u64, G2)], quorum: usize, seed: &[u8; 32]) -> DealingProblem {
    // Without one point, there must still be more than determine the polynomial.
    if points.len() < quorum + 2 {
        return DealingProblem::Several;
    }
    let without =
        |place: usize| -> Vec<(u64, G2)> { [&points[..place], &points[place + 1..]].concat() };
    match (0..points.len()).find(|place| lie_on_one(&without(*place), quorum, seed)) {
        None => DealingProblem::Several,
        Some(0) => DealingProblem::Group,
        Some(place) => DealingProblem::Replica(place - 1),
    }
}

/// Whether the points are values of a polynomial of degree below `quorum`.
fn lie_on_one(points: &[(u64, G2)], quorum: usize, seed: &[u8; 32]) -> bool {
    let g = polynomial(points.len().saturating_sub(quorum), seed);
    let (positions, keys): (Vec<u64>, Vec<G2>) = points.iter().copied().unzip();
    let scalars = weights(&positions).into_iter().zip(&positions).map(|(w, x)| {
        let x = Scalar::from_u64(*x);
        let value = g.iter().fold(Scalar::ZERO, |sum, next| sum * x + *next);
        (w * value).to_le_bytes()
    });
    is_infinity_g2(&combine_g2(&keys, &scalars.collect::<Vec<_>>()))
}

/// Whether these `quorum` points lie on a polynomial of a lower degree.
fn leading_coefficient_is_zero(points: &[(u64, G2)]) -> bool {
    let (positions, keys): (Vec<u64>, Vec<G2>) = points.iter().copied().unzip();
    let scalars = weights(&positions).into_iter().map(Scalar::to_le_bytes);
    is_infinity_g2(&combine_g2(&keys, &scalars.collect::<Vec<_>>()))
}

/// A hash of all keys, from which g is derived. The author of the keys cannot know it before.
fn seed(points: &[(u64, G2)]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"quorate/bls12-381-threshold/dealing/1");
    for (_, key) in points {
        hasher.update(&key_bytes(*key));
    }
    *hasher.finalize().as_bytes()
}

/// The `length` coefficients of g.
fn polynomial(length: usize, seed: &[u8; 32]) -> Vec<Scalar> {
    let mut stream = blake3::Hasher::new_keyed(seed).finalize_xof();
    let mut coefficients = Vec::with_capacity(length);
    for _ in 0..length {
        let mut bytes = [0; 48];
        stream.fill(&mut bytes);
        coefficients.push(Scalar::reduced(&bytes));
    }
    coefficients
}
