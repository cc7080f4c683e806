//! Quorum arithmetic, for every size of a committee up to 32, counted out.

use quorate_core::base::crypto::{Form, Signature, Signers};
use quorate_core::base::membership::{self, Committee, CommitteeError, Membership, ReplicaKey};
use quorate_core::base::wire::{Decode, Encode};
use quorate_core::protocols::hotstuff::certificate::{Domain, Qc, Vote};
use quorate_core::protocols::hotstuff::pacemaker::{Consequence, End, Kind, Pacemaker, Timing};
use quorate_core::protocols::hotstuff::votes::VoteCollector;
use quorate_core::protocols::protocol::{Ballot, Malformed};
use quorate_core::{Digest, Epoch, ReplicaId, Time, View};

use crate::cluster::adversary::Liar;
use crate::cluster::keys::{CHAIN, committee};

/// The most that may lie among n: fewer than a third.
fn most_liars(n: usize) -> usize {
    (0..n).rev().find(|liars| 3 * liars < n).expect("none at least")
}

#[test]
fn two_quorums_share_a_correct_replica_and_the_correct_ones_are_a_quorum() {
    for n in 1..=32 {
        let committee = committee(n);
        let (f, q) = (committee.faults(), committee.quorum());
        assert_eq!(f, most_liars(n), "n = {n}");
        assert!(n - f >= q, "the correct ones alone, n = {n}");
        // Two sets of q share 2q − n at least.
        assert!(2 * q - n > f, "n = {n}");
        assert_eq!(committee.honest_witness(), f + 1, "n = {n}");
        assert_eq!(committee.replicas().count(), n);
        assert!(
            committee.contains(ReplicaId(n as u16 - 1)) && !committee.contains(ReplicaId(n as u16))
        );
    }
}

/// What Frosty's argument rests on, and that the least such number is taken.
#[test]
fn where_fewer_than_a_fifth_lie_those_that_agree_are_most_of_any_such_set() {
    for n in 1..=256 {
        let f = (0..n).rev().find(|liars| 5 * liars < n).expect("none at least");
        assert_eq!(membership::faults_of_a_fifth(n), f, "n = {n}");
        let (a, q) = (membership::quorum_of_a_fifth(n), membership::quorum(n));
        assert!(a <= n - f && a >= q && 2 * a > n + f, "n = {n}");
        assert_eq!(membership::witness_of_a_fifth(n), f + 1, "n = {n}");
        // Of a − f that agree, n − a may be missing.
        let outnumber = |a: usize| 2 * a > n + f && 2 * a - n - f > n + f - a;
        assert!(outnumber(a) && !outnumber(a - 1), "n = {n}");
        let committee = committee(n.min(64));
        if n <= 64 {
            let counted = (committee.quorum_of_a_fifth(), committee.witness_of_a_fifth());
            assert_eq!(counted, (a, f + 1));
        }
    }
}

#[test]
fn two_quorums_of_small_committees_counted_one_by_one() {
    for n in 1..=8usize {
        let committee = committee(n);
        let quorums: Vec<u32> =
            (0..1u32 << n).filter(|set| set.count_ones() as usize == committee.quorum()).collect();
        for one in &quorums {
            for other in &quorums {
                let shared = (one & other).count_ones() as usize;
                assert!(shared > committee.faults(), "{one:b} and {other:b} of {n}");
            }
        }
    }
}

#[test]
fn a_committee_has_1_to_256_replicas_of_different_keys() {
    let key = |byte: u16| ReplicaKey::new(&byte.to_le_bytes()).expect("two bytes");
    let with = |keys: Vec<ReplicaKey>| Committee::new(CHAIN, Epoch(3), keys);
    assert_eq!(with(Vec::new()), Err(CommitteeError::Size(0)));
    let keys = |n| (0..n).map(key).collect::<Vec<_>>();
    assert_eq!(with(keys(257)), Err(CommitteeError::Size(257)));
    let largest = with(keys(256)).expect("as many as there may be");
    assert_eq!((largest.size(), largest.faults(), largest.quorum()), (256, 85, 171));
    assert_eq!(largest.key(ReplicaId(255)), Some(&key(255)));
    assert_eq!(largest.key(ReplicaId(256)), None);
    assert_eq!((largest.chain(), largest.epoch()), (CHAIN, Epoch(3)));
    let shared = with(vec![key(1), key(2), key(1)]);
    assert_eq!(shared, Err(CommitteeError::SharedKey(ReplicaId(0), ReplicaId(2))));
}

#[test]
fn a_key_is_up_to_96_bytes_and_shown_in_hexadecimal() {
    let key = ReplicaKey::new(&[0xAB, 0x01, 0xFF, 0x00, 0x7E]).expect("five bytes");
    assert_eq!(key.as_bytes(), [0xAB, 0x01, 0xFF, 0x00, 0x7E]);
    assert_eq!((key.to_string(), format!("{key:?}")), ("ab01ff007e".into(), "ab01ff00".into()));
    assert!(ReplicaKey::new(&[0; 96]).is_some());
    assert!(ReplicaKey::new(&[0; 97]).is_none());
}

/// A certificate of the first `count` replicas, in the form that `proof` writes.
fn certificate(count: usize, form: Form) -> Qc {
    let mut bytes = Ballot { view: View(1), phase: 1, block: Digest([1; 32]) }.to_bytes();
    let signers = (0..count as u16).map(ReplicaId);
    match form {
        Form::List => {
            bytes.push(1);
            (count as u32).encode(&mut bytes);
            for signer in signers {
                (signer, Signature::NONE).encode(&mut bytes);
            }
        }
        Form::Aggregate => {
            bytes.push(2);
            signers.collect::<Signers>().encode(&mut bytes);
            Signature::NONE.encode(&mut bytes);
        }
        Form::Threshold => {
            bytes.push(3);
            Signature::NONE.encode(&mut bytes);
        }
    }
    Qc::from_bytes(bytes.into()).expect("a certificate")
}

#[test]
fn certificates_need_a_quorum_at_every_size() {
    for n in 1..=32 {
        let quorum = n - most_liars(n);
        for form in [Form::List, Form::Aggregate] {
            let domain = Domain::new(committee(n), 1).with_forms(form, form);
            for count in 0..=n + 1 {
                let refused = certificate(count, form).checks(&domain, &Digest([0; 32])).err();
                let expected = match count {
                    count if count > n => Some(Malformed::UnknownSigner),
                    count if count < quorum => Some(Malformed::NoQuorum),
                    _ => None,
                };
                assert_eq!(refused, expected, "{count} of {n}, {form:?}");
            }
        }
    }
}

#[test]
fn votes_are_verified_when_they_are_a_quorum_at_every_size() {
    let ballot = Ballot { view: View(1), phase: 1, block: Digest([1; 32]) };
    for n in 1..=32 {
        let mut votes = VoteCollector::new(&committee(n));
        let quorum = n - most_liars(n);
        for id in 0..n {
            let vote = Vote { ballot, voter: ReplicaId(id as u16), signature: Signature::NONE };
            let complete = votes.add(vote).map(|votes| votes.len());
            assert_eq!(complete, (id + 1 >= quorum).then_some(id + 1), "{} of {n}", id + 1);
        }
        let stranger = Vote { ballot, voter: ReplicaId(n as u16), signature: Signature::NONE };
        assert_eq!(votes.add(stranger), None);
    }
}

#[test]
fn time_outs_are_joined_by_f_plus_1_and_certified_by_q_at_every_size() {
    let genesis = Qc::genesis(Digest([0; 32]));
    for n in 1..=32 {
        let committee = committee(n);
        let domain = Domain::new(committee.clone(), 1);
        let timing = Timing::default();
        let mut pacemaker = Pacemaker::new(&committee, Kind::TimeoutCertificates, timing, 3);
        pacemaker.certified(Time(0), View(4), End::Certified, [ReplicaId(0); 2]);
        let (quorum, witnesses) = (n - most_liars(n), most_liars(n) + 1);
        for id in 0..n {
            let liar = Liar { id, domain: domain.clone(), to: 0 };
            let time_out = liar.time_out(View(5), &genesis);
            let count = id + 1;
            match pacemaker.time_out(time_out, genesis.clone(), View(4)) {
                Consequence::Certificate(time_outs) => {
                    assert!(count >= quorum, "{count} of {n}");
                    assert_eq!(time_outs.len(), quorum);
                }
                Consequence::Join(view) => {
                    assert!((witnesses..quorum).contains(&count), "{count} of {n}");
                    assert_eq!(view, View(5));
                }
                Consequence::None => assert!(count < witnesses, "{count} of {n}"),
            }
        }
    }
}

#[test]
fn a_set_of_signers_lists_its_members_in_order() {
    for ids in [vec![], vec![0], vec![63, 64], vec![0, 1, 2, 127, 128, 255], (0..256).collect()] {
        let set: Signers = ids.iter().rev().map(|id| ReplicaId(*id)).collect();
        let listed: Vec<u16> = set.iter().map(|id| id.0).collect();
        assert_eq!(listed, ids);
        assert_eq!((set.len(), set.is_empty()), (ids.len(), ids.is_empty()));
    }
    let outside: Signers = [ReplicaId(256), ReplicaId(u16::MAX)].into_iter().collect();
    assert_eq!(outside.iter().count(), 0);
}

#[test]
fn a_chain_has_a_committee_for_each_epoch_that_has_begun() {
    let of = |chain, epoch, n: u8| {
        let keys = (1..=n).map(|byte| ReplicaKey::from([byte; 32])).collect();
        Committee::new(chain, Epoch(epoch), keys).expect("different keys")
    };
    let mut membership = Membership::new(of(CHAIN, 3, 4));
    assert_eq!(membership.committee(Epoch(3)), Some(&of(CHAIN, 3, 4)));
    for unfit in [of(CHAIN, 3, 7), of(CHAIN, 5, 7), of(Digest::default(), 4, 7)] {
        assert_eq!(membership.begin(unfit), None);
    }
    assert_eq!(membership.latest().size(), 4);
    assert_eq!(membership.begin(of(CHAIN, 4, 7)), Some(&of(CHAIN, 4, 7)));
    assert_eq!((membership.latest().quorum(), membership.latest().faults()), (5, 2));
    let sizes = [2, 3, 4, 5].map(|at| membership.committee(Epoch(at)).map(Committee::size));
    assert_eq!(sizes, [None, Some(4), Some(7), None]);
}

#[test]
fn every_member_counts_once_and_nobody_else_at_all() {
    let committee = committee(7);
    let weights = (0..9).map(|id| committee.weight(ReplicaId(id)));
    assert_eq!(weights.collect::<Vec<_>>(), [1, 1, 1, 1, 1, 1, 1, 0, 0]);
}
