//! The dealer: draws the polynomial and computes the shares.

use zeroize::{Zeroize as _, Zeroizing};

use super::lagrange::position;
use crate::bls::curve::Scalar;
use crate::bls::{KEY_BYTES, SecretKey};
use crate::ed25519::RandomnessError;

/// The output of a dealer.
#[derive(Debug)]
pub struct Deal {
    /// The committee's public key.
    pub group: [u8; KEY_BYTES],
    /// The secret share of each replica, in the order of their ids. Their public halves are the
    /// replicas' public keys.
    pub shares: Vec<SecretKey>,
}

/// The reason why no keys were dealt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DealError {
    /// The quorum is impossible for this number of replicas.
    #[error("{quorum} of {members} shares cannot be asked for: the quorum is 1 to {members}")]
    Quorum {
        /// The requested quorum.
        quorum: usize,
        /// The number of replicas.
        members: usize,
    },
    /// The operating system gave no randomness.
    #[error(transparent)]
    Randomness(#[from] RandomnessError),
}

/// Draws a key for a committee of `members` replicas, `quorum` of which can sign for it. The dealer
/// knows every share. So it must be a person whom everybody trusts, on a machine that keeps
/// nothing.
///
/// # Errors
/// [`DealError`].
pub fn deal(members: usize, quorum: usize) -> Result<Deal, DealError> {
    if quorum == 0 || quorum > members {
        return Err(DealError::Quorum { quorum, members });
    }
    loop {
        if let Some(deal) = share_out(&draw(quorum)?, members) {
            return Ok(deal);
        }
    }
}

/// The coefficients of a polynomial, the constant one first. Each is drawn from 384 bits, so that
/// the distribution below the order of 255 bits is uniform to within 2⁻¹²⁸.
fn draw(quorum: usize) -> Result<Zeroizing<Vec<Scalar>>, RandomnessError> {
    let mut coefficients = Zeroizing::new(Vec::with_capacity(quorum));
    for _ in 0..quorum {
        let mut bytes = Zeroizing::new([0; 48]);
        getrandom::fill(bytes.as_mut())?;
        coefficients.push(Scalar::reduced(&bytes));
    }
    Ok(coefficients)
}

/// The values of a polynomial. `None` if one of them, or the leading coefficient, is 0 and so no
/// key. The probability is 1 in 2²⁵⁵.
pub(super) fn share_out(coefficients: &[Scalar], members: usize) -> Option<Deal> {
    if coefficients.last()? == &Scalar::ZERO {
        return None;
    }
    let group = secret(coefficients, 0)?.public_key();
    // In one allocation: a vector that grows leaves copies of shares in the memory that it frees.
    let mut shares = Vec::with_capacity(members);
    for place in 0..members {
        shares.push(secret(coefficients, position(place))?);
    }
    Some(Deal { group, shares })
}

/// f(x) as a secret key.
fn secret(coefficients: &[Scalar], x: u64) -> Option<SecretKey> {
    let x = Scalar::from_u64(x);
    let mut value = coefficients.iter().rev().fold(Scalar::ZERO, |sum, next| sum * x + *next);
    let mut bytes = Zeroizing::new(value.to_le_bytes());
    value.zeroize();
    bytes.reverse();
    SecretKey::from_bytes(&bytes)
}
