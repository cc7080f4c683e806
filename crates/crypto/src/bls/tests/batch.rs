//! Tests of the batch against the equation of each single claim.

use blst::BLST_ERROR;
use blst::min_sig::{PublicKey, Signature};
use proptest::prelude::*;

use super::{Signed, aggregate_holds, committee, opposite, secret, sign, sum, verdicts};
use crate::bls::{SIGNATURE_DOMAIN, SecretKey};

/// The library's own verification of one signature.
fn alone(key: &SecretKey, message: &[u8], signature: &[u8]) -> bool {
    let public = PublicKey::key_validate(&key.public_key()).unwrap();
    Signature::sig_validate(signature, true).is_ok_and(|signature| {
        signature.verify(true, message, SIGNATURE_DOMAIN, &[], &public, true)
            == BLST_ERROR::BLST_SUCCESS
    })
}

#[test]
fn no_claims_no_verdicts() {
    assert!(verdicts(&committee(&[secret(1)]), &[]).is_empty());
}

/// σ₁ + Δ and σ₂ − Δ: their sum is that of the valid signatures.
#[test]
fn two_bad_shares_that_cancel_out_are_both_found() {
    let keys = [secret(1), secret(2), secret(3)];
    let committee = committee(&keys);
    let delta = secret(77);
    let plus = sum(&[&sign(&keys[0], b"m"), &sign(&delta, b"m")]);
    let minus = sum(&[&sign(&keys[1], b"m"), &sign(&opposite(&delta), b"m")]);
    let good = sign(&keys[2], b"m");
    let joined = committee.join([plus.as_slice(), &minus, &good].into_iter()).unwrap();
    assert!(aggregate_holds(&committee, &[(b"m", vec![0, 1, 2])], &joined), "they do cancel out");
    let shares: [(usize, &[u8], &[u8]); 3] =
        [(0, b"m", &plus), (1, b"m", &minus), (2, b"m", &good)];
    assert_eq!(verdicts(&committee, &shares), [false, false, true]);
    assert_eq!(verdicts(&committee, &shares[..2]), [false, false]);
}

/// An attacker computes the coefficients like the verifier, and chooses errors that would cancel
/// out: σ₁ + z₂eH(m) and σ₂ − eH(m). But the coefficients cover the signatures, so every attempt
/// changes them.
#[test]
fn errors_that_are_fitted_to_the_coefficients_are_found() {
    let keys = [secret(1), secret(2), secret(3)];
    let committee = committee(&keys);
    let good: Vec<Signed> = keys.iter().map(|key| sign(key, b"m")).collect();
    let mut forged = good.clone();
    for _ in 0..8 {
        let mut claims = committee.claims();
        for (signer, share) in forged.iter().enumerate() {
            claims.share(signer, signer, b"m", share);
        }
        let z = claims.coefficients()[1];
        let mut scalar = [0; 32];
        scalar[16..].copy_from_slice(&z);
        scalar[16..].reverse();
        let fitted = SecretKey::from_bytes(&scalar).unwrap();
        let one = SecretKey::from_bytes(&[[0; 31].as_slice(), &[1]].concat().try_into().unwrap());
        forged[0] = sum(&[&good[0], &sign(&fitted, b"m")]);
        forged[1] = sum(&[&good[1], &sign(&opposite(&one.unwrap()), b"m")]);
        let shares: Vec<(usize, &[u8], &[u8])> =
            (0..).zip(&forged).map(|(signer, share)| (signer, &b"m"[..], &share[..])).collect();
        assert_eq!(verdicts(&committee, &shares), [false, false, true]);
    }
}

#[test]
fn a_share_is_its_signers_and_its_statements_alone() {
    let keys = [secret(1), secret(2)];
    let committee = committee(&keys);
    let share = sign(&keys[0], b"vote 1");
    let ed25519 = [7; 64];
    let other_domain = keys[0].sign(b"vote 1", crate::bls::threshold::SIGNATURE_DOMAIN);
    let claims: [(usize, &[u8], &[u8]); 7] = [
        (0, b"vote 1", &share),
        (1, b"vote 1", &share),
        (0, b"vote 2", &share),
        (0, b"vote 1", &ed25519),
        (0, b"vote 1", &other_domain),
        (2, b"vote 1", &share),
        (usize::MAX, b"vote 1", &share),
    ];
    assert_eq!(verdicts(&committee, &claims), [true, false, false, false, false, false, false]);
}

#[test]
fn an_aggregate_holds_for_who_signed_what_and_nothing_else() {
    let keys: Vec<_> = (1..=5).map(secret).collect();
    let committee = committee(&keys);
    let said: [&[u8]; 5] = [b"a", b"a", b"b", b"a", b"c"];
    let shares: Vec<Signed> = keys.iter().zip(said).map(|(key, what)| sign(key, what)).collect();
    let joined = committee.join(shares.iter().map(Signed::as_slice)).unwrap();
    let holds = |parts: &[(&[u8], Vec<usize>)]| aggregate_holds(&committee, parts, &joined);
    let right: [(&[u8], Vec<usize>); 3] = [(b"a", vec![0, 1, 3]), (b"b", vec![2]), (b"c", vec![4])];
    assert!(holds(&right));
    assert!(holds(&[right[2].clone(), right[1].clone(), right[0].clone()]), "in any order");
    let wrong: [Vec<(&[u8], Vec<usize>)>; 10] = [
        vec![],
        right[..2].to_vec(),
        vec![(b"a", vec![0, 1, 2, 3, 4])],
        vec![(b"a", vec![0, 1]), (b"b", vec![2]), (b"c", vec![4])],
        vec![(b"a", vec![0, 1, 3]), (b"b", vec![4]), (b"c", vec![2])],
        vec![(b"a", vec![0, 1, 3]), (b"b", vec![2]), (b"d", vec![4])],
        // No signer, a signer twice, a signer in two parts, an unknown signer.
        [right.to_vec(), vec![(b"d", vec![])]].concat(),
        vec![(b"a", vec![0, 1, 3, 3]), (b"b", vec![2]), (b"c", vec![4])],
        vec![(b"a", vec![0, 1, 3]), (b"b", vec![2, 0]), (b"c", vec![4])],
        vec![(b"a", vec![0, 1, 3]), (b"b", vec![2]), (b"c", vec![4, 5])],
    ];
    for parts in wrong {
        assert!(!holds(&parts), "{parts:?}");
    }
    assert!(!aggregate_holds(&committee, &right, &shares[0]));
}

#[test]
fn what_is_no_signature_is_not_joined() {
    let committee = committee(&[secret(1), secret(2)]);
    let good = sign(&secret(1), b"m");
    assert_eq!(committee.join(std::iter::empty()), None);
    assert_eq!(committee.join([good.as_slice(), &[0; 48]].into_iter()), None);
    assert_eq!(committee.join([good.as_slice(), &[7; 64]].into_iter()), None);
    assert_eq!(committee.join([good.as_slice()].into_iter()), Some(good));
}

/// The faults of a share.
#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    Message,
    Signer,
    Bit(u16),
    Infinity,
    /// Off by Δ, or by −Δ.
    Off(bool),
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        12 => Just(Fault::None),
        1 => Just(Fault::Message),
        1 => Just(Fault::Signer),
        1 => (0..384u16).prop_map(Fault::Bit),
        1 => Just(Fault::Infinity),
        2 => any::<bool>().prop_map(Fault::Off),
    ]
}

fn faulty(signer: u32, message: &[u8], fault: Fault) -> Vec<u8> {
    let good = sign(&secret(signer), message);
    match fault {
        Fault::None => good.to_vec(),
        Fault::Message => sign(&secret(signer), b"another").to_vec(),
        Fault::Signer => sign(&secret(signer + 1), message).to_vec(),
        Fault::Bit(bit) => {
            let mut bytes = good;
            bytes[usize::from(bit / 8)] ^= 1 << (bit % 8);
            bytes.to_vec()
        }
        Fault::Infinity => [[0xc0].as_slice(), &[0; 47]].concat(),
        Fault::Off(up) => {
            let delta = if up { secret(99) } else { opposite(&secret(99)) };
            sum(&[&good, &sign(&delta, message)]).to_vec()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// For any mix of shares, the batch's verdict on each is that of its own equation: bisection
    /// finds exactly the false ones.
    #[test]
    fn bisection_finds_exactly_the_bad_shares(
        shares in prop::collection::vec((1..8u32, 0..3usize, fault()), 0..24),
    ) {
        let messages: [&[u8]; 3] = [b"one", b"two", b"three"];
        let keys: Vec<_> = (1..9).map(secret).collect();
        let committee = committee(&keys);
        let made: Vec<_> = shares
            .iter()
            .map(|(signer, at, fault)| {
                (*signer as usize - 1, messages[*at], faulty(*signer, messages[*at], *fault))
            })
            .collect();
        let inputs: Vec<_> = made.iter().map(|(who, what, sig)| (*who, *what, &sig[..])).collect();
        let expected: Vec<_> =
            inputs.iter().map(|(who, what, sig)| alone(&keys[*who], what, sig)).collect();
        prop_assert_eq!(&verdicts(&committee, &inputs), &expected);
        let singles: Vec<_> =
            inputs.iter().map(|input| verdicts(&committee, std::slice::from_ref(input))[0]).collect();
        prop_assert_eq!(&singles, &expected);
    }

    /// Certificates and shares in one batch, some of each false.
    #[test]
    fn certificates_and_shares_are_told_apart_in_one_batch(
        signers in prop::collection::vec(1..8usize, 1..6),
        tampered in prop::collection::vec(any::<bool>(), 6),
    ) {
        let keys: Vec<_> = (1..9).map(secret).collect();
        let committee = committee(&keys);
        let made: Vec<_> = signers
            .iter()
            .zip(&tampered)
            .map(|(count, tampered)| {
                let message: &[u8] = if *tampered { b"said" } else { b"claimed" };
                let shares: Vec<_> = keys[..*count].iter().map(|key| sign(key, message)).collect();
                (*count, committee.join(shares.iter().map(Signed::as_slice)).unwrap())
            })
            .collect();
        let share = sign(&keys[7], b"claimed");
        let mut claims = committee.claims();
        for (index, (count, joined)) in made.iter().enumerate() {
            claims.aggregate(index, &[(b"claimed", (0..*count).collect())], joined);
        }
        claims.share(made.len(), 7, b"claimed", &share);
        let mut verdicts = vec![false; made.len() + 1];
        claims.settle(&mut verdicts);
        let expected: Vec<_> =
            tampered.iter().take(made.len()).map(|bad| !bad).chain([true]).collect();
        prop_assert_eq!(verdicts, expected);
    }
}
