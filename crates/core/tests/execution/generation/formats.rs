//! What changes and steps rest on under which rules, what they weigh, and how they are written.

use super::*;

/// Only a cluster that began with a threshold key has any use for these rules.
#[test]
fn rules_of_threshold_keys_are_offered_to_those_that_have_one() {
    let own = members_under(Rules::FIRST);
    assert_eq!(own.offers(NEW), OLD);
    assert_eq!(own.offers(Rules::FIRST), Rules::FIRST);
    assert_eq!(committee().offers(NEW), NEW);
    let later = Rules { core: Rules::GENERATED_KEYS + 1, application: 1 };
    assert_eq!(own.offers(later), later, "later rules are for all");
    assert_eq!(members_under(NEW).offers(NEW), NEW, "rules never go down");
}

#[test]
fn a_change_needs_the_key_of_all_its_members_and_no_other() {
    let mut ledger = Ledger::new().dealt(0..5);
    let good = ledger.change();
    let current = committee();
    let judge = |signed: &SignedChange| signed.judge(&current, current.opening()).map(|_| ());
    assert_eq!(judge(&good), Ok(()));
    // Without a key the former shares, of other members, would sign on.
    let without = SignedChange { shares: None, ..good.clone() };
    assert_eq!(judge(&without), Err(ChangeRefusal::NoShares));
    let mut silent = good.clone();
    silent.shares.as_mut().unwrap().possessions.remove(3);
    let missing = vec![ReplicaId(3)];
    let not_possessed = ChangeRefusal::NotPossessed { missing };
    assert_eq!(judge(&silent), Err(not_possessed.clone()), "a share that nobody proved");
    let mut silent = good.clone();
    silent.ready.remove(3);
    assert_eq!(judge(&silent), Err(not_possessed), "a quorum is not enough");
    let mut heavier = good.clone();
    heavier.change.members[2].as_mut().unwrap().weight = 2;
    let unequal = CommitteeError::UnequalWeights(ReplicaId(0), ReplicaId(2));
    assert_eq!(judge(&heavier), Err(unequal.into()));
    assert!(heavier.approved(&current, current.opening()).is_err(), "it is said before they deal");
    let mut fewer = good.clone();
    fewer.shares.as_mut().unwrap().keys = shares(&[0, 1, 2, 3], 3, 150);
    assert!(matches!(judge(&fewer), Err(ChangeRefusal::Committee(CommitteeError::Shares { .. }))));
    // The key was generated for this change, by these members.
    let mut other = good.clone();
    other.change.governance.approvals = 3;
    assert_eq!(ledger.order(other.to_command()), Err(text(Refusal::OtherChange)));
    let mut moved = good.clone();
    moved.change.members[4].as_mut().unwrap().key = ReplicaKey::from([77; 32]);
    assert_eq!(ledger.order(moved.to_command()), Err(text(Refusal::OtherChange)));
    assert_eq!(ledger.order(good.to_command()), Ok(1));
}

#[test]
fn a_fresh_key_alone_is_a_change() {
    let current = committee();
    let (members, governance) = (current.members().to_vec(), current.governance().clone());
    let change = Change { ends: Epoch(0), members, governance, rules: NEW };
    let (approvals, ready) = (approvals(2), Vec::new());
    let mut signed = SignedChange { change, approvals, ready, shares: None };
    assert_eq!(signed.approved(&current, current.opening()), Err(ChangeRefusal::Same));
    let (keys, possessions) = (shares(&[0, 1, 2, 3], 3, 150), Vec::new());
    signed.shares = Some(Box::new(NextShares { generation: GENESIS, keys, possessions }));
    assert!(signed.approved(&current, current.opening()).is_ok());
}

/// Of four members one is dead. No key can be generated without it, and it must not stand in the
/// way of its own removal.
#[test]
fn members_that_stay_keep_their_key_with_the_word_of_a_quorum() {
    let current = committee();
    let (mut members, governance) = (current.members().to_vec(), current.governance().clone());
    members.push(Some(of(5, 0)));
    let change = Change { ends: Epoch(0), members, governance, rules: NEW };
    let ready = [0, 1, 2].map(|id| (ReplicaId(id), Signature::NONE)).to_vec();
    let mut signed = SignedChange { change, approvals: approvals(2), ready, shares: None };
    let next = signed.judge(&current, current.opening()).unwrap();
    assert_eq!((next.shares(), next.epoch()), (current.shares(), Epoch(1)));
    signed.ready.pop();
    let few = signed.judge(&current, current.opening());
    assert!(matches!(few, Err(ChangeRefusal::NotReady { .. })), "{few:?}");
    // Other members, or another key of one, need a fresh key.
    let mut other = signed.clone();
    other.change.members[2].as_mut().unwrap().key = ReplicaKey::from([88; 32]);
    assert_eq!(other.judge(&current, current.opening()), Err(ChangeRefusal::NoShares));
}

/// Where members sign with their own keys, nobody has anything verified that only a threshold key
/// needs, and no stranger keeps blocks empty with it.
#[test]
fn what_only_a_threshold_key_needs_costs_nothing_elsewhere() {
    let (own, joint) = (members_under(NEW), committee());
    assert_eq!(own.verified_under(NEW), OLD);
    assert_eq!(joint.verified_under(NEW), NEW);
    assert_eq!(own.verified_under(OLD), OLD);
    let signed = Ledger::new().dealt(0..5).change();
    assert!(signed.may_seal(&joint) && !signed.may_seal(&own));
    // Without shares it may only if the members that count stay.
    let without = SignedChange { shares: None, ..signed.clone() };
    assert!(!without.may_seal(&joint) && without.may_seal(&own));
    let mut learners = without;
    learners.change.members[4] = None;
    assert!(learners.may_seal(&joint));
    let frame = signed_frame(1, 1, 1, &[signed.to_command()], 0);
    let checks = frame.claim_with_approvals(&CHAIN, own.verified_under(NEW)).checks().len();
    assert_eq!(checks, 1, "the client's");
}

#[test]
fn where_members_sign_with_their_own_keys_none_is_generated() {
    let own = members_under(NEW);
    let mut ledger = Ledger::of(&own);
    assert_eq!(ledger.refused(&begin(1)), text(Refusal::NoThresholdKey));
    let signed = Ledger::new().dealt(0..5).change();
    let judged = signed.judge(&own, own.opening()).map(|_| ());
    assert_eq!(judged, Err(ChangeRefusal::NoThresholdKey));
}

/// The words of release 0.1.0. Replies are a part of the state, so that not one letter may differ
/// before the rules are switched on.
const UNKNOWN: &str = "the change cannot be read: invalid format tag: this program reads changes \
                       of format 2";

#[test]
fn before_their_rules_a_step_is_a_command_and_a_change_with_shares_cannot_be_read() {
    let signed = Ledger::new().dealt(0..5).change();
    let mut ledger = Ledger::of(&members_under(OLD));
    let frame = ledger.frame(ADMINISTRATOR, begin(1).to_command());
    outcomes(&mut ledger.state, &[frame]);
    assert_eq!(ledger.state.application().commands, [begin(1).to_command()]);
    assert_eq!(ledger.order(signed.to_command()), Err(UNKNOWN.to_owned()));
    assert!(ledger.state.members().sealed().is_none());
    let refused = members_under(OLD).with_shares(shares(&[0, 1, 2, 3], 3, 1));
    assert_eq!(refused, Err(CommitteeError::NoSharesYet(OLD)));
    // What members and states are written as has not changed.
    let old = members_under(OLD);
    assert_eq!(old.to_bytes().len() + 1, members_under(NEW).to_bytes().len());
    assert_eq!(ledger.state.summary().members, old.digest());
}

/// Signatures and proofs are verified before a block is voted for, so programs must agree on which.
#[test]
fn a_frame_rests_on_what_its_rules_know() {
    let checks = |step: &Step, rules| {
        let frame = signed_frame(1, 1, 1, &[step.to_command()], 0);
        Arc::<Frame>::clone(&frame).claim_with_approvals(&CHAIN, rules).checks().to_vec()
    };
    let (dealt, shown) = (deal(1, 2, dealing_of(2)), complain(1, 2, dealing_of(2), 3));
    for step in [&begin(1), &dealt, &shown] {
        assert_eq!(checks(step, OLD).len(), 1, "the client's");
    }
    // Two administrators', and one proof of each encryption key.
    let begun = checks(&begin(1), NEW);
    assert_eq!(begun.len(), 1 + 2 + 5);
    let dealer = plan(1).dealers[4];
    let context = dealer.possession(&CHAIN, Epoch(0), 1);
    let proof = Check::EncryptionKey { context, key: dealer.encryption, proof: [4; 64] };
    assert_eq!(begun.last(), Some(&proof));
    let elsewhere = [
        dealer.possession(&GENESIS, Epoch(0), 1),
        dealer.possession(&CHAIN, Epoch(1), 1),
        dealer.possession(&CHAIN, Epoch(0), 2),
        Dealer { id: ReplicaId(3), ..dealer }.possession(&CHAIN, Epoch(0), 1),
    ];
    assert!(elsewhere.iter().all(|other| *other != context), "a proof serves one plan alone");
    let [_, signed, proved] = &checks(&dealt, NEW)[..] else { panic!("three checks") };
    let statement = plan(1).dealing(&CHAIN, ReplicaId(2), &dealing_of(2));
    let (key, signature) = (plan(1).dealers[2].key, Signature::NONE);
    assert_eq!(*signed, Check::Client { key, statement, signature });
    let round = Arc::new(plan(1).round(&CHAIN));
    let (dealer, dealing) = (2, dealing_of(2));
    assert_eq!(*proved, Check::Dealing { round: round.clone(), dealer, dealing: dealing.clone() });
    let (recipient, evidence) = (3, [7; 96]);
    let shown = checks(&shown, NEW).pop();
    assert_eq!(shown, Some(Check::Complaint { round, dealer, dealing, recipient, evidence }));
    // The signature covers dealer, dealing, round and chain.
    let other = plan(2).dealing(&CHAIN, ReplicaId(2), &dealing_of(2));
    let of_other = plan(1).dealing(&CHAIN, ReplicaId(3), &dealing_of(2));
    let on_other = plan(1).dealing(&GENESIS, ReplicaId(2), &dealing_of(2));
    assert!([other, of_other, on_other].iter().all(|it| *it != statement));
}

#[test]
fn what_members_join_is_checked_by_the_shares_of_their_epoch() {
    use quorate_core::base::crypto::{Kind, Share, Statement};
    let committee = committee();
    let of = |epoch, kind| {
        let statement = Statement::new(&CHAIN, Epoch(epoch), 1, kind, View(3), 1, &GENESIS);
        let (signer, signature) = (ReplicaId(2), Signature::NONE);
        Check::Replica(Share { signer, statement, signature })
    };
    for kind in [Kind::Vote, Kind::TimeOut] {
        let check = of(0, kind);
        let keys = Arc::clone(committee.shares().unwrap());
        let joined = Check::Joined { keys, check: Box::new(check.clone()) };
        assert_eq!(committee.by_key(check.clone()), joined);
        assert_eq!(committee.by_key(of(1, kind)), of(1, kind), "another epoch's");
        assert_eq!(joined.epoch(), Some(Epoch(0)));
    }
    let own = committee.by_key(of(0, Kind::Testimony));
    assert!(matches!(own, Check::Client { key, .. } if key.0 == [3; 32]), "{own:?}");
}

#[test]
fn a_state_is_restored_with_its_generation() {
    let mut ledger = Ledger::new().dealt(0..4);
    ledger.step(&complain(1, 1, dealing_of(1), 0)).unwrap();
    let (chunks, root) = (chunks_of(&ledger.state.snapshot()), ledger.state.state_root());
    let restore = |chunks: Vec<Bytes>| {
        let mut chunks = chunks.into_iter();
        Execution::restore(Journal::default(), Limits::default(), &mut chunks, root)
    };
    let restored = restore(chunks.clone()).expect("an honest snapshot");
    assert_eq!(restored.members(), ledger.state.members());
    // The disqualified dealer is gone from a forged one.
    let mut forged = chunks;
    let mut header = forged[0].to_vec();
    let kept = header.len() - 8;
    header.truncate(kept);
    header.extend_from_slice(&0u32.to_le_bytes());
    forged[0] = header.into();
    assert!(restore(forged).is_err());
}

#[test]
fn the_largest_step_fits_a_frame() {
    let dealers = (0..256).map(|id: u16| Dealer {
        id: ReplicaId(id),
        key: PublicKey([id as u8; 32]),
        encryption: [id as u8; 32],
    });
    let plan = Plan { dealers: dealers.collect(), ..plan(1) };
    let (dealing, signature) = (vec![1; MAX_DEALING_BYTES].into(), Signature::from([1; 64]));
    let step = Step::Deal { plan, dealer: ReplicaId(255), dealing, signature };
    let command = step.to_command();
    assert!(command.len() < 64 << 10, "{} bytes", command.len());
    assert_eq!(Step::of_command(&command), Ok(step));
}

fn some_step() -> impl Strategy<Value = Step> {
    let (serial, id) = (1..4u64, || 0..5u16);
    prop_oneof![
        1 => serial.clone().prop_map(begin),
        6 => (serial.clone(), id(), id()).prop_map(|(it, who, what)| deal(it, who, dealing_of(what))),
        3 => (serial, id(), id(), id())
            .prop_map(|(it, who, what, by)| complain(it, who, dealing_of(what), by)),
    ]
}

proptest! {
    /// Whatever steps are ordered: what is dealt is never taken back, nobody qualifies that
    /// cheated, and the state has one encoding.
    #[test]
    fn a_generation_only_grows(steps in prop::collection::vec(some_step(), 0..40)) {
        let mut now = Generations::default();
        for (height, step) in steps.iter().enumerate() {
            prop_assert_eq!(&Step::of_command(&step.to_command()).unwrap(), step);
            let Ok((after, _)) = now.after(step, &committee(), Height(height as u64)) else { continue };
            prop_assert_ne!(&after, &now);
            let (before, generation) = (now.current(), after.current().unwrap());
            let same = before.filter(|it| it.plan() == generation.plan());
            if let Some(before) = same {
                prop_assert!(before.dealt().iter().all(|it| generation.dealt().get(it.0) == Some(it.1)));
                let (old, new) = (before.disqualified(), generation.disqualified());
                prop_assert!(old.keys().all(|id| new.contains_key(id)));
            }
            prop_assert!(generation.qualified().all(|id| !generation.disqualified().contains_key(&id)));
            let read = Generations::from_bytes(after.to_bytes().into());
            prop_assert_eq!(read.as_ref(), Ok(&after));
            now = after;
        }
    }

    #[test]
    fn nobody_falls_over_what_is_no_step(mut bytes in prop::collection::vec(any::<u8>(), 0..400), good: bool) {
        if good {
            let step = deal(1, 2, dealing_of(2)).to_command();
            let at = bytes.len() % step.len();
            bytes = [&step[..at], &bytes[..]].concat();
        }
        drop(Step::of_command(&[b"quorate generation 1", &bytes[..]].concat()));
        drop(Step::of_command(&bytes));
        drop(SignedChange::of_command(&[b"quorate change 3", &bytes[..]].concat()));
        drop(Generations::from_bytes(bytes.into()));
    }
}
