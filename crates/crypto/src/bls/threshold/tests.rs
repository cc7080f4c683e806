//! Tests of threshold signatures: sufficient and insufficient shares, and keys that were not dealt
//! together.

use proptest::prelude::*;
use quorate_core::base::membership;

use super::dealer::share_out;
use super::{Committee, Deal, DealError, SIGNATURE_DOMAIN, deal};
use crate::bls::curve::Scalar;
use crate::bls::tests::{secret, sum};
use crate::bls::{SIGNATURE_BYTES, SecretKey};
use crate::committee_keys::{CommitteeKeyError, DealingProblem, GroupKey, KeyProblem};

type Signed = [u8; SIGNATURE_BYTES];

/// A fixed polynomial of `quorum` coefficients, dealt to `members`.
fn dealt(members: usize, quorum: usize, seed: u64) -> Deal {
    let coefficients: Vec<_> = (0..quorum as u64)
        .map(|power| Scalar::from_u64(seed + 1000 * power + 7) * Scalar::from_u64(u64::MAX))
        .collect();
    share_out(&coefficients, members).unwrap()
}

fn read(deal: &Deal, quorum: usize) -> Result<Committee, CommitteeKeyError> {
    let keys: Vec<_> = deal.shares.iter().map(SecretKey::public_key).collect();
    let members: Vec<&[u8]> = keys.iter().map(|key| key.as_slice()).collect();
    Committee::read(&members, GroupKey { key: &deal.group, quorum })
}

fn sign(key: &SecretKey, message: &[u8]) -> Signed {
    key.sign(message, SIGNATURE_DOMAIN)
}

fn group_holds(committee: &Committee, message: &[u8], signature: &[u8]) -> bool {
    let mut claims = committee.claims();
    claims.group(0, message, signature);
    let mut verdicts = [false];
    claims.settle(&mut verdicts);
    verdicts[0]
}

fn aggregate_holds(committee: &Committee, parts: &[(&[u8], Vec<usize>)], joined: &[u8]) -> bool {
    let mut claims = committee.claims();
    claims.aggregate(0, parts, joined);
    let mut verdicts = [false];
    claims.settle(&mut verdicts);
    verdicts[0]
}

/// All subsets of `members` with `size` elements.
fn subsets(members: usize, size: usize) -> Vec<Vec<usize>> {
    (0u32..1 << members)
        .filter(|set| set.count_ones() as usize == size)
        .map(|set| (0..members).filter(|at| set >> at & 1 == 1).collect())
        .collect()
}

#[test]
fn any_quorum_makes_the_one_signature_of_the_committee() {
    let (members, quorum) = (7, 5);
    let deal = dealt(members, quorum, 1);
    let committee = read(&deal, quorum).unwrap();
    let signed: Vec<Signed> = deal.shares.iter().map(|share| sign(share, b"m")).collect();
    let joined: Vec<_> = subsets(members, quorum)
        .into_iter()
        .map(|set| {
            let shares: Vec<_> = set.iter().map(|at| (*at, signed[*at].as_slice())).collect();
            committee.join_quorum(&shares).unwrap()
        })
        .collect();
    assert_eq!(joined.len(), 21);
    assert!(joined.iter().all(|one| one == &joined[0]));
    assert!(group_holds(&committee, b"m", &joined[0]));
    assert!(!group_holds(&committee, b"n", &joined[0]));
    // More than a quorum, in any order, makes the same signature.
    let all: Vec<_> = signed.iter().enumerate().rev().map(|(at, sig)| (at, &sig[..])).collect();
    assert_eq!(committee.join_quorum(&all), Some(joined[0]));
}

#[test]
fn too_few_a_doubled_or_an_unknown_signer_make_no_signature() {
    let deal = dealt(4, 3, 1);
    let committee = read(&deal, 3).unwrap();
    let signed: Vec<Signed> = deal.shares.iter().map(|share| sign(share, b"m")).collect();
    let join = |places: &[usize]| {
        let shares: Vec<_> =
            places.iter().map(|at| (*at, signed[*at % signed.len()].as_slice())).collect();
        committee.join_quorum(&shares)
    };
    assert!(join(&[0, 2, 3]).is_some());
    for wrong in
        [&[][..], &[0], &[0, 1], &[0, 1, 1], &[0, 1, 1, 2], &[0, 1, 4], &[0, 1, usize::MAX]]
    {
        assert_eq!(join(wrong), None, "{wrong:?}");
    }
    let no_signature: [(usize, &[u8]); 3] = [(0, &signed[0]), (1, &signed[1]), (2, &[7; 64])];
    assert_eq!(committee.join_quorum(&no_signature), None);
}

/// One share of another message, of another replica, or of another deal.
#[test]
fn a_wrong_share_does_not_hold_and_spoils_what_it_is_joined_to() {
    let deal = dealt(4, 3, 1);
    let committee = read(&deal, 3).unwrap();
    let good: Vec<Signed> = deal.shares.iter().map(|share| sign(share, b"m")).collect();
    let wrong = [
        sign(&deal.shares[1], b"n"),
        good[3],
        sign(&dealt(4, 3, 2).shares[1], b"m"),
        deal.shares[1].sign(b"m", crate::bls::SIGNATURE_DOMAIN),
    ];
    for wrong in &wrong {
        let mut claims = committee.claims();
        for (at, share) in [&good[0], wrong, &good[2], &good[3]].into_iter().enumerate() {
            claims.share(at, at, b"m", share);
        }
        let mut verdicts = [false; 4];
        claims.settle(&mut verdicts);
        assert_eq!(verdicts, [true, false, true, true]);
        let shares = [(0, &good[0][..]), (1, &wrong[..]), (2, &good[2][..])];
        let joined = committee.join_quorum(&shares).unwrap();
        assert!(!group_holds(&committee, b"m", &joined));
    }
}

#[test]
fn the_committees_signature_is_no_replicas() {
    let deal = dealt(4, 3, 1);
    let committee = read(&deal, 3).unwrap();
    let share = sign(&deal.shares[0], b"m");
    assert!(!group_holds(&committee, b"m", &share));
    assert!(!group_holds(&committee, b"m", &[0; 48]));
    let mut infinity = [0; 48];
    infinity[0] = 0xc0;
    assert!(!group_holds(&committee, b"m", &infinity));
}

#[test]
fn time_outs_that_say_different_things_are_joined() {
    let deal = dealt(7, 5, 1);
    let committee = read(&deal, 5).unwrap();
    let said: [&[u8]; 5] = [b"a", b"b", b"a", b"c", b"a"];
    let places = [0, 1, 3, 5, 6];
    let signed: Vec<_> =
        places.iter().zip(said).map(|(at, what)| sign(&deal.shares[*at], what)).collect();
    let mut shares: Vec<_> = (0..5).map(|at| (places[at], said[at], &signed[at][..])).collect();
    let joined = committee.join(&shares).unwrap();
    shares.reverse();
    assert_eq!(committee.join(&shares), Some(joined), "in any order");
    let holds = |parts: &[(&[u8], Vec<usize>)]| aggregate_holds(&committee, parts, &joined);
    assert!(holds(&[(b"a", vec![0, 3, 6]), (b"b", vec![1]), (b"c", vec![5])]));
    assert!(holds(&[(b"c", vec![5]), (b"b", vec![1]), (b"a", vec![6, 0, 3])]));
    let wrong: [Vec<(&[u8], Vec<usize>)>; 8] = [
        vec![],
        vec![(b"a", vec![0, 3, 6]), (b"b", vec![1])],
        vec![(b"a", vec![0, 3, 6]), (b"b", vec![5]), (b"c", vec![1])],
        vec![(b"a", vec![0, 3, 4]), (b"b", vec![1]), (b"c", vec![5])],
        vec![(b"a", vec![0, 3, 6]), (b"b", vec![1]), (b"c", vec![5]), (b"d", vec![])],
        vec![(b"a", vec![0, 3, 6]), (b"b", vec![1, 3]), (b"c", vec![5])],
        vec![(b"a", vec![0, 3, 6, 6]), (b"b", vec![1]), (b"c", vec![5])],
        vec![(b"a", vec![0, 3, 6]), (b"b", vec![1]), (b"c", vec![5, 7])],
    ];
    for parts in wrong {
        assert!(!holds(&parts), "{parts:?}");
    }
    assert_eq!(committee.join(&[]), None);
    assert_eq!(committee.join(&[shares[0], shares[0]]), None);
    assert_eq!(committee.join(&[(7, b"a", &signed[0])]), None);
}

/// f(1) + f(5) = 4f(2) − 6f(3) + 4f(4) for every f of degree 3, so three signatures make the plain
/// sum of four others. (−6 is −1 six times, by the opposite of a signature.)
#[test]
fn a_plain_sum_is_forged_by_three_of_a_quorum_of_four_and_a_weighted_one_is_not() {
    let deal = dealt(5, 4, 1);
    let committee = read(&deal, 4).unwrap();
    let [_, two, three, four, _] = [0, 1, 2, 3, 4].map(|at| sign(&deal.shares[at], b"m"));
    let mut minus_three = three;
    minus_three[0] ^= 0x20; // the other y: the opposite point
    let times = |signature: Signed, count: usize| sum(&vec![signature.as_slice(); count]);
    let forged = sum(&[&times(two, 5), &times(minus_three, 6), &times(four, 5)]);
    let plain: Vec<Signed> = [0, 1, 3, 4].iter().map(|at| sign(&deal.shares[*at], b"m")).collect();
    let plain: Vec<&[u8]> = plain.iter().map(|signature| signature.as_slice()).collect();
    assert_eq!(forged, sum(&plain), "a plain sum is forged");
    assert!(!aggregate_holds(&committee, &[(b"m", vec![0, 1, 3, 4])], &forged));
    let shares: Vec<_> =
        [0, 1, 3, 4].iter().zip(&plain).map(|(at, share)| (*at, &b"m"[..], *share)).collect();
    let joined = committee.join(&shares).unwrap();
    assert!(aggregate_holds(&committee, &[(b"m", vec![0, 1, 3, 4])], &joined));
}

/// The documentation's section on what a share does not prove.
#[test]
fn a_quorum_of_shares_makes_everybody_elses() {
    let deal = dealt(4, 3, 1);
    let committee = read(&deal, 3).unwrap();
    // f(4) = f(1) − 3f(2) + 3f(3) for every f of degree 2.
    let [one, two, three] = [0, 1, 2].map(|at| sign(&deal.shares[at], b"m"));
    let mut minus_two = two;
    minus_two[0] ^= 0x20;
    let made = sum(&[&one, &minus_two, &minus_two, &minus_two, &three, &three, &three]);
    let mut claims = committee.claims();
    claims.share(0, 3, b"m", &made);
    let mut verdicts = [false];
    claims.settle(&mut verdicts);
    assert_eq!((verdicts, made), ([true], sign(&deal.shares[3], b"m")));
}

#[test]
fn a_deal_is_drawn_anew_and_fits_together() {
    for (members, quorum) in [(1, 1), (2, 2), (4, 3), (10, 7)] {
        let (one, two) = (deal(members, quorum).unwrap(), deal(members, quorum).unwrap());
        assert_ne!(one.group, two.group);
        assert_eq!(one.shares.len(), members);
        assert!(read(&one, quorum).is_ok());
    }
    for (members, quorum) in [(0, 0), (4, 0), (4, 5)] {
        assert_eq!(deal(members, quorum).unwrap_err(), DealError::Quorum { quorum, members });
        let found = read(&dealt(members, 1, 1), quorum).map(drop);
        assert_eq!(found, Err(CommitteeKeyError::Quorum { quorum, members }));
    }
}

#[test]
fn a_key_that_was_not_dealt_with_the_others_is_named() {
    let fault = |deal: &Deal, quorum| match read(deal, quorum).map(drop) {
        Err(CommitteeKeyError::Dealing(problem)) => problem,
        other => panic!("{other:?}"),
    };
    for (members, quorum) in [(4, 3), (7, 5), (10, 7)] {
        for wrong in 0..members {
            let mut deal = dealt(members, quorum, 1);
            deal.shares[wrong] = secret(5);
            assert_eq!(fault(&deal, quorum), DealingProblem::Replica(wrong));
        }
        let mut deal = dealt(members, quorum, 1);
        deal.group = secret(5).public_key();
        assert_eq!(fault(&deal, quorum), DealingProblem::Group);
        // Two keys are wrong: swapped, or dealt for another quorum.
        let mut deal = dealt(members, quorum, 1);
        deal.shares.swap(0, 2);
        assert_eq!(fault(&deal, quorum), DealingProblem::Several);
        assert_eq!(fault(&dealt(members, quorum + 1, 1), quorum), DealingProblem::Several);
    }
    // With n = 3 there are no more shares than determine the polynomial.
    let mut deal = dealt(3, 3, 1);
    deal.shares[1] = secret(5);
    assert_eq!(fault(&deal, 3), DealingProblem::Several);
}

/// A quorum that is one too small would let one replica fewer sign for all.
#[test]
fn a_deal_for_a_smaller_quorum_is_refused() {
    for (members, quorum) in [(3, 3), (4, 3), (7, 5)] {
        let found = read(&dealt(members, quorum - 1, 1), quorum).map(drop);
        assert_eq!(found, Err(CommitteeKeyError::Dealing(DealingProblem::Degree)));
    }
}

#[test]
fn dealt_keys_are_points_of_the_group() {
    let deal = dealt(4, 3, 1);
    let keys: Vec<_> = deal.shares.iter().map(SecretKey::public_key).collect();
    let mut infinity = [0; 96];
    infinity[0] = 0xc0;
    let read = |wrong: Option<(usize, &[u8])>, group: &[u8]| {
        let mut members: Vec<&[u8]> = keys.iter().map(|key| key.as_slice()).collect();
        if let Some((at, key)) = wrong {
            members[at] = key;
        }
        Committee::read(&members, GroupKey { key: group, quorum: 3 }).map(drop)
    };
    assert_eq!(read(None, &deal.group), Ok(()));
    let named = |error: Result<(), CommitteeKeyError>| error.unwrap_err().to_string();
    let text = named(read(Some((2, &infinity)), &deal.group));
    assert!(text.contains("replica 2") && text.contains("infinity"), "{text}");
    let text = named(read(None, &infinity));
    assert!(text.contains("group key") && text.contains("infinity"), "{text}");
    assert!(matches!(
        read(Some((1, &keys[1][..48])), &deal.group),
        Err(CommitteeKeyError::Replica {
            replica: 1,
            problem: KeyProblem::Length { expected: 96, found: 48 },
            ..
        })
    ));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// For every size and every set of signers, a quorum's shares make a valid signature.
    #[test]
    fn quorums_of_any_committee_sign(
        members in 1..14usize,
        seed in 0..1000u64,
        order in any::<prop::sample::Index>(),
    ) {
        let quorum = membership::quorum(members);
        let deal = dealt(members, quorum, seed);
        let committee = read(&deal, quorum).unwrap();
        let first = order.index(members);
        let signed: Vec<_> = (0..quorum)
            .map(|at| (first + at) % members)
            .map(|at| (at, sign(&deal.shares[at], b"m")))
            .collect();
        let shares: Vec<_> = signed.iter().map(|(at, share)| (*at, share.as_slice())).collect();
        let joined = committee.join_quorum(&shares).unwrap();
        prop_assert!(group_holds(&committee, b"m", &joined));
        prop_assert_eq!(committee.join_quorum(&shares[1..]), None);
    }
}
