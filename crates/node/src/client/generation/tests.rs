//! What follows from the words of members, some of whom lie.

use quorate_core::base::crypto::{ShareKeys, Signature};
use quorate_core::base::membership::{Governance, Member, Opening, ReplicaKey, Rules};
use quorate_core::ledger::change::NextShares;
use quorate_core::ledger::generation::Generations;
use quorate_core::{Digest, Epoch, Height};
use quorate_crypto::bls::threshold;

use super::*;

fn key(number: u8) -> PublicKey {
    SecretKey::from_seed(&[number; 32]).public_key()
}

fn committee() -> Committee {
    let members = (0..4).map(|id| Some(Member::new(ReplicaKey::from(key(id).0)))).collect();
    let governance = Governance { administrators: vec![key(100)], approvals: 1 };
    let opening = Opening { after: Digest([1; 32]), height: Height(0) };
    let own = Committee::with_members(opening.after, Epoch(0), opening, members, governance);
    let dealt = threshold::deal(4, 3).unwrap();
    let keys = dealt.shares.iter().map(|share| share.public_key());
    let keys = (0..4).map(ReplicaId).zip(keys).collect();
    let rules = Rules { core: Rules::GENERATED_KEYS, application: 1 };
    own.unwrap().under(rules).with_shares(ShareKeys::new(3, keys).unwrap()).unwrap()
}

/// A change that names this generation.
fn change(committee: &Committee, generation: Digest) -> SignedChange {
    let (members, rules) = (committee.members().to_vec(), committee.rules());
    let governance = committee.governance().clone();
    let change = Change { ends: Epoch(0), members, governance, rules };
    let keys = (**committee.shares().unwrap()).clone();
    let shares = NextShares { generation, keys, possessions: Vec::new() };
    let (approvals, ready) = (Vec::new(), Vec::new());
    SignedChange { change, approvals, ready, shares: Some(Box::new(shares)) }
}

fn step(committee: &Committee, before: &Generations, step: &Step) -> Generations {
    before.after(step, committee, Height(1)).unwrap().0
}

/// Replicas do not order a change that names an earlier standing, and a client that went on
/// with it would wait in vain.
#[test]
fn a_change_is_stale_once_a_correct_member_says_that_the_generation_has_gone_on() {
    let committee = committee();
    let change_of = change(&committee, Digest::default()).change.digest();
    let dealers = (0..4).map(|id: u8| {
        let encryption = [id + 1; 32];
        Dealer { id: ReplicaId(id.into()), key: key(id), encryption }
    });
    let dealers = dealers.collect();
    let plan = Plan { ends: Epoch(0), serial: 1, change: change_of, open_blocks: 100, dealers };
    let approvals = vec![(key(100), Signature::NONE)];
    let begins = Step::Begin { plan: plan.clone(), proofs: vec![[0; 64]; 4], approvals };
    let begun = step(&committee, &Generations::default(), &begins);
    let (dealing, signature) = (Bytes::from_static(b"dealt"), Signature::NONE);
    let deals = Step::Deal { plan, dealer: ReplicaId(0), dealing, signature };
    let dealt = step(&committee, &begun, &deals);
    let told = |epoch: u64, generations: &Generations| Generating {
        epoch: Epoch(epoch),
        height: Height(2),
        next_serial: 2,
        current: generations.current().cloned(),
        encryption: None,
        waits_for: Bytes::new(),
    };
    let said = |of: [&Generations; 4], epoch| -> Vec<_> {
        of.iter().zip(0..).map(|(it, id)| (ReplicaId(id), Ok(told(epoch, it)))).collect()
    };
    let fate = |change: &SignedChange, said: &[_]| {
        let generation = &change.shares.as_ref()?.generation;
        fate_of_change(change, serial_with(generation, said), &committee, said)
    };
    let stale = |change: &SignedChange, said: &[_]| {
        fate(change, said) == Some(Fate::Refused(Refusal::Stale))
    };
    let early = change(&committee, begun.current().unwrap().digest());
    assert!(!stale(&early, &said([&begun; 4], 0)));
    assert!(!stale(&early, &said([&dealt, &begun, &begun, &begun], 0)), "one may lie");
    assert!(stale(&early, &said([&dealt, &dealt, &begun, &begun], 0)));
    let late = change(&committee, dealt.current().unwrap().digest());
    assert!(!stale(&late, &said([&dealt; 4], 0)));
    // Its epoch has ended: it was made, or another one.
    assert_eq!(fate(&early, &said([&dealt; 4], 1)), Some(Fate::EpochEnded));
    let mut silent = said([&dealt; 4], 0);
    silent.iter_mut().skip(1).for_each(|it| it.1 = Err("no answer".to_owned()));
    assert_eq!(fate(&early, &silent), None);
    // Its blocks are over; another one has begun; it was never begun there.
    let late_in_time = |id: u16| {
        let told = Generating { height: Height(101), ..told(0, &dealt) };
        (ReplicaId(id), Ok(told))
    };
    let over: Vec<_> = (0..4).map(late_in_time).collect();
    let expired = Some(Fate::Refused(Refusal::Expired(Height(101))));
    assert_eq!(fate(&late, &over), expired);
    assert_eq!(fate(&late, &over[..1]), None, "one may lie");
    let few = Some(Fate::Refused(Refusal::TooFew { qualified: 1, needed: 3 }));
    assert_eq!(fate(&late, &said([&dealt; 4], 0)), few);
    let plain = SignedChange { shares: None, ..early };
    assert_eq!(fate(&plain, &said([&dealt; 4], 0)), None, "it names no generation");
}

/// Whoever is behind tells of an earlier generation, and where the change was carried out none is
/// under way. With a liar beside it, such a word weighs as much as a correct member's.
#[test]
fn members_that_are_behind_or_done_do_not_say_that_a_change_is_refused() {
    let committee = committee();
    let ours = change(&committee, Digest::default());
    let begin = |before: &Generations, serial, change| {
        let dealers = (0..4).map(|id: u8| {
            let encryption = [16 * serial as u8 + id; 32];
            Dealer { id: ReplicaId(id.into()), key: key(id), encryption }
        });
        let (ends, dealers) = (Epoch(0), dealers.collect());
        let plan = Plan { ends, serial, change, open_blocks: 100, dealers };
        let approvals = vec![(key(100), Signature::NONE)];
        step(&committee, before, &Step::Begin { plan, proofs: vec![[0; 64]; 4], approvals })
    };
    let earlier = begin(&Generations::default(), 1, Digest([7; 32]));
    let later = begin(&earlier, 2, ours.change.digest());
    let word = |(id, generations): (u16, &Generations)| {
        let (height, next_serial) = (Height(2), generations.next_serial());
        let (current, encryption) = (generations.current().cloned(), None);
        let (epoch, waits_for) = (Epoch(0), Bytes::new());
        let told = Generating { epoch, height, next_serial, current, encryption, waits_for };
        (ReplicaId(id), Ok(told))
    };
    let said = |of: [&Generations; 4]| (0..).zip(of).map(word).collect::<Vec<_>>();
    let with = |generation: &Generations| {
        let change = change(&committee, generation.current().unwrap().digest());
        let serial = generation.current().unwrap().plan().serial;
        move |committee: &Committee, said: &[Word]| {
            fate_of_change(&change, Some(serial), committee, said)
        }
    };
    let (fate, none) = (with(&later), Generations::default());
    assert_eq!(fate(&committee, &said([&earlier, &earlier, &later, &none])), None);
    assert_eq!(fate(&committee, &said([&none; 4])), None, "it was made");
    // A later one has begun, and it is for another change.
    let fate = with(&earlier);
    let mut elsewhere = begin(&earlier, 2, Digest([8; 32]));
    let other = Some(Fate::Refused(Refusal::OtherChange));
    assert_eq!(fate(&committee, &said([&elsewhere, &none, &none, &none])), None);
    assert_eq!(fate(&committee, &said([&elsewhere, &elsewhere, &none, &none])), other);
    elsewhere = later;
    let stale = Some(Fate::Refused(Refusal::Stale));
    assert_eq!(fate(&committee, &said([&elsewhere, &elsewhere, &none, &none])), stale);
}
