//! The time-out certificates of Fast-HotStuff, which carry the high QC of every signer: refused for
//! each reason, in each form.

use quorate_core::Digest;
use quorate_core::base::crypto::{Form, Signature};
use quorate_core::protocols::hotstuff::certificate::Domain;
use quorate_core::protocols::hotstuff::rules::{Fast, Rules};
use quorate_core::protocols::protocol::Malformed;

use crate::forge::{FORMS, RawProof, RawQc, RawTc, Verdict, domain};

const BLOCK: Digest = Digest([3; 32]);
const OTHER: Digest = Digest([4; 32]);

fn agg_domain(forms: (Form, Form)) -> Domain {
    assert!(Fast.facts().carries_all_qcs);
    domain(4, forms).with_all_qcs()
}

fn qc(domain: &Domain, view: u64) -> RawQc {
    RawQc::signed(domain, (view, 1, BLOCK), &[0, 1, 2])
}

/// Of view 7, by 0, 1 and 3 with QCs of views 3, 5 and 4.
fn signed(domain: &Domain) -> RawTc {
    let with = |signer, view| (signer, 7, qc(domain, view));
    RawTc::signed(domain, 7, &[with(0, 3), with(1, 5), with(3, 4)])
}

fn each_form(test: impl Fn(&Domain, RawTc)) {
    for forms in FORMS {
        let domain = agg_domain(forms);
        let good = signed(&domain);
        assert_eq!(Verdict::of_tc(&domain, &good), Verdict::Good, "{forms:?}");
        assert_eq!(good.build().high_qc().view().0, 5);
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
fn there_is_a_qc_for_every_signer_and_no_more() {
    each_form(|domain, good| {
        for at in 0..3 {
            let mut missing = good.clone();
            missing.qcs.remove(at);
            unread(domain, &missing, Malformed::Contradiction);
            let mut too_many = good.clone();
            too_many.qcs.insert(at, good.qcs[at].clone());
            unread(domain, &too_many, Malformed::Contradiction);
        }
        // The highest alone, as a time-out certificate has it.
        let highest = good.qcs[1].clone();
        unread(domain, &RawTc { qcs: vec![highest], ..good }, Malformed::Contradiction);
    });
}

#[test]
fn each_signer_has_its_own_qc() {
    each_form(|domain, good| {
        // Exchanged, with the entries and without.
        for (one, other) in [(0, 1), (1, 2), (0, 2)] {
            let mut swapped = good.clone();
            swapped.qcs.swap(one, other);
            unread(domain, &swapped, Malformed::Contradiction);
            let views = (swapped.entries[one].1, swapped.entries[other].1);
            (swapped.entries[one].1, swapped.entries[other].1) = (views.1, views.0);
            bad_signature(domain, &swapped);
        }
        // An entry that says another view than its QC.
        for at in 0..3 {
            let mut other = good.clone();
            other.entries[at].1 += 1;
            unread(domain, &other, Malformed::Contradiction);
        }
        // The QC of another block of that view.
        for at in 0..3 {
            let mut other = good.clone();
            let view = other.qcs[at].view;
            other.qcs[at] = RawQc::signed(domain, (view, 1, OTHER), &[0, 1, 2]);
            bad_signature(domain, &other);
        }
    });
}

/// A leader that hides the highest QC, to leave its block out.
#[test]
fn the_highest_qc_cannot_be_withheld() {
    each_form(|domain, good| {
        let lower = qc(domain, 3);
        let mut hidden = good.clone();
        hidden.qcs[1] = lower.clone();
        unread(domain, &hidden, Malformed::Contradiction);
        hidden.entries[1].1 = 3;
        bad_signature(domain, &hidden);
        // Nor can one be made up that nobody signed for.
        let mut raised = good;
        raised.qcs[0] = qc(domain, 6);
        unread(domain, &raised, Malformed::Contradiction);
        raised.entries[0].1 = 6;
        bad_signature(domain, &raised);
    });
}

#[test]
fn the_highest_qc_is_checked_as_any_other() {
    each_form(|domain, good| {
        let with = |change: &dyn Fn(&mut RawQc)| {
            let mut tc = good.clone();
            change(&mut tc.qcs[1]);
            tc
        };
        unread(domain, &with(&|qc| qc.phase = 2), Malformed::WrongPhase);
        let forged = with(&|qc| match &mut qc.proof {
            RawProof::List(signatures) => signatures[0].1 = Signature::NONE,
            RawProof::Aggregate(_, signature) | RawProof::Threshold(signature) => {
                *signature = Signature::NONE;
            }
        });
        bad_signature(domain, &forged);
        match &good.qcs[1].proof {
            RawProof::List(signatures) => {
                let two = RawProof::List(signatures[..2].to_vec());
                unread(domain, &with(&|qc| qc.proof = two.clone()), Malformed::NoQuorum);
            }
            RawProof::Aggregate(_, signature) => {
                let two = RawProof::Aggregate(vec![0b11], *signature);
                unread(domain, &with(&|qc| qc.proof = two.clone()), Malformed::NoQuorum);
            }
            RawProof::Threshold(_) => {}
        }
    });
}

/// Of two QCs of the highest view that are for different blocks, the one that is built upon is the
/// one that is checked.
#[test]
fn a_second_qc_of_the_highest_view_is_not_built_upon_unchecked() {
    for forms in FORMS {
        let domain = agg_domain(forms);
        let real = qc(&domain, 5);
        let mut forged = RawQc::signed(&domain, (5, 1, OTHER), &[0, 1, 2]);
        match &mut forged.proof {
            RawProof::List(signatures) => signatures[2].1 = Signature::NONE,
            RawProof::Aggregate(_, signature) | RawProof::Threshold(signature) => {
                *signature = Signature::NONE;
            }
        }
        for liar in [0, 1, 2] {
            // One of the three signs that its high QC is the forged one.
            let own = |at| if at == liar { forged.clone() } else { real.clone() };
            let tc = RawTc::signed(&domain, 7, &[0, 1, 2].map(|at| (at, 7, own(at))));
            match Verdict::of_tc(&domain, &tc) {
                Verdict::Good => assert_eq!(tc.build().high_qc().block(), BLOCK),
                verdict => assert_eq!(verdict, Verdict::BadSignature),
            }
        }
    }
}

#[test]
fn every_qc_is_well_formed() {
    each_form(|domain, good| {
        let mut wrong_phase = good.clone();
        wrong_phase.qcs[0].phase = 9;
        unread(domain, &wrong_phase, Malformed::WrongPhase);
        let mut too_few = good.clone();
        match &mut too_few.qcs[0].proof {
            RawProof::List(signatures) => drop(signatures.pop()),
            RawProof::Aggregate(signers, _) => *signers = vec![1],
            RawProof::Threshold(_) => return,
        }
        unread(domain, &too_few, Malformed::NoQuorum);
        let mut other_form = good;
        other_form.qcs[2].proof = RawProof::Threshold(Signature::NONE);
        unread(domain, &other_form, Malformed::WrongForm);
    });
    let domain = agg_domain(FORMS[0]);
    let time_outs = [0, 1, 2].map(|signer| (signer, 7, RawQc::genesis()));
    let mut tc = RawTc::signed(&domain, 7, &time_outs);
    assert_eq!(Verdict::of_tc(&domain, &tc), Verdict::Good);
    tc.qcs[0].phase = 1;
    unread(&domain, &tc, Malformed::NotGenesis);
}

/// Each signer vouches for its own QC, and only the highest is built upon (the paper checks these
/// two signatures). So the others' votes are not looked at.
#[test]
fn the_votes_of_the_other_qcs_are_not_looked_at() {
    each_form(|domain, good| {
        let mut tc = good;
        match &mut tc.qcs[0].proof {
            RawProof::List(signatures) => signatures[0].1 = Signature::NONE,
            RawProof::Aggregate(_, signature) | RawProof::Threshold(signature) => {
                *signature = Signature::NONE;
            }
        }
        assert_eq!(Verdict::of_tc(domain, &tc), Verdict::Good);
        assert_eq!(tc.build().high_qc().view().0, 5);
    });
}

#[test]
fn it_is_none_where_certificates_carry_the_highest_qc_alone_and_the_other_way_about() {
    for forms in FORMS {
        let (all, one) = (agg_domain(forms), domain(4, forms));
        unread(&one, &signed(&all), Malformed::Contradiction);
        let time_outs = [0, 1, 2].map(|signer| (signer, 7, qc(&one, 5)));
        unread(&all, &RawTc::signed(&one, 7, &time_outs), Malformed::Contradiction);
        // The same number of QCs does not help: the block is not signed there.
        let mut tc = RawTc::signed(&one, 7, &time_outs);
        tc.qcs = vec![qc(&all, 5); 3];
        bad_signature(&all, &tc);
    }
}

#[test]
fn time_outs_of_several_views_make_none() {
    each_form(|domain, _| {
        let with = |signer, given_up, view| (signer, given_up, qc(domain, view));
        let mixed = RawTc::signed(domain, 7, &[with(0, 7, 3), with(1, 6, 5), with(3, 7, 4)]);
        bad_signature(domain, &mixed);
    });
}
