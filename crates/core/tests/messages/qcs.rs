//! Quorum certificates: refused for each reason, in each form.

use quorate_core::base::crypto::{ClientSigner as _, Form, Signature};
use quorate_core::base::membership::{Committee, ReplicaKey};
use quorate_core::base::wire::Decode;
use quorate_core::protocols::hotstuff::certificate::{Domain, Qc};
use quorate_core::protocols::protocol::Malformed;
use quorate_core::{Digest, Epoch, View};

use crate::cluster::keys::{CHAIN, Key, committee};
use crate::forge::{FORMS, RawProof, RawQc, Verdict, bitmap, domain, genesis, sign};

const BLOCK: Digest = Digest([3; 32]);
const BALLOT: (u64, u8, Digest) = (5, 1, BLOCK);

/// Every form, for four replicas and one phase a view, with a certificate of three that holds.
fn each_form(test: impl Fn(&Domain, RawQc)) {
    for forms in FORMS {
        let domain = domain(4, forms);
        let good = RawQc::signed(&domain, BALLOT, &[0, 1, 3]);
        assert_eq!(Verdict::of_qc(&domain, &good), Verdict::Good, "{forms:?}");
        test(&domain, good);
    }
}

fn unread(domain: &Domain, qc: &RawQc, reason: Malformed) {
    assert_eq!(Verdict::of_qc(domain, qc), Verdict::Unread(reason), "{qc:?}");
}

fn bad_signature(domain: &Domain, qc: &RawQc) {
    assert_eq!(Verdict::of_qc(domain, qc), Verdict::BadSignature, "{qc:?}");
}

/// The signature or, of a list, the first one.
fn signature_of(qc: &mut RawQc) -> &mut Signature {
    match &mut qc.proof {
        RawProof::List(signatures) => &mut signatures[0].1,
        RawProof::Aggregate(_, signature) | RawProof::Threshold(signature) => signature,
    }
}

#[test]
fn more_than_a_quorum_is_as_good() {
    for forms in FORMS {
        for (n, signers) in [(4, 0..4), (5, 0..4), (7, 1..7), (1, 0..1)] {
            let domain = domain(n, forms);
            let qc = RawQc::signed(&domain, BALLOT, &signers.collect::<Vec<u16>>());
            assert_eq!(Verdict::of_qc(&domain, &qc), Verdict::Good, "{n} replicas, {forms:?}");
        }
    }
}

#[test]
fn too_few_signers_are_no_quorum() {
    for form in [Form::List, Form::Aggregate] {
        for (n, quorum) in [(4u16, 3), (5, 4), (6, 5), (7, 5)] {
            let domain = domain(n.into(), (form, form));
            for count in 0..quorum {
                let signers: Vec<u16> = (0..count).collect();
                unread(&domain, &RawQc::signed(&domain, BALLOT, &signers), Malformed::NoQuorum);
            }
        }
    }
}

/// An empty set with the signature that joining nothing gives: the point at infinity, where curves
/// are used.
#[test]
fn an_empty_set_of_signers_is_no_quorum_whatever_the_signature() {
    let domain = domain(4, (Form::Aggregate, Form::Aggregate));
    for signature in
        [Signature::NONE, Signature::from([0; 64]), sign(0, &domain.vote(View(5), 1, &BLOCK))]
    {
        let proof = RawProof::Aggregate(Vec::new(), signature);
        let qc = RawQc { view: 5, phase: 1, block: BLOCK, proof };
        unread(&domain, &qc, Malformed::NoQuorum);
    }
}

#[test]
fn strangers_do_not_sign() {
    for form in [Form::List, Form::Aggregate] {
        let domain = domain(4, (form, form));
        for signers in [[0, 1, 4], [0, 1, 7], [0, 1, 8], [0, 1, 255], [4, 5, 6]] {
            let qc = RawQc::signed(&domain, BALLOT, &signers);
            unread(&domain, &qc, Malformed::UnknownSigner);
        }
        // A quorum of members and a stranger.
        let qc = RawQc::signed(&domain, BALLOT, &[0, 1, 2, 3, 4]);
        unread(&domain, &qc, Malformed::UnknownSigner);
    }
    let domain = domain(4, FORMS[0]);
    let qc = RawQc::signed(&domain, BALLOT, &[0, 1, u16::MAX]);
    unread(&domain, &qc, Malformed::UnknownSigner);
}

#[test]
fn nobody_signs_twice() {
    let domain = domain(4, FORMS[0]);
    for signers in [vec![0, 1, 1], vec![0, 0, 1], vec![2, 2, 2], vec![0, 1, 3, 3], vec![0, 1, 2, 0]]
    {
        let qc = RawQc::signed(&domain, BALLOT, &signers);
        unread(&domain, &qc, Malformed::UnorderedSigners);
    }
    // Nor in another order: one certificate, one encoding.
    unread(&domain, &RawQc::signed(&domain, BALLOT, &[1, 0, 2]), Malformed::UnorderedSigners);
    unread(&domain, &RawQc::signed(&domain, BALLOT, &[3, 2, 1]), Malformed::UnorderedSigners);
}

#[test]
fn a_signature_stands_for_its_signer_alone() {
    let domain = domain(4, FORMS[0]);
    let good = RawQc::signed(&domain, BALLOT, &[0, 1, 3]);
    let RawProof::List(signatures) = &good.proof else { panic!("a list") };
    // Another's, and two of them exchanged.
    for (at, other) in [(0, 1), (1, 0), (2, 1)] {
        let mut qc = good.clone();
        let mut changed = signatures.clone();
        changed[at].1 = signatures[other].1;
        qc.proof = RawProof::List(changed.clone());
        bad_signature(&domain, &qc);
        changed[other].1 = signatures[at].1;
        qc.proof = RawProof::List(changed);
        bad_signature(&domain, &qc);
    }
    // Of a member that signed nothing.
    let mut changed = signatures.clone();
    changed[2].0 = 2;
    bad_signature(&domain, &RawQc { proof: RawProof::List(changed), ..good });
}

#[test]
fn the_set_of_signers_is_that_of_the_signature() {
    let domain = domain(7, (Form::Aggregate, Form::Aggregate));
    let good = RawQc::signed(&domain, BALLOT, &[0, 1, 2, 4, 5, 6]);
    let RawProof::Aggregate(_, signature) = good.proof else { panic!("an aggregate") };
    let sets: [&[u16]; 4] =
        [&[0, 1, 2, 3, 4, 5, 6], &[0, 1, 2, 4, 5], &[0, 1, 2, 3, 5, 6], &[0, 1, 2, 3, 4]];
    for signers in sets {
        let proof = RawProof::Aggregate(bitmap(signers), signature);
        bad_signature(&domain, &RawQc { proof, ..good.clone() });
    }
}

#[test]
fn a_set_of_signers_has_one_encoding() {
    let domain = domain(4, (Form::Aggregate, Form::Aggregate));
    let mut qc = RawQc::signed(&domain, BALLOT, &[0, 1, 3]);
    let RawProof::Aggregate(signers, _) = &mut qc.proof else { panic!("an aggregate") };
    signers.push(0);
    assert!(Qc::from_bytes(qc.bytes().into()).is_err(), "a zero at the end");
    let RawProof::Aggregate(signers, _) = &mut qc.proof else { panic!("an aggregate") };
    signers.resize(33, 1);
    assert!(Qc::from_bytes(qc.bytes().into()).is_err(), "more than any committee has");
}

#[test]
fn view_phase_and_block_are_signed() {
    each_form(|domain, good| {
        for view in [1, 4, 6, u64::MAX] {
            bad_signature(domain, &RawQc { view, ..good.clone() });
        }
        bad_signature(domain, &RawQc { block: Digest([4; 32]), ..good.clone() });
        bad_signature(domain, &RawQc { block: genesis(), ..good });
    });
}

#[test]
fn phases_are_those_of_the_protocol_and_no_vote_counts_in_another() {
    for forms in FORMS {
        for phases in 1..=4 {
            let domain = domain(4, forms).with_phases(phases);
            for phase in 1..=phases {
                let qc = RawQc::signed(&domain, (5, phase, BLOCK), &[0, 1, 2]);
                assert_eq!(Verdict::of_qc(&domain, &qc), Verdict::Good, "{phase} of {phases}");
                for other in (1..=phases).filter(|other| *other != phase) {
                    bad_signature(&domain, &RawQc { phase: other, ..qc.clone() });
                }
            }
            for phase in [0, phases + 1, 255] {
                let qc = RawQc::signed(&domain, (5, phase, BLOCK), &[0, 1, 2]);
                unread(&domain, &qc, Malformed::WrongPhase);
            }
        }
    }
}

#[test]
fn certificates_of_another_form_are_refused_though_they_hold() {
    for forms in FORMS {
        let domain = domain(4, forms);
        for form in [Form::List, Form::Aggregate, Form::Threshold] {
            let qc = RawQc::in_form(form, &domain, BALLOT, &[0, 1, 2]);
            let expected =
                if form == forms.0 { Verdict::Good } else { Verdict::Unread(Malformed::WrongForm) };
            assert_eq!(Verdict::of_qc(&domain, &qc), expected, "{form:?} under {forms:?}");
        }
    }
}

#[test]
fn signatures_of_another_scheme_or_of_nobody_do_not_hold() {
    each_form(|domain, good| {
        let holds = *signature_of(&mut good.clone());
        let shorter = |length: usize| {
            Signature::new(&holds.as_bytes()[..length]).expect("shorter than the longest")
        };
        let mut flipped = holds.as_bytes().to_vec();
        flipped[63] ^= 0x80;
        let others = [
            Signature::NONE,
            Signature::from([0; 64]),
            Signature::from([0xFF; 64]),
            // As long as one of BLS12-381, and as one in its other group would not even be.
            shorter(48),
            shorter(63),
            Signature::new(&flipped).expect("as long"),
        ];
        for other in others {
            let mut qc = good.clone();
            *signature_of(&mut qc) = other;
            bad_signature(domain, &qc);
        }
    });
}

/// Domains that differ from `domain` in one thing each.
pub fn elsewhere(forms: (Form, Form)) -> Vec<Domain> {
    let keys = || {
        let key = |id| ReplicaKey::from(Key::of_replica(id).public_key().0);
        (0..4).map(key).collect()
    };
    let other_chain = Committee::new(Digest([1; 32]), Epoch(0), keys()).expect("a committee");
    let other_epoch = Committee::new(CHAIN, Epoch(1), keys()).expect("a committee");
    [Domain::new(other_chain, 1), Domain::new(other_epoch, 1), Domain::new(committee(4), 2)]
        .map(|domain| domain.with_forms(forms.0, forms.1))
        .to_vec()
}

#[test]
fn certificates_of_another_chain_epoch_or_protocol_do_not_hold() {
    each_form(|domain, _| {
        for elsewhere in elsewhere((domain.vote_form(), domain.time_out_form())) {
            let qc = RawQc::signed(&elsewhere, BALLOT, &[0, 1, 2]);
            assert_eq!(Verdict::of_qc(&elsewhere, &qc), Verdict::Good);
            bad_signature(domain, &qc);
        }
    });
}

#[test]
fn votes_of_different_views_phases_or_blocks_make_no_certificate() {
    let domain = domain(4, FORMS[0]).with_phases(3);
    let signed = |ballot| match RawQc::signed(&domain, ballot, &[0, 1, 2]).proof {
        RawProof::List(signatures) => signatures,
        _ => panic!("a list"),
    };
    let same = signed((5, 2, BLOCK));
    for other in [(6, 2, BLOCK), (4, 2, BLOCK), (5, 1, BLOCK), (5, 3, BLOCK), (5, 2, genesis())] {
        for at in 0..3 {
            let mut mixed = same.clone();
            mixed[at] = signed(other)[at];
            let proof = RawProof::List(mixed);
            bad_signature(&domain, &RawQc { view: 5, phase: 2, block: BLOCK, proof });
        }
    }
}

#[test]
fn time_outs_and_testimonies_are_no_votes() {
    let domain = domain(4, FORMS[0]);
    let statements = [
        domain.time_out(View(5), View(3), &BLOCK),
        domain.testimony(View(5), &BLOCK),
        quorate_core::base::crypto::Statement::frame(&CHAIN, &BLOCK),
    ];
    for statement in statements {
        let signatures = (0..3).map(|signer| (signer, sign(signer, &statement))).collect();
        let proof = RawProof::List(signatures);
        bad_signature(&domain, &RawQc { view: 5, phase: 1, block: BLOCK, proof });
    }
}

#[test]
fn view_zero_has_the_genesis_certificate_alone() {
    for forms in FORMS {
        let domain = domain(4, forms).with_phases(2);
        let good = RawQc::genesis();
        assert_eq!(Verdict::of_qc(&domain, &good), Verdict::Good);
        let empty_set = RawProof::Aggregate(Vec::new(), Signature::NONE);
        let others = [
            RawQc { block: BLOCK, ..good.clone() },
            RawQc { block: CHAIN, ..good.clone() },
            RawQc { phase: 1, ..good.clone() },
            RawQc { proof: empty_set, ..good.clone() },
            RawQc { proof: RawProof::Threshold(Signature::NONE), ..good.clone() },
            RawQc::signed(&domain, (0, 0, genesis()), &[0, 1, 2]),
            RawQc::signed(&domain, (0, 1, genesis()), &[0, 1, 2]),
        ];
        for qc in others {
            unread(&domain, &qc, Malformed::NotGenesis);
        }
        // Nor is it one of a later view.
        assert_ne!(Verdict::of_qc(&domain, &RawQc { view: 1, ..good.clone() }), Verdict::Good);
        unread(&domain, &RawQc { view: 1, ..good }, Malformed::WrongPhase);
    }
}

#[test]
fn a_certificate_tells_who_signed_unless_it_is_of_the_committee() {
    for forms in FORMS {
        let domain = domain(7, forms);
        let qc = RawQc::signed(&domain, BALLOT, &[0, 1, 3, 4, 6]).build();
        let signers: Vec<u16> = qc.signers().map(|signer| signer.0).collect();
        if forms.0 == Form::Threshold {
            assert!(signers.is_empty());
        } else {
            assert_eq!(signers, [0, 1, 3, 4, 6]);
        }
    }
}
