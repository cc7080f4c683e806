//! Tests of public keys from a configuration file: refusals and their messages.

use quorate_crypto::bls::threshold;
use quorate_crypto::committee_keys::{CommitteeKeyError, GroupKey, KeyProblem, MemberKey};
use quorate_crypto::{CommitteeScheme, ConsensusKey, SchemeName};

/// The file's entry for one replica.
#[derive(Clone)]
struct Entry {
    key: Vec<u8>,
    possession: Option<Vec<u8>>,
}

fn entry(scheme: SchemeName, seed: u8) -> Entry {
    let key = ConsensusKey::from_bytes(scheme, &[seed; 32]).unwrap();
    let possession = key.proof_of_possession().map(|proof| proof.to_vec());
    Entry { key: key.public_key(), possession }
}

fn read(
    scheme: SchemeName,
    entries: &[Entry],
    group: Option<GroupKey<'_>>,
) -> Result<(), CommitteeKeyError> {
    let members: Vec<_> = entries
        .iter()
        .map(|entry| MemberKey { key: &entry.key, possession: entry.possession.as_deref() })
        .collect();
    CommitteeScheme::new(scheme, &members, group).map(drop)
}

/// The error for a committee in which replica 2 has this entry.
fn refused(scheme: SchemeName, wrong: Entry) -> CommitteeKeyError {
    let mut entries: Vec<_> = (1..=4).map(|seed| entry(scheme, seed)).collect();
    assert_eq!(read(scheme, &entries, None), Ok(()));
    entries[2] = wrong;
    read(scheme, &entries, None).unwrap_err()
}

/// The schemes whose replicas make their own keys.
fn own_keys() -> impl Iterator<Item = SchemeName> {
    SchemeName::ALL.into_iter().filter(|scheme| !scheme.is_dealt())
}

#[test]
fn a_key_of_another_length_names_replica_scheme_and_lengths() {
    for scheme in own_keys() {
        let good = entry(scheme, 9);
        for length in [0, 31, 34, 97] {
            let wrong = Entry { key: vec![2; length], ..good.clone() };
            let text = refused(scheme, wrong).to_string();
            let expected = [
                "replica 2:".to_owned(),
                format!("its {scheme} public key"),
                format!("has {length} bytes"),
                format!("have {}", scheme.public_key_bytes()),
                "another scheme".to_owned(),
            ];
            for part in expected {
                assert!(text.contains(&part), "{text:?} lacks {part:?}");
            }
        }
    }
}

#[test]
fn a_key_that_is_no_point_says_so() {
    for scheme in own_keys().filter(|scheme| *scheme != SchemeName::None) {
        let good = entry(scheme, 9);
        let wrong = Entry { key: vec![0xff; scheme.public_key_bytes()], ..good };
        let error = refused(scheme, wrong);
        assert!(
            matches!(
                error,
                CommitteeKeyError::Replica { replica: 2, problem: KeyProblem::NotOnCurve, .. }
            ),
            "{error}"
        );
        assert!(error.to_string().contains("copy it again"), "{error}");
    }
}

#[test]
fn keys_for_which_anybody_can_sign_are_refused() {
    let mut infinity = vec![0; 96];
    infinity[0] = 0xc0;
    let wrong = Entry { key: infinity, ..entry(SchemeName::Bls, 9) };
    let text = refused(SchemeName::Bls, wrong).to_string();
    assert!(text.contains("infinity") && text.contains("make a new key"), "{text}");
    let mut identity = vec![0; 32];
    identity[0] = 1;
    let text = refused(SchemeName::Ed25519, Entry { key: identity, possession: None }).to_string();
    assert!(text.contains("infinity") && text.contains("make a new key"), "{text}");
}

#[test]
fn a_proof_of_possession_must_be_there_and_hold_where_the_scheme_has_one() {
    let problem = |scheme, wrong| match refused(scheme, wrong) {
        CommitteeKeyError::Replica { replica: 2, problem, .. } => problem,
        other => panic!("{other}"),
    };
    let (good, other) = (entry(SchemeName::Bls, 9), entry(SchemeName::Bls, 10));
    let without = Entry { possession: None, ..good.clone() };
    assert_eq!(problem(SchemeName::Bls, without), KeyProblem::NoPossession);
    let proofs = [
        other.possession.clone().unwrap(),
        good.possession.clone().unwrap()[..47].to_vec(),
        vec![0; 48],
        vec![0; 64],
        vec![],
    ];
    for proof in proofs {
        let wrong = Entry { possession: Some(proof), ..good.clone() };
        assert_eq!(problem(SchemeName::Bls, wrong), KeyProblem::FalsePossession);
    }
    for scheme in own_keys().filter(|scheme| !scheme.needs_possession()) {
        let wrong = Entry { possession: other.possession.clone(), ..entry(scheme, 9) };
        assert_eq!(problem(scheme, wrong), KeyProblem::UselessPossession);
    }
}

#[test]
fn two_equal_keys_name_both_replicas() {
    for scheme in own_keys() {
        let error = refused(scheme, entry(scheme, 1));
        assert_eq!(error, CommitteeKeyError::Shared { first: 0, second: 2 });
        assert!(error.to_string().contains("replicas 0 and 2"), "{error}");
    }
}

#[test]
fn the_group_key_belongs_to_dealt_keys_and_only_to_them() {
    let deal = threshold::deal(4, 3).unwrap();
    let group = GroupKey { key: &deal.group, quorum: 3 };
    let dealt: Vec<_> = deal
        .shares
        .iter()
        .map(|share| Entry { key: share.public_key().to_vec(), possession: None })
        .collect();
    assert_eq!(read(SchemeName::BlsThreshold, &dealt, Some(group)), Ok(()));
    let text = read(SchemeName::BlsThreshold, &dealt, None).unwrap_err().to_string();
    assert!(text.contains("needs the committee's group key"), "{text}");
    for scheme in own_keys() {
        let entries: Vec<_> = (1..=4).map(|seed| entry(scheme, seed)).collect();
        let text = read(scheme, &entries, Some(group)).unwrap_err().to_string();
        assert!(text.contains(scheme.as_str()) && text.contains("has no group key"), "{text}");
    }
    let mut in_another_order = dealt.clone();
    in_another_order.swap(1, 3);
    let text =
        read(SchemeName::BlsThreshold, &in_another_order, Some(group)).unwrap_err().to_string();
    assert!(text.contains("do not belong together") && text.contains("order"), "{text}");
    let mut of_another_deal = dealt;
    of_another_deal[1].key = threshold::deal(4, 3).unwrap().shares[1].public_key().to_vec();
    let text =
        read(SchemeName::BlsThreshold, &of_another_deal, Some(group)).unwrap_err().to_string();
    assert!(text.contains("replica 1's does not fit"), "{text}");
}
