//! Tests of BLS: vectors, invalid points, forgeries, and the batch against the plain equation.

mod batch;
mod points;
mod possession;
mod vectors;

use blst::min_sig;

use super::{Committee, SIGNATURE_BYTES, SIGNATURE_DOMAIN, SecretKey, possession as proof};
use crate::committee_keys::MemberKey;

type Signed = [u8; SIGNATURE_BYTES];

/// The key with this number, which is above 0.
pub(super) fn secret(number: u32) -> SecretKey {
    let mut bytes = [0; 32];
    bytes[8..12].copy_from_slice(&number.to_be_bytes());
    bytes[31] = 1;
    SecretKey::from_bytes(&bytes).unwrap()
}

/// The key −`key` modulo the order.
fn opposite(key: &SecretKey) -> SecretKey {
    let order = crate::test_bytes::hex_array::<32>(
        "73eda753299d7d483339d80809a1d80553bda402fffe5bfeffffffff00000001",
    );
    let (mut bytes, mut borrow) = ([0; 32], 0);
    for at in (0..32).rev() {
        let difference = i16::from(order[at]) - i16::from(key.to_bytes()[at]) - borrow;
        bytes[at] = difference.rem_euclid(256) as u8;
        borrow = i16::from(difference < 0);
    }
    SecretKey::from_bytes(&bytes).unwrap()
}

/// A committee of these keys, with their proofs.
fn committee(keys: &[SecretKey]) -> Committee {
    let parts: Vec<_> = keys.iter().map(|key| (key.public_key(), proof::prove(key))).collect();
    let members: Vec<_> = parts
        .iter()
        .map(|(key, proof)| MemberKey { key, possession: Some(proof.as_slice()) })
        .collect();
    Committee::read(&members).unwrap()
}

fn sign(key: &SecretKey, message: &[u8]) -> Signed {
    key.sign(message, SIGNATURE_DOMAIN)
}

/// The sum of signatures, computed by the library.
pub(super) fn sum(signatures: &[&[u8]]) -> Signed {
    let sum = min_sig::AggregateSignature::aggregate_serialized(signatures, false).unwrap();
    sum.to_signature().compress()
}

/// The verdicts on shares (signer, message, signature).
fn verdicts(committee: &Committee, shares: &[(usize, &[u8], &[u8])]) -> Vec<bool> {
    let mut claims = committee.claims();
    for (index, (signer, message, signature)) in shares.iter().enumerate() {
        claims.share(index, *signer, message, signature);
    }
    let mut verdicts = vec![false; shares.len()];
    claims.settle(&mut verdicts);
    verdicts
}

/// The verdict on one aggregate.
fn aggregate_holds(committee: &Committee, parts: &[(&[u8], Vec<usize>)], joined: &[u8]) -> bool {
    let mut claims = committee.claims();
    claims.aggregate(0, parts, joined);
    let mut verdicts = [false];
    claims.settle(&mut verdicts);
    verdicts[0]
}
