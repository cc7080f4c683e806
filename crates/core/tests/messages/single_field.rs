//! Whatever is changed in a valid certificate, in one place, it is refused: every byte of its
//! encoding, and every field, at every size of a committee.

use proptest::prelude::*;
use quorate_core::base::crypto::{Form, Signature};
use quorate_core::base::membership;
use quorate_core::base::wire::{Decode, Encode};
use quorate_core::protocols::hotstuff::certificate::{Domain, Qc, Tc};
use quorate_core::{Digest, View};

use crate::forge::{FORMS, RawProof, RawQc, RawTc, Verdict, bitmap, domain, genesis, sign};

const BLOCK: Digest = Digest([3; 32]);

/// Every other value of every byte either does not decode, or is refused.
fn no_byte_can_change<T: Encode + Decode>(certificate: &T, judge: impl Fn(&T) -> Verdict) {
    let bytes = certificate.to_bytes();
    assert_eq!(judge(certificate), Verdict::Good);
    let mut decoded = 0;
    for at in 0..bytes.len() {
        for other in (0..=u8::MAX).filter(|other| *other != bytes[at]) {
            let mut changed = bytes.clone();
            changed[at] = other;
            if let Ok(changed) = T::from_bytes(changed.into()) {
                assert_ne!(judge(&changed), Verdict::Good, "byte {at} is {other}");
                decoded += 1;
            }
        }
    }
    assert!(decoded > 10_000, "hardly any change was read: {decoded}");
}

#[test]
fn no_byte_of_a_quorum_certificate_can_change() {
    for forms in FORMS {
        let domain = domain(4, forms).with_phases(3);
        let qc = RawQc::signed(&domain, (5, 2, BLOCK), &[0, 1, 3]).build();
        no_byte_can_change(&qc, |qc: &Qc| Verdict::of(qc.checks(&domain, &genesis())));
    }
}

#[test]
fn no_byte_of_a_time_out_certificate_can_change() {
    for forms in FORMS {
        let domain = domain(4, forms);
        let qc = |view| RawQc::signed(&domain, (view, 1, BLOCK), &[0, 1, 2]);
        let time_outs = [(0, 7, qc(3)), (1, 7, qc(5)), (3, 7, RawQc::genesis())];
        let tc = RawTc::signed(&domain, 7, &time_outs).build();
        no_byte_can_change(&tc, |tc: &Tc| Verdict::of(tc.checks(&domain, &genesis())));
    }
}

/// The votes of all but the highest certificate are not looked at (`agg_qcs`), so that here the
/// others are of genesis, which has none.
#[test]
fn no_byte_of_an_agg_qc_can_change() {
    for forms in FORMS {
        let domain = domain(4, forms).with_all_qcs();
        let qc = RawQc::signed(&domain, (5, 1, BLOCK), &[0, 1, 2]);
        let time_outs = [(0, 7, RawQc::genesis()), (1, 7, qc), (3, 7, RawQc::genesis())];
        let tc = RawTc::signed(&domain, 7, &time_outs).build();
        no_byte_can_change(&tc, |tc: &Tc| Verdict::of(tc.checks(&domain, &genesis())));
    }
}

/// A committee, its forms, and who signs.
#[derive(Clone, Debug)]
struct Signing {
    domain: Domain,
    phases: u8,
    signers: Vec<u16>,
    outsiders: Vec<u16>,
}

fn signing(all_qcs: bool) -> impl Strategy<Value = Signing> {
    (4usize..20, 0usize..3, 1u8..4, any::<u64>()).prop_map(move |(n, form, phases, order)| {
        let phases = if all_qcs { 1 } else { phases };
        let mut domain = domain(n, FORMS[form]).with_phases(phases);
        if all_qcs {
            domain = domain.with_all_qcs();
        }
        let quorum = membership::quorum(n);
        // Some quorum or more: places shuffled by multiplication, the first of them chosen.
        let mut places: Vec<u16> = (0..n as u16).collect();
        places.sort_by_key(|place| (u64::from(*place) + 1).wrapping_mul(order | 1) >> 7);
        let count = quorum + (order % 3) as usize;
        let (mut signers, outsiders) = match places.split_at_checked(count) {
            Some((signers, rest)) => (signers.to_vec(), rest.to_vec()),
            None => (places, Vec::new()),
        };
        signers.sort_unstable();
        Signing { domain, phases, signers, outsiders }
    })
}

/// One change to one field.
#[derive(Clone, Copy, Debug)]
enum Change {
    View(u64),
    Phase(u8),
    Block(u8),
    Form(usize),
    Drop(usize),
    Repeat(usize),
    Swap(usize),
    Rename(usize),
    Stranger(usize),
    Outsider(usize),
    Signature(usize, u8),
    Length(usize, usize),
    Forge(usize),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        any::<u64>().prop_map(Change::View),
        any::<u8>().prop_map(Change::Phase),
        any::<u8>().prop_map(Change::Block),
        (0usize..2).prop_map(Change::Form),
        any::<usize>().prop_map(Change::Drop),
        any::<usize>().prop_map(Change::Repeat),
        any::<usize>().prop_map(Change::Swap),
        any::<usize>().prop_map(Change::Rename),
        any::<usize>().prop_map(Change::Stranger),
        any::<usize>().prop_map(Change::Outsider),
        any::<(usize, u8)>().prop_map(|(at, bit)| Change::Signature(at, bit)),
        (any::<usize>(), 0usize..64).prop_map(|(at, length)| Change::Length(at, length)),
        any::<usize>().prop_map(Change::Forge),
    ]
}

fn flipped(signature: &Signature, bit: u8) -> Signature {
    let mut bytes = signature.as_bytes().to_vec();
    bytes[usize::from(bit / 4)] ^= 1 << (bit % 8);
    Signature::new(&bytes).expect("as long as before")
}

fn cut(signature: &Signature, length: usize) -> Signature {
    Signature::new(&signature.as_bytes()[..length]).expect("shorter")
}

/// Changes a list of signers and their signatures.
fn change_list(change: Change, list: &mut Vec<(u16, Signature)>, signing: &Signing) {
    let count = list.len();
    match change {
        // Down to fewer than a quorum, or one is left out of more: which is another certificate,
        // and as good.
        Change::Drop(at) => {
            let quorum = signing.domain.committee().quorum();
            list.remove(at % count);
            list.truncate(quorum - 1);
        }
        Change::Repeat(at) => list.insert(at % count, list[at % count]),
        Change::Swap(at) => list.swap(at % count, (at + 1) % count),
        Change::Rename(at) => match signing.outsiders.get(at % signing.outsiders.len().max(1)) {
            Some(outsider) => {
                list[at % count].0 = *outsider;
                list.sort_unstable();
            }
            None => list[at % count].1 = Signature::NONE,
        },
        Change::Stranger(at) => list[count - 1].0 = 256 + at as u16 % 1000,
        Change::Outsider(at) => match signing.outsiders.get(at % signing.outsiders.len().max(1)) {
            Some(outsider) => {
                list.push((*outsider, list[at % count].1));
                list.sort_unstable();
            }
            None => list[at % count].1 = Signature::NONE,
        },
        Change::Signature(at, bit) => list[at % count].1 = flipped(&list[at % count].1, bit),
        Change::Length(at, length) => list[at % count].1 = cut(&list[at % count].1, length),
        Change::Forge(at) => list[at % count].1 = list[(at + 1) % count].1,
        _ => {}
    }
}

/// Changes the set of signers, or their joint signature.
fn change_set(change: Change, set: &mut Vec<u8>, joint: &mut Signature, signing: &Signing) {
    let mut signers = signing.signers.clone();
    let at = |at: usize| at % signers.len();
    match change {
        Change::Drop(place) | Change::Repeat(place) | Change::Swap(place) => {
            let place = at(place);
            signers.remove(place);
        }
        Change::Stranger(place) => {
            signers.push(signing.domain.committee().size() as u16 + (place % 200) as u16)
        }
        Change::Rename(place) | Change::Outsider(place) => {
            match signing.outsiders.get(place % signing.outsiders.len().max(1)) {
                Some(outsider) => signers.push(*outsider),
                None => signers.clear(),
            }
        }
        Change::Signature(_, bit) => *joint = flipped(joint, bit),
        Change::Length(_, length) => *joint = cut(joint, length),
        Change::Forge(place) => {
            *joint = sign(signers[at(place)], &signing.domain.vote(View(5), 1, &BLOCK))
        }
        _ => {}
    }
    *set = bitmap(&signers);
}

fn changed(qc: &RawQc, change: Change, signing: &Signing) -> RawQc {
    let mut qc = qc.clone();
    match change {
        Change::View(view) => qc.view = view,
        Change::Phase(phase) => qc.phase = phase,
        Change::Block(byte) => qc.block.0[usize::from(byte % 32)] ^= 1 << (byte / 32),
        Change::Form(which) => {
            let forms = [Form::List, Form::Aggregate, Form::Threshold];
            let others = forms.into_iter().filter(|form| *form != signing.domain.vote_form());
            let form = others.clone().nth(which).expect("two others");
            let ballot = (qc.view, qc.phase, qc.block);
            qc = RawQc::in_form(form, &signing.domain, ballot, &signing.signers);
        }
        _ => match &mut qc.proof {
            RawProof::List(list) => change_list(change, list, signing),
            RawProof::Aggregate(set, joint) => change_set(change, set, joint, signing),
            RawProof::Threshold(joint) => match change {
                Change::Length(_, length) => *joint = cut(joint, length),
                Change::Signature(_, bit) => *joint = flipped(joint, bit),
                Change::Forge(at) | Change::Drop(at) | Change::Outsider(at) => {
                    let signer = at as u16 % 300;
                    *joint = sign(signer, &signing.domain.vote(View(5), 1, &BLOCK));
                }
                _ => *joint = Signature::NONE,
            },
        },
    }
    qc
}

proptest! {
    // The same cases every time.
    #![proptest_config(ProptestConfig {
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        ..ProptestConfig::with_cases(4096)
    })]

    #[test]
    fn no_field_of_a_quorum_certificate_can_change(
        signing in signing(false),
        phase in 0u8..3,
        change in change(),
    ) {
        let phase = 1 + phase % signing.phases;
        let good = RawQc::signed(&signing.domain, (5, phase, BLOCK), &signing.signers);
        prop_assert_eq!(Verdict::of_qc(&signing.domain, &good), Verdict::Good);
        let bad = changed(&good, change, &signing);
        prop_assume!(bad != good);
        prop_assert_ne!(Verdict::of_qc(&signing.domain, &bad), Verdict::Good);
    }

    #[test]
    fn no_field_of_a_certificate_inside_a_time_out_certificate_can_change(
        (all_qcs, signing) in any::<bool>().prop_flat_map(|all| (Just(all), signing(all))),
        view in 1u64..9,
        change in change(),
    ) {
        let high_qc = RawQc::signed(&signing.domain, (view, 1, BLOCK), &signing.signers);
        // One signer knows it, the others only genesis.
        let time_outs: Vec<(u16, u64, RawQc)> = signing.signers.iter().map(|signer| {
            let knows = *signer == signing.signers[1];
            (*signer, 9, if knows { high_qc.clone() } else { RawQc::genesis() })
        }).collect();
        let good = RawTc::signed(&signing.domain, 9, &time_outs);
        prop_assert_eq!(Verdict::of_tc(&signing.domain, &good), Verdict::Good);
        let bad_qc = changed(&high_qc, change, &signing);
        prop_assume!(bad_qc != high_qc);
        let mut bad = good;
        bad.qcs[usize::from(all_qcs)] = bad_qc;
        prop_assert_ne!(Verdict::of_tc(&signing.domain, &bad), Verdict::Good);
    }

    #[test]
    fn no_entry_of_a_time_out_certificate_can_change(
        signing in any::<bool>().prop_flat_map(signing),
        at: prop::sample::Index,
        what in 0u8..8,
        by in 1u64..1000,
    ) {
        let high_qc = RawQc::signed(&signing.domain, (5, 1, BLOCK), &signing.signers);
        let time_outs: Vec<(u16, u64, RawQc)> =
            signing.signers.iter().map(|signer| (*signer, 9, high_qc.clone())).collect();
        let good = RawTc::signed(&signing.domain, 9, &time_outs);
        prop_assert_eq!(Verdict::of_tc(&signing.domain, &good), Verdict::Good);
        let mut bad = good.clone();
        let entry = at.index(bad.entries.len());
        let signature = at.index(bad.signatures.len());
        match what {
            0 => bad.view += by,
            1 => bad.view = bad.view.saturating_sub(by),
            2 => bad.entries[entry].1 += by,
            3 => bad.entries[entry].1 = bad.entries[entry].1.saturating_sub(by),
            4 => bad.entries[entry].0 += by as u16,
            5 => drop(bad.entries.remove(entry)),
            6 => bad.entries.insert(entry, good.entries[entry]),
            _ => bad.signatures[signature] = flipped(&good.signatures[signature], by as u8),
        }
        prop_assert_ne!(Verdict::of_tc(&signing.domain, &bad), Verdict::Good, "{}", what);
    }
}
