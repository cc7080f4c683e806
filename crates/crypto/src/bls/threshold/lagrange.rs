//! Lagrange interpolation modulo the order.

use crate::bls::curve::Scalar;

/// The position of replica `place`'s value; position 0 is the committee's.
pub(super) fn position(place: usize) -> u64 {
    place as u64 + 1
}

/// wᵢ = Π 1/(xᵢ − xⱼ) over j ≠ i, for distinct positions. Σ wᵢ·f(xᵢ) is the leading coefficient of
/// f, of the highest degree that these positions determine.
pub(super) fn weights(positions: &[u64]) -> Vec<Scalar> {
    let products = positions.iter().map(|xi| {
        let others = positions.iter().filter(|xj| *xj != xi);
        others.fold(Scalar::from_u64(1), |product, xj| product * difference(*xi, *xj))
    });
    inverses(&products.collect::<Vec<_>>())
}

/// λᵢ = Π xⱼ/(xⱼ − xᵢ) over j ≠ i, for distinct positions above 0: Σ λᵢ·f(xᵢ) = f(0) for every f of
/// a degree below their number.
pub(super) fn at_zero(positions: &[u64]) -> Vec<Scalar> {
    let one = Scalar::from_u64(1);
    // λᵢ is wᵢ times the product of the other positions. Each factor xⱼ − xᵢ is the negative of the
    // one in wᵢ.
    let product = positions.iter().fold(one, |product, x| product * Scalar::from_u64(*x));
    let product = if positions.len() % 2 == 1 { product } else { Scalar::ZERO - product };
    let own = inverses(&positions.iter().map(|x| Scalar::from_u64(*x)).collect::<Vec<_>>());
    weights(positions).into_iter().zip(own).map(|(w, x)| product * w * x).collect()
}

/// `one` − `other`, which may be negative.
fn difference(one: u64, other: u64) -> Scalar {
    Scalar::from_u64(one) - Scalar::from_u64(other)
}

/// The inverses of numbers, none of which is 0, by a single inversion of prefix products
/// (Montgomery's trick).
fn inverses(numbers: &[Scalar]) -> Vec<Scalar> {
    let one = Scalar::from_u64(1);
    let before: Vec<Scalar> = numbers
        .iter()
        .scan(one, |product, number| {
            let before = *product;
            *product = *product * *number;
            Some(before)
        })
        .collect();
    let all = before.last().zip(numbers.last()).map_or(one, |(before, last)| *before * *last);
    let mut rest = all.inverse();
    let mut inverses = vec![Scalar::ZERO; numbers.len()];
    for ((inverse, number), before) in inverses.iter_mut().zip(numbers).zip(before).rev() {
        *inverse = rest * before;
        rest = rest * *number;
    }
    inverses
}
