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
    let derive = || {
        let round = round_of(&plan, &CHAIN).ok().unwrap();
        super::derive(round, own(folder, &plan, 2), &dealings).ok().unwrap()
    };
    let first = derive();
    assert!(first.complaints.is_empty());
    let share = first.share.unwrap();
    let key: ShareKey = share.public_key().try_into().unwrap();
    assert_eq!(first.outcome.members[2], key);
    for draft in [true, false] {
        if draft {
            let left = folder.join("2-consensus.key.share.4.0011223344556677.draft-1");
            std::fs::write(left, "half of a sh").unwrap();
        }
        let again = derive();
        assert_eq!(again.outcome, first.outcome);
        let again = again.share.unwrap();
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
        dealt_in_blocks(&past, &generation, rules, Height(to), lacking).ok()
    };
    let [one, another] = dealings.clone();
    let another = (ReplicaId(1), another);
    assert_eq!(found(20, &[0, 1, 2]), Some(vec![(ReplicaId(0), one), another.clone()]));
    assert_eq!(found(20, &[1]), Some(vec![another.clone()]));
    assert_eq!(found(8, &[1]), Some(Vec::new()));
    assert_eq!(found(21, &[2]), None, "who cannot read does not know what is there");
    assert_eq!(found(21, &[1]), Some(vec![another]), "it is not read any further");
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
    let derive = |id, dealings: &[_]| {
        let round = round_of(&plan, &CHAIN).ok().unwrap();
        super::derive(round, own(folder, &plan, id), dealings).ok().unwrap()
    };
    let victim = derive(0, &dealings);
    assert!(victim.share.is_none());
    assert_eq!(victim.complaints.iter().map(|it| it.dealer).collect::<Vec<_>>(), [3]);
    assert!(derive(1, &dealings).share.is_some());
    // It is disqualified: the rest is a key.
    let rest = derive(0, &dealings[..3]);
    assert!(rest.complaints.is_empty() && rest.share.is_some());
    // Whoever learns, and has no share, comes to the same keys.
    let learner = super::derive(round, None, &dealings[..3]).ok().unwrap();
    assert_eq!(learner.outcome, rest.outcome);
}
