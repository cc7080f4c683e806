//! Tests with points that are not on the curve, not in the group, or malformed.

use blst::BLST_ERROR;
use blst::min_sig::{AggregateSignature, PublicKey, Signature};

use super::{committee, secret, sign, sum, verdicts};
use crate::bls::curve::read_key;
use crate::bls::{KEY_BYTES, SIGNATURE_BYTES, SIGNATURE_DOMAIN};
use crate::committee_keys::KeyProblem;

/// The compressed encoding with the coordinate `x`; for two coordinates, the second.
fn encoded<const N: usize>(x: u8) -> [u8; N] {
    let mut bytes = [0; N];
    bytes[0] = 0x80;
    bytes[N - 1] = x;
    bytes
}

fn infinity<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    bytes[0] = 0xc0;
    bytes
}

/// A point on the curve of G1 whose order divides the cofactor: r times some point, by doubling and
/// adding (the library's multiplication requires points of the group).
fn of_small_order() -> Signature {
    let point = (1..)
        .filter_map(|x| Signature::uncompress(&encoded::<SIGNATURE_BYTES>(x)).ok())
        .find(|point| !point.subgroup_check())
        .unwrap();
    let order =
        crate::test_bytes::hex("73eda753299d7d483339d80809a1d80553bda402fffe5bfeffffffff00000001");
    let bits = order.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1 == 1));
    let mut multiple = AggregateSignature::from_signature(&point);
    for bit in bits.skip_while(|bit| !bit).skip(1) {
        let once = multiple;
        multiple.add_aggregate(&once);
        if bit {
            multiple.add_signature(&point, false).unwrap();
        }
    }
    let small = multiple.to_signature();
    assert!(!small.subgroup_check());
    small
}

#[test]
fn infinity_is_no_signature() {
    let committee = committee(&[secret(1)]);
    assert_eq!(verdicts(&committee, &[(0, b"m", &infinity::<48>())]), [false]);
    assert!(!super::aggregate_holds(&committee, &[(b"m", vec![0])], &infinity::<48>()));
    assert!(!super::aggregate_holds(&committee, &[], &infinity::<48>()));
}

/// The pairing does not depend on the part of small order. Without the group check, anybody could
/// turn one signature into many.
#[test]
fn a_signature_with_a_part_outside_the_group_is_refused_though_its_pairing_comes_out() {
    let (key, committee) = (secret(1), committee(&[secret(1)]));
    let good = sign(&key, b"m");
    let mixed = sum(&[&good, &of_small_order().compress()]);
    assert_ne!(good, mixed);
    let public = PublicKey::from_bytes(&key.public_key()).unwrap();
    let unchecked = Signature::uncompress(&mixed).unwrap();
    let verdict = unchecked.verify(false, b"m", SIGNATURE_DOMAIN, &[], &public, false);
    assert_eq!(verdict, BLST_ERROR::BLST_SUCCESS);
    assert_eq!(verdicts(&committee, &[(0, b"m", &mixed), (0, b"m", &good)]), [false, true]);
    assert_eq!(verdicts(&committee, &[(0, b"m", &mixed)]), [false]);
    assert!(!super::aggregate_holds(&committee, &[(b"m", vec![0])], &mixed));
}

#[test]
fn a_signature_has_one_encoding() {
    let (key, committee) = (secret(1), committee(&[secret(1)]));
    let good = sign(&key, b"m");
    let uncompressed = Signature::uncompress(&good).unwrap().serialize();
    let flag = |bit: u8| {
        let mut bytes = good;
        bytes[0] ^= bit;
        bytes.to_vec()
    };
    // The modulus and greater numbers in place of x.
    let modulus = crate::test_bytes::hex(
        "9a0111ea397fe69a4b1ba7b6434bacd764774b84f38512bf6730d2a0f6b0f6241eabfffeb153ffffb9feffffffffaaab",
    );
    let bad = [
        uncompressed.to_vec(),
        flag(0x80),
        flag(0x40),
        flag(0x20),
        modulus,
        [&[0x9f], [0xff; 47].as_slice()].concat(),
        good[..47].to_vec(),
        [good.as_slice(), &[0]].concat(),
        [&infinity::<48>()[..47], &[1]].concat(),
        vec![],
        vec![0; 48],
        vec![0; 64],
    ];
    for bad in bad {
        assert_eq!(verdicts(&committee, &[(0, b"m", &bad)]), [false], "{bad:02x?}");
    }
    assert_eq!(verdicts(&committee, &[(0, b"m", &good)]), [true]);
}

/// Each reason has its own error.
#[test]
fn keys_that_are_none_are_refused_with_the_reason() {
    let good = secret(1).public_key();
    assert!(read_key(&good).is_ok());
    for length in [0, 32, 48, 95, 97, 192] {
        let problem = KeyProblem::Length { expected: 96, found: length };
        assert_eq!(read_key(&vec![0x80; length]), Err(problem));
    }
    assert_eq!(read_key(&infinity::<96>()), Err(KeyProblem::Infinity));
    assert_eq!(read_key(&[0; 96]), Err(KeyProblem::NotOnCurve));
    assert_eq!(read_key(&[0xff; 96]), Err(KeyProblem::NotOnCurve));
    let problems: Vec<_> =
        (0..16).map(|x| read_key(&encoded::<KEY_BYTES>(x)).unwrap_err()).collect();
    assert!(problems.contains(&KeyProblem::NotOnCurve), "{problems:?}");
    assert!(problems.contains(&KeyProblem::OutsideSubgroup), "{problems:?}");
}

/// The same for keys: the sum of a key and a point outside the group.
#[test]
fn a_key_with_a_part_outside_the_group_is_refused() {
    let outside = (0..)
        .map(encoded::<KEY_BYTES>)
        .find(|bytes| read_key(bytes) == Err(KeyProblem::OutsideSubgroup))
        .unwrap();
    let keys = [secret(1).public_key(), outside];
    let keys = keys.map(|bytes| PublicKey::uncompress(&bytes).unwrap());
    let mixed = blst::min_sig::AggregatePublicKey::aggregate(&[&keys[0], &keys[1]], false).unwrap();
    let mixed = mixed.to_public_key().compress();
    assert_eq!(read_key(&mixed), Err(KeyProblem::OutsideSubgroup));
}
