//! Time-out certificates: refused for each reason, in each form.

use quorate_core::base::crypto::{Form, Signature};
use quorate_core::base::wire::Decode;
use quorate_core::protocols::hotstuff::certificate::{Domain, Tc};
use quorate_core::protocols::protocol::Malformed;
use quorate_core::{Digest, View};

use crate::forge::{FORMS, RawProof, RawQc, RawTc, Verdict, domain, genesis, sign};
use crate::qcs::elsewhere;

const BLOCK: Digest = Digest([3; 32]);

/// Certificates of views 5, 3 and 0.
fn known(domain: &Domain) -> [RawQc; 3] {
    let qc = |view| RawQc::signed(domain, (view, 1, BLOCK), &[0, 1, 2]);
    [qc(5), qc(3), RawQc::genesis()]
}

/// Of view 7, by replicas 0, 1 and 3, with the certificates of [`known`].
fn signed(domain: &Domain, views: [u64; 3]) -> RawTc {
    let signers = [0, 1, 3];
    let time_outs: Vec<(u16, u64, RawQc)> =
        (0..3).map(|at| (signers[at], views[at], known(domain)[at].clone())).collect();
    RawTc::signed(domain, 7, &time_outs)
}

fn each_form(test: impl Fn(&Domain, RawTc)) {
    for forms in FORMS {
        let domain = domain(4, forms);
        let good = signed(&domain, [7; 3]);
        assert_eq!(Verdict::of_tc(&domain, &good), Verdict::Good, "{forms:?}");
        test(&domain, good);
    }
}

fn unread(domain: &Domain, tc: &RawTc, reason: Malformed) {
    assert_eq!(Verdict::of_tc(domain, tc), Verdict::Unread(reason), "{tc:?}");
}

fn bad_signature(domain: &Domain, tc: &RawTc) {
    assert_eq!(Verdict::of_tc(domain, tc), Verdict::BadSignature, "{tc:?}");
}

#[test]
fn time_outs_of_several_views_make_no_certificate() {
    each_form(|domain, _| {
        for views in [[6, 7, 7], [7, 7, 6], [7, 8, 7], [6, 6, 6], [8, 8, 8], [5, 6, 7]] {
            bad_signature(domain, &signed(domain, views));
        }
    });
}

#[test]
fn signers_are_a_quorum_of_members_each_once_and_in_order() {
    each_form(|domain, good| {
        let with = |signers: &[u16]| {
            let [qc, ..] = known(domain);
            let time_outs: Vec<_> = signers.iter().map(|id| (*id, 7, qc.clone())).collect();
            RawTc::signed(domain, 7, &time_outs)
        };
        assert_eq!(Verdict::of_tc(domain, &with(&[0, 1, 2, 3])), Verdict::Good);
        unread(domain, &with(&[0, 1]), Malformed::NoQuorum);
        unread(domain, &with(&[2]), Malformed::NoQuorum);
        unread(domain, &with(&[0, 1, 1]), Malformed::UnorderedSigners);
        unread(domain, &with(&[0, 0, 0]), Malformed::UnorderedSigners);
        unread(domain, &with(&[0, 3, 1]), Malformed::UnorderedSigners);
        unread(domain, &with(&[0, 1, 4]), Malformed::UnknownSigner);
        unread(domain, &with(&[0, 1, 2, u16::MAX]), Malformed::UnknownSigner);
        let nobody = RawTc { entries: Vec::new(), signatures: Vec::new(), ..good };
        unread(domain, &nobody, Malformed::NoQuorum);
    });
}

#[test]
fn its_qc_is_the_highest_that_was_signed() {
    each_form(|domain, good| {
        let [_, lower, genesis] = known(domain);
        let higher = RawQc::signed(domain, (6, 1, BLOCK), &[0, 1, 2]);
        for qc in [lower, genesis, higher] {
            unread(domain, &RawTc { qcs: vec![qc], ..good.clone() }, Malformed::Contradiction);
        }
    });
}

/// A leader that hides the highest certificate: the entry that names it goes, or says less.
#[test]
fn what_was_signed_cannot_be_lowered() {
    each_form(|domain, good| {
        let [_, lower, _] = known(domain);
        let mut tc = RawTc { qcs: vec![lower], ..good.clone() };
        tc.entries[0].1 = 3;
        bad_signature(domain, &tc);
        let mut tc = good;
        tc.entries[1].1 = 2;
        bad_signature(domain, &tc);
    });
}

#[test]
fn nobody_who_gave_up_a_view_knows_a_certificate_of_a_later_one() {
    each_form(|domain, _| {
        let later = RawQc::signed(domain, (8, 1, BLOCK), &[0, 1, 2]);
        let time_outs = [0, 1, 2].map(|signer| (signer, 7, later.clone()));
        unread(domain, &RawTc::signed(domain, 7, &time_outs), Malformed::Contradiction);
        // Of the view itself it may be: where there are several phases.
        let same = RawQc::signed(domain, (7, 1, BLOCK), &[0, 1, 2]);
        let time_outs = [0, 1, 2].map(|signer| (signer, 7, same.clone()));
        let tc = RawTc::signed(domain, 7, &time_outs);
        assert_eq!(Verdict::of_tc(domain, &tc), Verdict::Good);
    });
}

#[test]
fn it_carries_one_qc() {
    each_form(|domain, good| {
        let [highest, lower, _] = known(domain);
        for qcs in [vec![highest.clone(), lower], vec![highest; 3]] {
            unread(domain, &RawTc { qcs, ..good.clone() }, Malformed::Contradiction);
        }
        let none = RawTc { qcs: Vec::new(), ..good };
        assert!(Tc::from_bytes(none.bytes().into()).is_err(), "it could not say what to extend");
    });
}

#[test]
fn its_qc_is_checked_as_any_other() {
    each_form(|domain, good| {
        let qc = &good.qcs[0];
        let with = |qc: RawQc| RawTc { qcs: vec![qc], ..good.clone() };
        unread(domain, &with(RawQc { phase: 2, ..qc.clone() }), Malformed::WrongPhase);
        bad_signature(domain, &with(RawQc { block: Digest([4; 32]), ..qc.clone() }));
        let other = if domain.vote_form() == Form::List { Form::Threshold } else { Form::List };
        let qc = RawQc::in_form(other, domain, (5, 1, BLOCK), &[0, 1, 2]);
        unread(domain, &with(qc), Malformed::WrongForm);
        if domain.vote_form() != Form::Threshold {
            let qc = RawQc::signed(domain, (5, 1, BLOCK), &[0, 1]);
            unread(domain, &with(qc), Malformed::NoQuorum);
            let qc = RawQc::signed(domain, (5, 1, BLOCK), &[0, 1, 9]);
            unread(domain, &with(qc), Malformed::UnknownSigner);
        }
    });
    // Who knows no certificate knows that of genesis.
    let domain = domain(4, FORMS[0]);
    let time_outs = [0, 1, 2].map(|signer| (signer, 7, RawQc::genesis()));
    let tc = RawTc::signed(&domain, 7, &time_outs);
    assert_eq!(Verdict::of_tc(&domain, &tc), Verdict::Good);
    let elsewhere = RawQc { block: BLOCK, ..RawQc::genesis() };
    unread(&domain, &RawTc { qcs: vec![elsewhere], ..tc }, Malformed::NotGenesis);
}

#[test]
fn there_are_as_many_signatures_as_the_form_has() {
    each_form(|domain, good| {
        let counts = if domain.time_out_form() == Form::List { [0, 1, 2, 4] } else { [0, 2, 3, 4] };
        for count in counts {
            let mut tc = good.clone();
            tc.signatures.resize(count, good.signatures[0]);
            unread(domain, &tc, Malformed::WrongForm);
        }
    });
    // The joined one of another scheme in place of a list, and the other way about.
    let [list, aggregate] = [Form::List, Form::Aggregate].map(|form| domain(4, (form, form)));
    let [of_list, of_aggregate] = [&list, &aggregate].map(|domain| signed(domain, [7; 3]));
    let qcs = of_list.qcs.clone();
    unread(
        &list,
        &RawTc { signatures: of_aggregate.signatures, ..of_list.clone() },
        Malformed::WrongForm,
    );
    let qcs_of_aggregate = of_aggregate.qcs;
    let swapped = RawTc { signatures: of_list.signatures, qcs: qcs_of_aggregate, ..of_list };
    unread(&aggregate, &swapped, Malformed::WrongForm);
    assert_eq!(qcs.len(), 1);
}

/// Time-outs differ in what they say: no threshold of them can be joined.
#[test]
fn there_is_no_threshold_form() {
    let domain = domain(4, (Form::Threshold, Form::Threshold));
    for count in [1, 3] {
        let mut tc = signed(&domain, [7; 3]);
        tc.signatures.resize(count, Signature::from([1; 64]));
        unread(&domain, &tc, Malformed::WrongForm);
    }
}

#[test]
fn signatures_of_elsewhere_or_of_something_else_do_not_hold() {
    each_form(|domain, good| {
        for elsewhere in elsewhere((domain.vote_form(), domain.time_out_form())) {
            let tc = RawTc { qcs: good.qcs.clone(), ..signed(&elsewhere, [7; 3]) };
            bad_signature(domain, &tc);
        }
        for other in [
            Signature::NONE,
            Signature::from([7; 64]),
            Signature::new(&[7; 48]).expect("of another scheme"),
            sign(0, &domain.vote(View(7), 1, &BLOCK)),
            sign(0, &domain.testimony(View(7), &BLOCK)),
        ] {
            let mut tc = good.clone();
            tc.signatures[0] = other;
            bad_signature(domain, &tc);
        }
    });
}

#[test]
fn who_carries_only_the_highest_qc_is_asked_for_its_view_alone() {
    // The statement does not name the block: two certificates of one view are for one block.
    let domain = domain(4, FORMS[0]);
    let one = domain.time_out(View(7), View(5), &BLOCK);
    assert_eq!(one, domain.time_out(View(7), View(5), &genesis()));
    let tc = signed(&domain, [7; 3]).build();
    assert_eq!((tc.view(), tc.high_qc_view(), tc.high_qc().view()), (View(7), View(5), View(5)));
    assert_eq!(tc.signers().map(|signer| signer.0).collect::<Vec<_>>(), [0, 1, 3]);
    let RawProof::List(signatures) = known(&domain)[0].proof.clone() else { panic!("a list") };
    assert_eq!(signatures.len(), 3);
}
