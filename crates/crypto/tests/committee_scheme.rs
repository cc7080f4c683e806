//! Tests of committees of every scheme, through the core's interface.

mod scheme;

use std::sync::Arc;

use proptest::prelude::*;
use quorate_core::base::crypto::{
    Check, ClientSigner as _, Form, Kind, Scheme as _, Share, Signature, Signer as _, Signers,
    Statement,
};
use quorate_core::base::types::{Digest, Epoch, ReplicaId, View};
use quorate_crypto::{SchemeName, SecretKey};
use scheme::{Cluster, statement};

/// The schemes with real signatures.
fn signing() -> impl Iterator<Item = SchemeName> {
    SchemeName::ALL.into_iter().filter(|scheme| *scheme != SchemeName::None)
}

fn joined(statement: Statement, signers: &[u16], signature: Signature, form: Form) -> Check {
    let signers: Signers = signers.iter().map(|id| ReplicaId(*id)).collect();
    match form {
        Form::Threshold => Check::Threshold { statement, signature },
        _ => Check::Aggregate { parts: Arc::new([(statement, signers)]), signature },
    }
}

#[test]
fn lengths_are_as_announced() {
    for scheme in SchemeName::ALL {
        let cluster = Cluster::new(scheme, 4);
        for key in &cluster.keys {
            assert_eq!(key.public_key().len(), scheme.public_key_bytes());
            let signature = key.sign(&statement(1));
            assert_eq!(signature.as_bytes().len(), scheme.signature_bytes());
            assert_eq!(signature, key.sign(&statement(1)), "signing is deterministic");
        }
        assert_eq!(cluster.scheme.name(), scheme);
    }
}

/// A signature of one statement is not valid for any other: each field is bound.
#[test]
fn statements_are_told_apart_by_every_field() {
    let (chain, other) = (Digest([1; 32]), Digest([2; 32]));
    let base = Statement::new(&chain, Epoch(1), 1, Kind::Vote, View(5), 0, &other);
    let changed = [
        Statement::new(&other, Epoch(1), 1, Kind::Vote, View(5), 0, &other),
        Statement::new(&chain, Epoch(2), 1, Kind::Vote, View(5), 0, &other),
        Statement::new(&chain, Epoch(1), 2, Kind::Vote, View(5), 0, &other),
        Statement::new(&chain, Epoch(1), 1, Kind::TimeOut, View(5), 0, &other),
        Statement::new(&chain, Epoch(1), 1, Kind::Testimony, View(5), 0, &other),
        Statement::new(&chain, Epoch(1), 1, Kind::Vote, View(6), 0, &other),
        Statement::new(&chain, Epoch(1), 1, Kind::Vote, View(5), 1, &other),
        Statement::new(&chain, Epoch(1), 1, Kind::Vote, View(5), 0, &chain),
        Statement::frame(&chain, &other),
    ];
    for name in signing() {
        let cluster = Cluster::new(name, 4);
        let share = cluster.share(0, base);
        let holds = |check: Share| cluster.verify(&[Check::Replica(check)]) == [true];
        assert!(holds(share), "{name}");
        for statement in changed {
            assert!(!holds(Share { statement, ..share }), "{name}");
            assert!(!holds(Share { statement: base, ..cluster.share(0, statement) }), "{name}");
        }
        for signer in [ReplicaId(1), ReplicaId(4), ReplicaId(u16::MAX)] {
            assert!(!holds(Share { signer, ..share }), "{name}");
        }
    }
}

/// Members with the same 32 secret bytes, except where keys are dealt: no signature is valid in
/// another scheme.
#[test]
fn a_signature_of_one_scheme_is_none_of_another() {
    let shares: Vec<_> =
        SchemeName::ALL.map(|name| (name, Cluster::new(name, 4).share(0, statement(1)))).into();
    for name in signing() {
        let cluster = Cluster::new(name, 4);
        for (other, share) in shares.iter().filter(|(other, _)| *other != name) {
            assert_eq!(cluster.verify(&[Check::Replica(*share)]), [false], "{other} as {name}");
        }
    }
    let silent = Cluster::new(SchemeName::None, 4);
    for (name, share) in shares {
        let expected = name == SchemeName::None;
        assert_eq!(silent.verify(&[Check::Replica(share)]), [expected], "{name} as none");
    }
}

#[test]
fn a_quorum_is_joined_in_the_forms_of_its_scheme_and_in_no_other() {
    for name in SchemeName::ALL {
        let cluster = Cluster::new(name, 4);
        let shares: Vec<_> = [0, 2, 3].map(|at| cluster.share(at, statement(1))).into();
        for form in [Form::List, Form::Aggregate, Form::Threshold] {
            let possible =
                form != Form::List && [name.vote_form(), name.time_out_form()].contains(&form);
            let Some(signature) = cluster.scheme.combine(form, &shares) else {
                assert!(!possible, "{name} {form:?}");
                continue;
            };
            assert!(possible, "{name} {form:?}");
            assert_eq!(signature.as_bytes().len(), name.signature_bytes());
            let check = |said, signers: &[u16]| joined(statement(said), signers, signature, form);
            let everyone = form == Form::Threshold;
            assert_eq!(
                cluster.verify(&[
                    check(1, &[0, 2, 3]),
                    check(2, &[0, 2, 3]),
                    check(1, &[0, 1, 3]),
                    check(1, &[0, 2]),
                    check(1, &[]),
                    check(1, &[0, 2, 3, 200]),
                ]),
                [true, false, everyone, everyone, everyone, everyone],
                "{name} {form:?}"
            );
        }
    }
}

#[test]
fn certificates_of_another_form_do_not_hold() {
    for name in SchemeName::ALL {
        let cluster = Cluster::new(name, 4);
        let share = cluster.share(0, statement(1));
        let aggregate = joined(share.statement, &[0], share.signature, Form::Aggregate);
        let threshold = joined(share.statement, &[0], share.signature, Form::Threshold);
        // One signature is its own sum if sums have no weights.
        let expected = [name == SchemeName::Bls, false];
        assert_eq!(cluster.verify(&[aggregate, threshold]), expected, "{name}");
    }
}

#[test]
fn what_cannot_be_joined_is_not() {
    for name in [SchemeName::Bls, SchemeName::BlsThreshold] {
        let cluster = Cluster::new(name, 4);
        let one = cluster.share(0, statement(1));
        let two = cluster.share(1, statement(1));
        let foreign =
            Share { signature: Signature::from([7; 64]), ..cluster.share(2, statement(1)) };
        let unknown = Share { signer: ReplicaId(u16::MAX), ..one };
        for form in [Form::List, Form::Aggregate, Form::Threshold] {
            for shares in [&[][..], &[one, one, two], &[one, two, foreign], &[one, two, unknown]] {
                assert_eq!(cluster.scheme.combine(form, shares), None, "{name} {form:?}");
            }
        }
        let differing = [one, two, cluster.share(2, statement(2))];
        assert_eq!(cluster.scheme.combine(Form::Threshold, &differing), None);
        assert!(cluster.scheme.combine(Form::Aggregate, &differing).is_some());
        assert_eq!(cluster.scheme.combine(Form::Threshold, &[one, two]), None);
    }
}

#[test]
fn time_outs_that_differ_are_one_certificate() {
    for name in [SchemeName::Bls, SchemeName::BlsThreshold] {
        let cluster = Cluster::new(name, 7);
        let said = [1, 2, 1, 1, 3];
        let shares: Vec<_> =
            said.iter().enumerate().map(|(at, what)| cluster.share(at, statement(*what))).collect();
        let signature = cluster.scheme.combine(Form::Aggregate, &shares).unwrap();
        let part = |what, ids: &[u16]| {
            (statement(what), ids.iter().map(|id| ReplicaId(*id)).collect::<Signers>())
        };
        let check =
            |parts: Vec<(Statement, Signers)>| Check::Aggregate { parts: parts.into(), signature };
        let right = vec![part(1, &[0, 2, 3]), part(2, &[1]), part(3, &[4])];
        let mut other_order = right.clone();
        other_order.reverse();
        assert_eq!(
            cluster.verify(&[
                check(right),
                check(other_order),
                check(vec![part(1, &[0, 2, 3]), part(2, &[4]), part(3, &[1])]),
                check(vec![part(1, &[0, 2, 3]), part(2, &[1])]),
                check(vec![part(1, &[0, 2, 3]), part(2, &[1, 0]), part(3, &[4])]),
                check(vec![]),
            ]),
            [true, true, false, false, false, false],
            "{name}"
        );
    }
}

/// Clients sign with Ed25519, whatever the replicas' scheme is.
#[test]
fn clients_are_verified_under_every_scheme() {
    let client = SecretKey::from_seed(&[9; 32]);
    let good = Check::Client {
        key: client.public_key(),
        statement: statement(1),
        signature: client.sign(&statement(1)),
    };
    let bad = Check::Client {
        key: client.public_key(),
        statement: statement(2),
        signature: client.sign(&statement(1)),
    };
    let empty = Check::Client {
        key: client.public_key(),
        statement: statement(1),
        signature: Signature::NONE,
    };
    for name in SchemeName::ALL {
        let cluster = Cluster::new(name, 4);
        let replica = Check::Replica(cluster.share(0, statement(1)));
        let checks = [bad.clone(), replica, good.clone(), empty.clone()];
        assert_eq!(cluster.verify(&checks), [false, true, true, false], "{name}");
        assert!(cluster.verify(&[]).is_empty());
    }
}

/// The subject of a check in the proptest below, and whether it is altered.
type Item = (u8, u8, u8, bool);

fn check(cluster: &Cluster, client: &SecretKey, (kind, who, what, bad): Item) -> Check {
    let (said, claimed) =
        (statement(u64::from(what) + u64::from(bad) * 100), statement(what.into()));
    let signers = [0, 1, 2].map(|at| (at + usize::from(who)) % 4);
    let shares = signers.map(|at| cluster.share(at, said));
    let form = cluster.name.vote_form();
    match (kind, form) {
        (0, _) => Check::Client {
            key: client.public_key(),
            statement: claimed,
            signature: client.sign(&said),
        },
        (1, _) | (_, Form::List) => Check::Replica(Share { statement: claimed, ..shares[0] }),
        (2, _) => {
            let signature = cluster.scheme.combine(Form::Aggregate, &shares).unwrap();
            joined(claimed, &signers.map(|at| at as u16), signature, Form::Aggregate)
        }
        _ => {
            let signature = cluster.scheme.combine(form, &shares).unwrap();
            joined(claimed, &signers.map(|at| at as u16), signature, form)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Clients, replicas and certificates in one list: each verdict is the same as alone.
    #[test]
    fn the_verdict_on_each_does_not_depend_on_the_others(
        items in prop::collection::vec((0..4u8, 0..4u8, 0..3u8, prop::bool::weighted(0.3)), 0..12),
    ) {
        let client = SecretKey::from_seed(&[9; 32]);
        for name in signing() {
            let cluster = Cluster::new(name, 4);
            let checks: Vec<_> = items.iter().map(|item| check(&cluster, &client, *item)).collect();
            let expected: Vec<_> = items.iter().map(|(.., bad)| !bad).collect();
            prop_assert_eq!(&cluster.verify(&checks), &expected);
            let alone: Vec<_> =
                checks.iter().map(|one| cluster.verify(std::slice::from_ref(one))[0]).collect();
            prop_assert_eq!(&alone, &expected);
        }
    }
}
