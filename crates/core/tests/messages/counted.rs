//! What is refused is counted by its reason, changes nothing, and keeps nobody from working.

use std::collections::BTreeMap;
use std::sync::Arc;

use quorate_core::base::crypto::{Form, Signature};
use quorate_core::protocols::hotstuff::Message;
use quorate_core::protocols::hotstuff::block::{Block, Content};
use quorate_core::protocols::hotstuff::certificate::Vote;
use quorate_core::protocols::hotstuff::rules::{Fast, Rules, TwoChain};
use quorate_core::protocols::hotstuff::testimony::Testimony;
use quorate_core::protocols::protocol::Malformed;
use quorate_core::replica::Refused;
use quorate_core::replica::message::PeerMessage;
use quorate_core::{Digest, Epoch, Height, ReplicaId, View};

use crate::cluster::{Cluster, Config, Peer, status_of};
use crate::forge::{FORMS, RawProof, RawQc, RawTc, vote};

const BLOCK: Digest = Digest([3; 32]);

/// A cluster that has worked and has nothing to do.
fn idle(config: Config) -> Cluster {
    let mut cluster = Cluster::new(config);
    cluster.request(0, 1, 10);
    assert!(cluster.run_until_answered(2_000_000));
    cluster.run_for(1_000_000);
    assert_eq!(cluster.in_flight(), 0);
    cluster.refused.clear();
    cluster
}

/// Replica 2 refuses it, for this reason; nothing else happens.
fn refused(cluster: &mut Cluster, from: usize, message: &Peer, reason: Refused) {
    let before = (status_of(cluster.core(2)), cluster.core(2).protocol().safety().clone());
    cluster.refused.clear();
    cluster.inject(from, 2, message);
    cluster.run_for(100);
    assert_eq!(cluster.refused, BTreeMap::from([(reason, 1)]), "{message:?}");
    let after = (status_of(cluster.core(2)), cluster.core(2).protocol().safety().clone());
    assert_eq!(before, after, "{message:?}");
    assert_eq!(cluster.in_flight(), 0, "it led to something: {message:?}");
}

fn works(cluster: &mut Cluster) {
    cluster.request(0, 3, 10);
    assert!(cluster.run_until_answered(2_000_000));
}

fn advance(qc: &RawQc, tc: Option<&RawTc>) -> Peer {
    let (high_qc, high_tc) = (qc.build(), tc.map(RawTc::build));
    PeerMessage::of(Message::Advance { high_qc, high_tc, decided: None, is_answer: false })
}

#[test]
fn bad_quorum_certificates_are_counted_by_reason() {
    for forms in FORMS {
        let mut cluster = idle(Config { forms, ..Config::default() });
        let domain = cluster.config.domain();
        let signed = |ballot, signers: &[u16]| RawQc::signed(&domain, ballot, signers);
        let good = signed((90, 1, BLOCK), &[0, 1, 2]);
        let other_form = if forms.0 == Form::List { Form::Aggregate } else { Form::List };
        let mut bad = vec![
            (RawQc { phase: 2, ..good.clone() }, Malformed::WrongPhase),
            (RawQc { phase: 0, ..good.clone() }, Malformed::WrongPhase),
            (RawQc { view: 0, ..good.clone() }, Malformed::NotGenesis),
            (RawQc::in_form(other_form, &domain, (90, 1, BLOCK), &[0, 1, 2]), Malformed::WrongForm),
        ];
        if forms.0 != Form::Threshold {
            bad.push((signed((90, 1, BLOCK), &[0, 1]), Malformed::NoQuorum));
            bad.push((signed((90, 1, BLOCK), &[]), Malformed::NoQuorum));
            bad.push((signed((90, 1, BLOCK), &[0, 1, 5]), Malformed::UnknownSigner));
        }
        if forms.0 == Form::List {
            bad.push((signed((90, 1, BLOCK), &[0, 1, 1]), Malformed::UnorderedSigners));
        }
        for (qc, reason) in bad {
            refused(&mut cluster, 1, &advance(&qc, None), Refused::Malformed(reason));
        }
        for other in [
            RawQc { view: 91, ..good.clone() },
            RawQc { block: Digest([4; 32]), ..good.clone() },
            with_signature(&good, Signature::NONE),
            with_signature(&good, Signature::new(&[9; 48]).expect("short enough")),
        ] {
            refused(&mut cluster, 1, &advance(&other, None), Refused::BadSignature);
        }
        works(&mut cluster);
    }
}

fn with_signature(qc: &RawQc, other: Signature) -> RawQc {
    let mut qc = qc.clone();
    match &mut qc.proof {
        RawProof::List(signatures) => signatures[1].1 = other,
        RawProof::Aggregate(_, signature) | RawProof::Threshold(signature) => *signature = other,
    }
    qc
}

#[test]
fn bad_time_out_certificates_are_counted_by_reason() {
    for (forms, carries_all) in FORMS.into_iter().flat_map(|f| [(f, false), (f, true)]) {
        let rules: &dyn Rules = if carries_all { &Fast } else { &TwoChain };
        let mut cluster = idle(Config { forms, rules, ..Config::default() });
        let domain = cluster.config.domain();
        let qc = |view| RawQc::signed(&domain, (view, 1, BLOCK), &[0, 1, 2]);
        let (own, genesis) = (qc(80), RawQc::genesis());
        let with = |signers: &[u16], views: &[u64]| {
            let time_outs: Vec<_> =
                signers.iter().zip(views).map(|(id, view)| (*id, *view, own.clone())).collect();
            RawTc::signed(&domain, 90, &time_outs)
        };
        let good = with(&[0, 1, 3], &[90; 3]);
        let mut hidden = good.clone();
        hidden.qcs[0] = qc(70);
        let mut unsigned = good.clone();
        unsigned.signatures.clear();
        let bad = [
            (with(&[0, 1], &[90; 2]), Malformed::NoQuorum),
            (with(&[0, 1, 1], &[90; 3]), Malformed::UnorderedSigners),
            (with(&[0, 1, 4], &[90; 3]), Malformed::UnknownSigner),
            (hidden, Malformed::Contradiction),
            (RawTc { qcs: vec![own.clone(); 2], ..good.clone() }, Malformed::Contradiction),
            (unsigned, Malformed::WrongForm),
        ];
        for (tc, reason) in bad {
            refused(&mut cluster, 1, &advance(&genesis, Some(&tc)), Refused::Malformed(reason));
        }
        let mixed = with(&[0, 1, 3], &[90, 89, 90]);
        refused(&mut cluster, 1, &advance(&genesis, Some(&mixed)), Refused::BadSignature);
        works(&mut cluster);
    }
}

#[test]
fn messages_that_do_not_become_their_sender_are_counted_by_reason() {
    let mut cluster = idle(Config::default());
    let domain = cluster.config.domain();
    let genesis = RawQc::genesis();
    let own_vote = vote(&domain, 1, 90, 1, BLOCK);
    let block = |change: &dyn Fn(&mut Content)| {
        let mut content = Content {
            epoch: Epoch(0),
            view: View(1),
            height: Height(1),
            proposer: ReplicaId(1),
            justify: genesis.build(),
            state_root: Digest::default(),
            frames: Vec::new(),
        };
        change(&mut content);
        Message::Proposal { block: Arc::new(Block::new(content)), tc: None }
    };
    let late = Vote { ballot: vote(&domain, 1, 1, 1, BLOCK).ballot, ..own_vote };
    let malformed = [
        (Message::Vote(Vote { voter: ReplicaId(3), ..own_vote }), Malformed::WrongSender),
        (Message::Vote(late), Malformed::Stale),
        (Message::Vote(vote(&domain, 1, 90, 2, BLOCK)), Malformed::WrongPhase),
        (Message::Certificate(genesis.build()), Malformed::WrongPhase),
        (Message::NewView { view: View(1), high_qc: genesis.build() }, Malformed::Stale),
        (Message::NewView { view: View(0), high_qc: genesis.build() }, Malformed::Stale),
        (block(&|block| block.epoch = Epoch(3)), Malformed::WrongEpoch),
        (block(&|block| block.proposer = ReplicaId(3)), Malformed::WrongSender),
        (block(&|block| block.view = View(2)), Malformed::WrongSender),
        (block(&|_| {}), Malformed::Stale),
        (
            block(&|block| {
                block.view = View(5);
                block.height = Height(90);
            }),
            Malformed::Contradiction,
        ),
    ];
    for (message, reason) in malformed {
        let message = PeerMessage::of(message);
        refused(&mut cluster, 1, &message, Refused::Malformed(reason));
    }
    let unasked = PeerMessage::Chain(Vec::new());
    refused(&mut cluster, 1, &unasked, Refused::Unasked);
    works(&mut cluster);
}

/// A replica that lost its data asks for the high QCs of the others. A certificate of second votes
/// is none: nothing could be built upon it.
#[test]
fn a_testimony_rests_on_a_certificate_that_can_be_built_upon() {
    let config = Config { rules: &TwoChain, second_vote: true, ..Config::default() };
    let mut cluster = idle(config);
    let domain = cluster.config.domain();
    let height = cluster.core(2).protocol().tree().root().clone();
    cluster.crash(2);
    cluster.network.partition(|slot| usize::from(slot == 2));
    cluster.rejoin(2, 7);
    cluster.run_for(10_000);
    let testimony = |phase| {
        let ballot = (height.view.0, phase, height.id());
        let testimony = Testimony {
            view: height.view,
            high_qc: RawQc::signed(&domain, ballot, &[0, 1, 3]).build(),
            high_tc: None,
        };
        PeerMessage::Testimony { nonce: Digest([7; 32]), testimony, signature: Signature::NONE }
    };
    cluster.refused.clear();
    for (phase, reason) in [
        (1, Refused::BadSignature),
        (2, Refused::Malformed(Malformed::WrongPhase)),
        (3, Refused::Malformed(Malformed::WrongPhase)),
    ] {
        cluster.inject(1, 2, &testimony(phase));
        cluster.run_for(100);
        let counted = std::mem::take(&mut cluster.refused);
        assert_eq!(counted, BTreeMap::from([(reason, 1)]), "phase {phase}");
    }
    cluster.network.heal();
    assert!(cluster.run_until(5_000_000, |cluster| !cluster.core(2).is_rejoining()));
    works(&mut cluster);
}

#[test]
fn the_same_messages_are_refused_wherever_they_come_from() {
    let mut cluster = idle(Config::default());
    let domain = cluster.config.domain();
    let bad = RawQc::signed(&domain, (90, 1, BLOCK), &[0, 1]);
    for from in [0, 1, 3] {
        let reason = Refused::Malformed(Malformed::NoQuorum);
        refused(&mut cluster, from, &advance(&bad, None), reason);
        refused(&mut cluster, from, &advance(&bad, None), reason);
    }
    works(&mut cluster);
}
