//! Tests of Ed25519: vectors of RFC 8032, and every corner of ZIP-215.

use curve25519_dalek::constants::EIGHT_TORSION;
use curve25519_dalek::edwards::CompressedEdwardsY;
use curve25519_dalek::traits::IsIdentity;
use curve25519_dalek::{EdwardsPoint, Scalar};
use proptest::prelude::*;
use quorate_core::base::crypto::{ClientSigner as _, PublicKey, Signer as _, Statement};
use quorate_core::base::types::Digest;
use sha2::{Digest as _, Sha512};

use super::known_keys::GENERATION;
use super::{Ed25519, SecretKey, Whose, challenge, challenge_bytes, read_key};
use crate::committee_keys::KeyProblem;
use crate::test_bytes::hex_array as hex;

type Input = ([u8; 32], Vec<u8>, [u8; 64]);

/// The verdicts on inputs of clients.
fn verdicts(scheme: &Ed25519, inputs: &[Input]) -> Vec<bool> {
    let mut verdicts = vec![false; inputs.len()];
    let inputs = inputs.iter().enumerate().map(|(index, (key, message, signature))| {
        (index, Whose::Anybody(key), message.as_slice(), signature.as_slice())
    });
    scheme.settle_all(inputs, &mut verdicts);
    verdicts
}

/// The verdicts on `inputs` as signatures of members. The committee has the keys of `inputs` first,
/// and then `more`.
fn members_verdicts(inputs: &[Input], more: &[[u8; 32]]) -> Vec<bool> {
    let keys: Vec<_> =
        inputs.iter().map(|(key, ..)| key).chain(more).map(|key| PublicKey(*key)).collect();
    let scheme = Ed25519::new(&keys);
    let mut verdicts = vec![false; inputs.len()];
    let members = inputs.iter().enumerate().map(|(index, (_, message, signature))| {
        (index, Whose::Member(index), message.as_slice(), signature.as_slice())
    });
    scheme.settle_all(members, &mut verdicts);
    verdicts
}

fn single(scheme: &Ed25519, input: &Input) -> bool {
    verdicts(scheme, std::slice::from_ref(input))[0]
}

fn secret(number: u64) -> SecretKey {
    let mut seed = [7; 32];
    seed[..8].copy_from_slice(&number.to_le_bytes());
    SecretKey::from_seed(&seed)
}

fn signed(number: u64, message: &[u8]) -> Input {
    let key = secret(number);
    (key.public_key().0, message.to_vec(), key.sign_bytes(message))
}

/// RFC 8032, section 7.1.
#[test]
fn rfc_8032() {
    let abc = Sha512::digest(b"abc").to_vec();
    let vectors: [(&str, &str, Vec<u8>, &str); 4] = [
        (
            "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
            vec![],
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
        ),
        (
            "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
            "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
            vec![0x72],
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
        ),
        (
            "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
            "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
            vec![0xaf, 0x82],
            "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
        ),
        (
            "833fe62409237b9d62ec77587520911e9a759cec1d19755b7da901b96dca3d42",
            "ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf",
            abc,
            "dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b58909351fc9ac90b3ecfdfbc7c66431e0303dca179c138ac17ad9bef1177331a704",
        ),
    ];
    let scheme = Ed25519::default();
    let mut inputs = Vec::new();
    for (seed, public, message, signature) in vectors {
        let key = SecretKey::from_seed(&hex(seed));
        assert_eq!(key.public_key().0, hex::<32>(public));
        assert_eq!(key.sign_bytes(&message), hex::<64>(signature));
        let input = (key.public_key().0, message, hex(signature));
        assert!(single(&scheme, &input));
        inputs.push(input);
    }
    assert_eq!(verdicts(&scheme, &inputs), [true; 4]);
}

/// Every encoding of a point of small order: eight canonical ones, and the six that RFC 8032
/// forbids and ZIP-215 accepts (y above p, or a sign on x = 0).
fn small_order_encodings() -> Vec<[u8; 32]> {
    let mut encodings: Vec<_> =
        EIGHT_TORSION.iter().map(|point| point.compress().to_bytes()).collect();
    let mut one_signed = [0; 32];
    (one_signed[0], one_signed[31]) = (1, 0x80);
    let minus_one_signed = [[0xec].as_slice(), &[0xff; 31]].concat().try_into().unwrap();
    encodings.extend([one_signed, minus_one_signed]);
    for low in [0xed, 0xee] {
        let mut above = [0xff; 32];
        above[0] = low;
        encodings.push(above);
        above[31] = 0x7f;
        encodings.push(above);
    }
    encodings
}

#[test]
fn the_fourteen_encodings_are_distinct_and_of_small_order() {
    let encodings = small_order_encodings();
    let distinct: std::collections::BTreeSet<_> = encodings.iter().collect();
    assert_eq!((encodings.len(), distinct.len()), (14, 14));
    for encoding in encodings {
        assert!(CompressedEdwardsY(encoding).decompress().unwrap().is_small_order());
    }
}

/// ZIP-215's own 196 vectors: A and R of small order in every encoding, s = 0. All are valid.
#[test]
fn small_order_keys_and_nonces_hold_in_every_encoding() {
    let encodings = small_order_encodings();
    let mut inputs = Vec::new();
    for a in &encodings {
        for r in &encodings {
            let mut signature = [0; 64];
            signature[..32].copy_from_slice(r);
            inputs.push((*a, b"Zcash".to_vec(), signature));
        }
    }
    let scheme = Ed25519::default();
    assert_eq!(verdicts(&scheme, &inputs), [true; 196]);
    assert_eq!(members_verdicts(&inputs, &[]), [true; 196]);
    assert!(inputs.iter().all(|input| single(&scheme, input)));
}

/// A signature by a key and with a nonce that may have parts of small order, s adjusted by
/// `error`: the shapes of "Taming the many EdDSAs", table 5.
fn shaped(a: (u64, usize), r: (u64, usize), message: &[u8], error: u64) -> Input {
    let (a_scalar, r_scalar) = (Scalar::from(a.0), Scalar::from(r.0));
    let key = (EdwardsPoint::mul_base(&a_scalar) + EIGHT_TORSION[a.1]).compress().to_bytes();
    let nonce = (EdwardsPoint::mul_base(&r_scalar) + EIGHT_TORSION[r.1]).compress().to_bytes();
    let k = challenge(&challenge_bytes(&nonce, &key, message));
    let s = r_scalar + k * a_scalar + Scalar::from(error);
    let mut signature = [0; 64];
    signature[..32].copy_from_slice(&nonce);
    signature[32..].copy_from_slice(s.as_bytes());
    (key, message.to_vec(), signature)
}

/// The rule, written with plain operations.
fn oracle((key, message, signature): &Input) -> bool {
    let r_bytes: [u8; 32] = signature[..32].try_into().unwrap();
    let s_bytes: [u8; 32] = signature[32..].try_into().unwrap();
    let Some(a) = CompressedEdwardsY(*key).decompress() else { return false };
    let Some(r) = CompressedEdwardsY(r_bytes).decompress() else { return false };
    let Some(s) = Option::<Scalar>::from(Scalar::from_canonical_bytes(s_bytes)) else {
        return false;
    };
    let hash = Sha512::new().chain_update(r_bytes).chain_update(key).chain_update(message);
    let k = Scalar::from_bytes_mod_order_wide(&hash.finalize().into());
    (EdwardsPoint::mul_base(&s) - a * k - r).mul_by_cofactor().is_identity()
}

#[test]
fn parts_of_small_order_in_any_mix_change_no_verdict() {
    let mut inputs = Vec::new();
    for a in 0..8 {
        for r in 0..8 {
            for (a_scalar, r_scalar) in [(0, 0), (0, 5), (3, 0), (3, 5)] {
                inputs.push(shaped((a_scalar, a), (r_scalar, r), b"mixed", 0));
            }
        }
    }
    let scheme = Ed25519::default();
    assert!(inputs.iter().all(oracle));
    assert_eq!(verdicts(&scheme, &inputs), vec![true; inputs.len()]);
    assert!(inputs.iter().all(|input| single(&scheme, input)));
}

#[test]
fn s_that_is_not_canonical_is_refused() {
    let order: [u8; 32] = hex("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010");
    let scheme = Ed25519::default();
    let mut inputs = Vec::new();
    for number in 0..4 {
        let (key, message, mut signature) = signed(number, b"malleable");
        let mut carry = 0;
        for (byte, addend) in signature[32..].iter_mut().zip(order) {
            let sum = u16::from(*byte) + u16::from(addend) + carry;
            (*byte, carry) = (sum as u8, sum >> 8);
        }
        inputs.push((key, message, signature));
    }
    // s = ℓ exactly, and everything else zero: the equation itself would hold.
    let mut zero = [0; 64];
    zero[0] = 1;
    zero[32..].copy_from_slice(&order);
    let mut one = [0; 32];
    one[0] = 1;
    inputs.push((one, vec![], zero));
    assert_eq!(verdicts(&scheme, &inputs), [false; 5]);
    assert!(inputs.iter().all(|input| !single(&scheme, input)));
}

#[test]
fn keys_and_nonces_off_the_curve_are_refused() {
    let mut off = [0; 32];
    off[0] = 2;
    assert!(CompressedEdwardsY(off).decompress().is_none());
    let (key, message, signature) = signed(1, b"message");
    let mut bad_nonce = signature;
    bad_nonce[..32].copy_from_slice(&off);
    let inputs = [
        (off, message.clone(), signature),
        (key, message.clone(), bad_nonce),
        (key, message, signature),
    ];
    assert_eq!(verdicts(&Ed25519::default(), &inputs), [false, false, true]);
    assert_eq!(members_verdicts(&inputs, &[]), [false, false, true]);
}

#[test]
fn two_errors_that_cancel_out_are_both_found() {
    let message = b"cancel";
    let plus = shaped((3, 0), (5, 0), message, 9);
    let (key, _, mut signature) = shaped((3, 0), (5, 0), message, 0);
    let s: [u8; 32] = signature[32..].try_into().unwrap();
    let less = Scalar::from_canonical_bytes(s).unwrap() - Scalar::from(9u64);
    signature[32..].copy_from_slice(less.as_bytes());
    let inputs = [plus, (key, message.to_vec(), signature)];
    assert_eq!(verdicts(&Ed25519::default(), &inputs), [false, false]);
}

/// An attacker computes the coefficients like the verifier, and chooses errors that would cancel
/// out: s₁ + z₂e and s₂ − e. But the coefficients cover the signatures, so every attempt changes
/// them.
#[test]
fn errors_that_are_fitted_to_the_coefficients_are_found() {
    let scheme = Ed25519::default();
    let good = [signed(1, b"one"), signed(2, b"two"), signed(3, b"three")];
    let mut forged = good.clone();
    for error in 1..20u64 {
        let z = scheme.coefficients(&forged)[1];
        let error = Scalar::from(error);
        for ((of, from), off) in forged.iter_mut().zip(&good).zip([z * error, -error]) {
            let s: [u8; 32] = from.2[32..].try_into().unwrap();
            let wrong = Scalar::from_canonical_bytes(s).unwrap() + off;
            of.2[32..].copy_from_slice(wrong.as_bytes());
        }
        assert_eq!(verdicts(&scheme, &forged), [false, false, true]);
    }
}

/// An unknown member, or a signature of another length, does not affect the others.
#[test]
fn what_cannot_be_read_does_not_hold() {
    let (key, message, signature) = signed(1, b"message");
    let scheme = Ed25519::new(&[PublicKey(key)]);
    let mut verdicts = [false; 5];
    let inputs = [
        (0, Whose::Member(0), &message[..], &signature[..]),
        (1, Whose::Member(1), &message, &signature),
        (2, Whose::Member(usize::MAX), &message, &signature),
        (3, Whose::Member(0), &message, &signature[..48]),
        (4, Whose::Anybody(&key), &message, &[]),
    ];
    scheme.settle_all(inputs.into_iter(), &mut verdicts);
    assert_eq!(verdicts, [true, false, false, false, false]);
    scheme.settle_all(std::iter::empty(), &mut []);
}

/// Signatures are valid under all fourteen. In a configuration file, none is accepted as a
/// replica's key.
#[test]
fn a_replicas_key_is_one_a_generator_makes() {
    let good = secret(1).public_key().0;
    assert_eq!(read_key(&good), Ok(PublicKey(good)));
    for encoding in small_order_encodings() {
        assert!(read_key(&encoding).is_err());
    }
    assert_eq!(read_key(&EIGHT_TORSION[0].compress().to_bytes()), Err(KeyProblem::Infinity));
    assert_eq!(read_key(&EIGHT_TORSION[1].compress().to_bytes()), Err(KeyProblem::OutsideSubgroup));
    let (mixed, ..) = shaped((3, 1), (5, 0), b"", 0);
    assert_eq!(read_key(&mixed), Err(KeyProblem::OutsideSubgroup));
    let mut off = [0; 32];
    off[0] = 2;
    assert_eq!(read_key(&off), Err(KeyProblem::NotOnCurve));
    for length in [0, 31, 33, 96] {
        let problem = KeyProblem::Length { expected: 32, found: length };
        assert_eq!(read_key(&vec![1; length]), Err(problem));
    }
}

#[test]
fn known_keys_are_bounded_and_only_of_true_signatures() {
    let scheme = Ed25519::default();
    let (key, _, signature) = signed(1, b"one");
    assert_eq!(verdicts(&scheme, &[(key, b"two".to_vec(), signature)]), [false]);
    assert_eq!(scheme.known_keys(), 0);
    // A valid signature needs no secret key here: small multiples of the base point suffice.
    let inputs: Vec<_> =
        (1..=3 * GENERATION as u64).map(|a| shaped((a, 0), (a, 0), b"", 0)).collect();
    assert!(verdicts(&scheme, &inputs).into_iter().all(|verdict| verdict));
    assert!(scheme.known_keys() <= 2 * GENERATION);
    assert!(scheme.known_keys() >= GENERATION);
    assert!(verdicts(&scheme, &inputs[..64]).into_iter().all(|verdict| verdict));
}

#[test]
fn signing_is_deterministic_and_nothing_prints_the_key() {
    let statement = Statement::frame(&Digest([1; 32]), &Digest([2; 32]));
    let (key, again) = (secret(9), secret(9));
    assert_eq!(key.sign(&statement), again.sign(&statement));
    let printed = format!("{key:?}");
    let seed: String = key.seed().iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(!printed.contains(&seed[..16]), "{printed}");
    let (one, two) = (SecretKey::generate().unwrap(), SecretKey::generate().unwrap());
    assert_ne!(one.public_key(), two.public_key());
}

/// The faults of a signature in the proptest below.
#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    Message,
    Nonce(u8),
    S(u8),
    Key(u8),
    Torsion(usize, usize),
    SmallOrder(usize, usize),
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        6 => Just(Fault::None),
        1 => Just(Fault::Message),
        1 => any::<u8>().prop_map(Fault::Nonce),
        1 => any::<u8>().prop_map(Fault::S),
        1 => any::<u8>().prop_map(Fault::Key),
        2 => (0..8usize, 0..8usize).prop_map(|(a, r)| Fault::Torsion(a, r)),
        1 => (0..14usize, 0..14usize).prop_map(|(a, r)| Fault::SmallOrder(a, r)),
    ]
}

fn faulty(number: u64, message: u8, fault: Fault) -> Input {
    let (mut key, mut bytes, mut signature) = signed(number, &[message]);
    let flip = |bit: u8, bytes: &mut [u8]| bytes[usize::from(bit) / 8] ^= 1 << (bit % 8);
    match fault {
        Fault::None => {}
        Fault::Message => bytes.push(0),
        Fault::Nonce(bit) => flip(bit, &mut signature[..32]),
        Fault::S(bit) => flip(bit, &mut signature[32..]),
        Fault::Key(bit) => flip(bit, &mut key),
        Fault::Torsion(a, r) => return shaped((number + 1, a), (7, r), &[message], 0),
        Fault::SmallOrder(a, r) => {
            let encodings = small_order_encodings();
            key = encodings[a];
            signature[..32].copy_from_slice(&encodings[r]);
            signature[32..].fill(0);
        }
    }
    (key, bytes, signature)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// For any mix of signatures, the batch's verdict on each is that of the single rule; so it
    /// finds exactly the false ones.
    #[test]
    fn a_batch_finds_exactly_the_bad_ones(
        inputs in prop::collection::vec((0..6u64, any::<u8>(), fault()), 0..80),
        members in 0..6u64,
    ) {
        let inputs: Vec<_> =
            inputs.into_iter().map(|(key, message, fault)| faulty(key, message, fault)).collect();
        let scheme = Ed25519::default();
        let expected: Vec<_> = inputs.iter().map(oracle).collect();
        prop_assert_eq!(&verdicts(&scheme, &inputs), &expected);
        let more: Vec<_> = (0..members).map(|member| secret(member).public_key().0).collect();
        prop_assert_eq!(&members_verdicts(&inputs, &more), &expected);
        let singles: Vec<_> = inputs.iter().map(|input| single(&scheme, input)).collect();
        prop_assert_eq!(&singles, &expected);
    }
}
