//! What a member makes again of what is on disk, and what it does with others' dealings.

use quorate_core::base::crypto::{ClientSigner as _, Signature};
use quorate_core::base::wire::{Decode as _, Encode as _};
use quorate_core::ledger::frame::Frame;
use quorate_core::ledger::generation::Dealer;
use quorate_core::{Sequence, SessionId};
use quorate_crypto::SecretKey;

use super::*;
use crate::replica::shares::{ShareFiles, ShareKey};

const CHAIN: Digest = Digest([9; 32]);

fn files(folder: &std::path::Path, id: u16) -> ShareFiles {
    ShareFiles::beside(&folder.join(format!("{id}-consensus.key")))
}

fn plan_of(folder: &std::path::Path) -> Plan {
    let dealers = (0..4).map(|id| Dealer {
        id: ReplicaId(id),
        key: SecretKey::from_seed(&[id as u8 + 1; 32]).public_key(),
        encryption: files(folder, id).offered(Epoch(3), 1).unwrap().public_key().to_bytes(),
    });
    let (ends, change) = (Epoch(3), Digest([1; 32]));
    Plan { ends, serial: 1, change, open_blocks: 10, dealers: dealers.collect() }
}

/// The key of a member, as it finds it on disk.
fn own(folder: &std::path::Path, plan: &Plan, id: u16) -> Own {
    let public = &plan.dealers[usize::from(id)].encryption;
    let key = files(folder, id).decryption(plan.ends, plan.serial, public).unwrap().unwrap();
    Some((usize::from(id), Arc::new(key)))
}

fn dealing(folder: &std::path::Path, plan: &Plan, id: u16) -> (usize, Bytes) {
    let (place, key) = own(folder, plan, id).unwrap();
    let round = round_of(plan, &CHAIN).ok().unwrap();
    (place, round.deal(place, key.seed()).unwrap().into())
}

/// The key that follows, and the member's share.
fn key_of(derived: Result<Derived, Wait>) -> Result<(Outcome, Option<Arc<ConsensusKey>>), String> {
    match derived {
        Ok(Derived::Key { outcome, share }) => Ok((outcome, share)),
        Ok(Derived::Complaints(_)) => Err("it complains".to_owned()),
        Err(wait) => Err(wait.what),
    }
}

/// The dealers whose shares do not fit.
fn accused(derived: Result<Derived, Wait>) -> Vec<usize> {
    match derived {
        Ok(Derived::Complaints(complaints)) => complaints.iter().map(|it| it.dealer).collect(),
        _ => Vec::new(),
    }
}

/// At each instant, the process ends and begins again with what is on disk.
#[test]
fn a_member_that_was_killed_at_any_instant_deals_the_same_and_comes_to_the_same_share() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // Killed when its key was made: asked again, it offers the same.
    let plan = plan_of(folder);
    assert_eq!(plan_of(folder), plan);
    // Killed before or behind its dealing: it deals the same.
    let dealings: Vec<_> = (0..4).map(|id| dealing(folder, &plan, id)).collect();
    assert_eq!(dealing(folder, &plan, 2), dealings[2]);
    // Killed as it works out its share, with a draft of the file, with the file, and behind it.
    let derive = || key_of(super::derive(&plan, &CHAIN, own(folder, &plan, 2), &dealings)).unwrap();
    let (outcome, share) = derive();
    let share = share.unwrap();
    let key: ShareKey = share.public_key().try_into().unwrap();
    assert_eq!(outcome.members[2], key);
    for draft in [true, false] {
        if draft {
            let left = folder.join("2-consensus.key.share.4.0011223344556677.draft-1");
            std::fs::write(left, "half of a sh").unwrap();
        }
        let (same, again) = derive();
        assert_eq!(same, outcome);
        let again = again.unwrap();
        assert_eq!(again.to_bytes(), share.to_bytes());
        files(folder, 2).keep_share(plan.ends.next(), &again).unwrap();
        let found = files(folder, 2).share(&key).unwrap().unwrap();
        assert_eq!(found.to_bytes(), share.to_bytes());
    }
}

/// After a restart from a snapshot above them, dealings are in no memory, and a dealer that
/// lies does not tell its own again.
#[test]
fn what_members_dealt_is_found_in_the_blocks_that_hold_it() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan_of(folder.path());
    let rules = Rules { core: Rules::GENERATED_KEYS, application: 1 };
    let begun = Height(7);
    // As it is encoded in the state: two have dealt, and nobody is disqualified.
    let dealings = [&b"one"[..], b"another"].map(Bytes::from_static);
    let mut state = plan.to_bytes();
    begun.encode(&mut state);
    2u32.encode(&mut state);
    for (id, dealing) in (0..).zip(&dealings) {
        ReplicaId(id).encode(&mut state);
        dealing_digest(dealing).encode(&mut state);
    }
    0u32.encode(&mut state);
    let generation = Generation::from_bytes(state.into()).unwrap();
    let frame = |dealer: u16, dealing: &Bytes| {
        let (plan, dealing) = (plan.clone(), dealing.clone());
        let signature = Signature::NONE;
        let step = Step::Deal { plan, dealer: ReplicaId(dealer), dealing, signature };
        let (key, session) = (PublicKey([1; 32]), SessionId(1));
        let commands = [&step.to_command()[..]];
        let number = Sequence(u64::from(dealer) + 1);
        SharedFrame::from(
            Frame::build(key, session, number, commands, &CHAIN, |_| signature).unwrap(),
        )
    };
    let past = |height: Height| match height {
        Height(8) => Ok(vec![frame(0, &Bytes::from_static(b"refused")), frame(0, &dealings[0])]),
        Height(9) => Ok(vec![frame(1, &dealings[1])]),
        Height(21) => Err(io::Error::other("the disk is broken")),
        _ => Ok(Vec::new()),
    };
    let found = |to, lacking: &[u16]| {
        let lacking = lacking.iter().map(|id| ReplicaId(*id)).collect();
        let heights = (generation.begun(), Height(to));
        let Found { dealings, unread } =
            dealt_in_blocks(&past, &generation, rules, heights, lacking);
        (dealings, unread.map(|(height, _)| height))
    };
    let [one, another] = dealings.clone();
    let another = (ReplicaId(1), another);
    assert_eq!(found(20, &[0, 1, 2]), (vec![(ReplicaId(0), one), another.clone()], None));
    assert_eq!(found(20, &[1]), (vec![another.clone()], None));
    assert_eq!(found(8, &[1]), (Vec::new(), None));
    // Who cannot read does not know what is there, and looks no further than it must.
    assert_eq!(found(22, &[1, 2]), (vec![another.clone()], Some(Height(21))));
    assert_eq!(found(22, &[1]), (vec![another], None));
}

/// What a dealer gave another member is shown by that member alone, and the others make a key
/// without it.
#[test]
fn a_share_that_does_not_fit_is_complained_of_and_no_share_comes_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let plan = plan_of(folder);
    let mut dealings: Vec<_> = (0..4).map(|id| dealing(folder, &plan, id)).collect();
    let round = round_of(&plan, &CHAIN).ok().unwrap();
    dealings[3].1 = round.deal_wrongly(3, &[7; 32], &[0]).unwrap().into();
    let derive = |own, dealings: &[_]| super::derive(&plan, &CHAIN, own, dealings);
    let own = |id| own(folder, &plan, id);
    assert_eq!(accused(derive(own(0), &dealings)), [3]);
    assert!(key_of(derive(own(1), &dealings)).unwrap().1.is_some());
    // It is disqualified: the rest is a key.
    let (outcome, share) = key_of(derive(own(0), &dealings[..3])).unwrap();
    assert!(share.is_some());
    // Whoever learns, and has no share, comes to the same keys.
    let (same, none) = key_of(derive(None, &dealings[..3])).unwrap();
    assert!(same == outcome && none.is_none());
}

/// Else the last dealer ends each generation by commitments that cancel the others', and nobody
/// would say who.
#[test]
fn shares_are_looked_at_before_a_key_is_made_of_commitments() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let plan = plan_of(folder);
    let mut dealings: Vec<_> = (0..4).map(|id| dealing(folder, &plan, id)).collect();
    let round = round_of(&plan, &CHAIN).ok().unwrap();
    let read = |(place, bytes): &(usize, Bytes)| round.read(*place, bytes).unwrap();
    let others: Vec<_> = dealings[..3].iter().map(read).collect();
    dealings[3].1 = round.deal_against(3, &[7; 32], &others).unwrap().into();
    let derive = |own, dealings: &[_]| super::derive(&plan, &CHAIN, own, dealings);
    assert_eq!(accused(derive(own(folder, &plan, 0), &dealings)), [3]);
    // Who has no share to look at waits until somebody has.
    assert!(key_of(derive(None, &dealings)).is_err());
    assert!(key_of(derive(own(folder, &plan, 0), &dealings[..3])).is_ok());
}
