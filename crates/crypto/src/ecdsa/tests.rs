//! Tests of ECDSA: vectors of RFC 6979 and of secp256k1's implementations, a second implementation
//! of each curve, and altered signatures.

use proptest::prelude::*;

use super::{p256, secp256k1};
use crate::committee_keys::KeyProblem;
use crate::test_bytes::{hex, hex_array};

/// The orders of the groups.
const SECP256K1_ORDER: &str = "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141";
const P256_ORDER: &str = "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551";

/// The signature with n − s in place of s, which satisfies the same equation.
fn mirrored(signature: &[u8; 64], order: &str) -> [u8; 64] {
    let order: [u8; 32] = hex_array(order);
    let mut mirrored = *signature;
    let mut borrow = 0;
    for at in (0..32).rev() {
        let difference = i16::from(order[at]) - i16::from(signature[32 + at]) - borrow;
        mirrored[32 + at] = difference.rem_euclid(256) as u8;
        borrow = i16::from(difference < 0);
    }
    mirrored
}

/// RFC 6979, A.2.5, SHA-256. The RFC does not lower s: where its s is high, ours is the mirror.
#[test]
fn p256_signs_as_rfc_6979_says() {
    let key = p256::SecretKey::from_bytes(&hex_array(
        "c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721",
    ))
    .unwrap();
    assert_eq!(
        key.public_key().to_vec(),
        hex("0360fed4ba255a9d31c961eb74c6356d68c049b8923b61fa6ce669622e60f29fb6")
    );
    let public = p256::PublicKey::read(&key.public_key()).unwrap();
    let high: [u8; 64] = hex_array(
        "efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716\
         f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8",
    );
    assert_eq!(key.sign(b"sample"), mirrored(&high, P256_ORDER));
    assert!(public.verify(b"sample", &key.sign(b"sample")));
    assert!(!public.verify(b"sample", &high));
    let low: [u8; 64] = hex_array(
        "f1abb023518351cd71d881567b1ea663ed3efcf6c5132b354f28d3b0b7d38367\
         019f4113742a2b14bd25926b49c649155f267e60d3814b4c0cc84250e46f0083",
    );
    assert_eq!(key.sign(b"test"), low);
    assert!(public.verify(b"test", &low));
}

/// Vectors that implementations of secp256k1 share.
#[test]
fn secp256k1_signs_as_others_do() {
    let one = "0000000000000000000000000000000000000000000000000000000000000001";
    let last = "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364140";
    let vectors = [
        (
            one,
            "Satoshi Nakamoto",
            "934b1ea10a4b3c1757e2b0c017d0b6143ce3c9a7e6a4a49860d7a6ab210ee3d8\
             2442ce9d2b916064108014783e923ec36b49743e2ffa1c4496f01a512aafd9e5",
        ),
        (
            one,
            "All those moments will be lost in time, like tears in rain. Time to die...",
            "8600dbd41e348fe5c9465ab92d23e3db8b98b873beecd930736488696438cb6b\
             547fe64427496db33bf66019dacbf0039c04199abb0122918601db38a72cfc21",
        ),
        (
            last,
            "Satoshi Nakamoto",
            "fd567d121db66e382991534ada77a6bd3106f0a1098c231e47993447cd6af2d0\
             6b39cd0eb1bc8603e159ef5c20a5c8ad685a45b06ce9bebed3f153d10d93bed5",
        ),
    ];
    for (secret, message, signature) in vectors {
        let key = secp256k1::SecretKey::from_bytes(&hex_array(secret)).unwrap();
        let signature: [u8; 64] = hex_array(signature);
        assert_eq!(key.sign(message.as_bytes()), signature);
        let public = secp256k1::PublicKey::read(&key.public_key()).unwrap();
        assert!(public.verify(message.as_bytes(), &signature));
        assert!(!public.verify(message.as_bytes(), &mirrored(&signature, SECP256K1_ORDER)));
    }
}

/// The mirrored signature is refused by the rule, not because it is false: other code accepts it.
#[test]
fn a_high_s_satisfies_the_equation_and_is_refused() {
    use ::p256::ecdsa::signature::Verifier as _;
    let key = p256::SecretKey::from_bytes(&[3; 32]).unwrap();
    let high = mirrored(&key.sign(b"vote"), P256_ORDER);
    let theirs = ::p256::ecdsa::VerifyingKey::from_sec1_bytes(&key.public_key()).unwrap();
    theirs.verify(b"vote", &::p256::ecdsa::Signature::from_slice(&high).unwrap()).unwrap();
    assert!(!p256::PublicKey::read(&key.public_key()).unwrap().verify(b"vote", &high));
}

#[test]
fn secret_keys_are_numbers_between_0_and_the_order() {
    for bytes in [[0; 32], [0xff; 32], hex_array(SECP256K1_ORDER)] {
        assert!(secp256k1::SecretKey::from_bytes(&bytes).is_none());
    }
    for bytes in [[0; 32], [0xff; 32], hex_array(P256_ORDER)] {
        assert!(p256::SecretKey::from_bytes(&bytes).is_none());
    }
}

#[test]
fn keys_are_compressed_points_and_nothing_else() {
    let good = secp256k1::SecretKey::from_bytes(&[3; 32]).unwrap().public_key();
    let read = |bytes: &[u8]| secp256k1::PublicKey::read(bytes).map(drop);
    let other = p256::SecretKey::from_bytes(&[3; 32]).unwrap().public_key();
    let read_other = |bytes: &[u8]| p256::PublicKey::read(bytes).map(drop);
    assert_eq!((read(&good), read_other(&other)), (Ok(()), Ok(())));
    for length in [0, 1, 32, 34, 64, 65] {
        let problem = Err(KeyProblem::Length { expected: 33, found: length });
        assert_eq!(read(&vec![2; length]), problem);
        assert_eq!(read_other(&vec![2; length]), problem);
    }
    // Signs other than 2 and 3, x of no point (5 is none on either curve), x above p.
    let with = |sign: u8, x: [u8; 32]| [[sign].as_slice(), &x].concat();
    let x = |key: [u8; 33]| *key.last_chunk::<32>().unwrap();
    for sign in [0, 1, 4, 5, 6, 7, 0x82] {
        assert_eq!(read(&with(sign, x(good))), Err(KeyProblem::NotOnCurve));
        assert_eq!(read_other(&with(sign, x(other))), Err(KeyProblem::NotOnCurve));
    }
    let mut off_curve = [0, 0];
    for number in 0..32 {
        let mut small = [0; 32];
        small[31] = number;
        off_curve[0] += usize::from(read(&with(2, small)).is_err());
        off_curve[1] += usize::from(read_other(&with(2, small)).is_err());
    }
    assert!(off_curve.iter().all(|count| (1..32).contains(count)), "{off_curve:?}");
    assert_eq!(read(&with(2, [0xff; 32])), Err(KeyProblem::NotOnCurve));
    assert_eq!(read_other(&with(2, [0xff; 32])), Err(KeyProblem::NotOnCurve));
}

/// Zeros, the order itself, a byte more or less, and the other curve's signature.
#[test]
fn signatures_out_of_range_are_refused() {
    let (key, other) = (
        secp256k1::SecretKey::from_bytes(&[3; 32]).unwrap(),
        p256::SecretKey::from_bytes(&[3; 32]).unwrap(),
    );
    let public = secp256k1::PublicKey::read(&key.public_key()).unwrap();
    let other_public = p256::PublicKey::read(&other.public_key()).unwrap();
    let (good, other_good) = (key.sign(b"vote"), other.sign(b"vote"));
    assert!(public.verify(b"vote", &good) && other_public.verify(b"vote", &other_good));
    assert!(!public.verify(b"vote", &other_good) && !other_public.verify(b"vote", &good));
    for (good, order) in [(good, SECP256K1_ORDER), (other_good, P256_ORDER)] {
        let (r, s) = good.split_at(32);
        let (zero, order) = ([0; 32], hex(order));
        let bad = [
            [&zero, s].concat(),
            [r, &zero].concat(),
            [&order, s].concat(),
            [r, &order].concat(),
            [s, r].concat(),
            good[..63].to_vec(),
            [good.as_slice(), &[0]].concat(),
            vec![],
        ];
        for bad in bad {
            assert!(!public.verify(b"vote", &bad) && !other_public.verify(b"vote", &bad));
        }
    }
}

#[test]
fn nothing_prints_a_secret_key() {
    let bytes = [0xab; 32];
    let printed = format!(
        "{:?} {:?}",
        secp256k1::SecretKey::from_bytes(&bytes).unwrap(),
        p256::SecretKey::from_bytes(&bytes).unwrap()
    );
    assert!(!printed.contains("ab, ab") && !printed.contains("171, 171"), "{printed}");
    assert!(!printed.contains("abab"), "{printed}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// libsecp256k1 and RustCrypto's k256 make the same signatures, and each verifies the other's.
    #[test]
    fn secp256k1_agrees_with_a_second_implementation(
        secret in any::<[u8; 32]>(),
        message in prop::collection::vec(any::<u8>(), 0..200),
        flipped in 0..512usize,
    ) {
        use k256::ecdsa::signature::{Signer as _, Verifier as _};
        let Some(key) = secp256k1::SecretKey::from_bytes(&secret) else { return Ok(()) };
        let theirs = k256::ecdsa::SigningKey::from_slice(&secret).unwrap();
        let mut signature = key.sign(&message);
        let their_signature: k256::ecdsa::Signature = theirs.sign(&message);
        prop_assert_eq!(signature.to_vec(), their_signature.to_bytes().to_vec());
        let public = secp256k1::PublicKey::read(&key.public_key()).unwrap();
        prop_assert!(public.verify(&message, &signature));
        signature[flipped / 8] ^= 1 << (flipped % 8);
        let they_take_it = k256::ecdsa::Signature::from_slice(&signature)
            .is_ok_and(|signature| theirs.verifying_key().verify(&message, &signature).is_ok());
        prop_assert_eq!(public.verify(&message, &signature), they_take_it);
        prop_assert!(!they_take_it);
    }

    /// RustCrypto signs and AWS-LC verifies. RustCrypto's verdict on altered signatures is the
    /// same.
    #[test]
    fn p256_agrees_with_a_second_implementation(
        secret in any::<[u8; 32]>(),
        message in prop::collection::vec(any::<u8>(), 0..200),
        flipped in 0..512usize,
    ) {
        use ::p256::ecdsa::signature::Verifier as _;
        let Some(key) = p256::SecretKey::from_bytes(&secret) else { return Ok(()) };
        let theirs = ::p256::ecdsa::VerifyingKey::from_sec1_bytes(&key.public_key()).unwrap();
        let public = p256::PublicKey::read(&key.public_key()).unwrap();
        let mut signature = key.sign(&message);
        prop_assert_eq!(signature, key.sign(&message));
        prop_assert!(public.verify(&message, &signature));
        signature[flipped / 8] ^= 1 << (flipped % 8);
        let they_take_it = ::p256::ecdsa::Signature::from_slice(&signature)
            .is_ok_and(|signature| theirs.verify(&message, &signature).is_ok());
        prop_assert_eq!(public.verify(&message, &signature), they_take_it);
        prop_assert!(!they_take_it);
    }
}
