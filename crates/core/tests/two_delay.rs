//! What a peer may say to a replica of the protocol of two delays.

use std::sync::Arc;

use quorate_core::base::crypto::{PublicKey, Signature};
use quorate_core::base::membership::{Committee, Governance, Member, Opening, ReplicaKey};
use quorate_core::base::wire::{Decode as _, Encode as _, Reader};
use quorate_core::ledger::block::Block;
use quorate_core::protocols::protocol::{Malformed, Protocol as _};
use quorate_core::protocols::two_delay::certificate::{Commit, GaveUp, Phase, Qc, Signed, Tc};
use quorate_core::protocols::two_delay::words::{
    Content, MAX_FALLBACKS, Memory, Said, Standing, Vote,
};
use quorate_core::protocols::two_delay::{
    Domain, Message, Patience, TwoDelay, memory_bytes, origin, supports,
};
use quorate_core::{Digest, Epoch, Height, ReplicaId, View};

const SEAL: [u8; 64] = [7; 64];
const BLOCK: Digest = Digest([9; 32]);

fn keys(n: u8) -> Vec<ReplicaKey> {
    (0..n).map(|id| ReplicaKey::from([id; 32])).collect()
}

fn committee(n: u8) -> Committee {
    Committee::new(Digest([7; 32]), Epoch(0), keys(n)).unwrap()
}

fn replica(n: u8) -> TwoDelay {
    TwoDelay::new(committee(n), ReplicaId(0), Patience::default())
}

fn checks(n: u8, from: u16, message: Message) -> Result<usize, Malformed> {
    replica(n).claim(ReplicaId(from), message).map(|claim| claim.checks().len())
}

fn signed(by: std::ops::Range<u16>) -> Vec<Signed> {
    by.map(|id| (ReplicaId(id), Signature::from(SEAL))).collect()
}

fn qc(view: u64, firsts: std::ops::Range<u16>, fallbacks: std::ops::Range<u16>) -> Qc {
    let (firsts, fallbacks) = (signed(firsts), signed(fallbacks));
    Qc { view: View(view), block: BLOCK, firsts, fallbacks }
}

fn tc(view: u64, high: u64) -> Tc {
    let entry =
        |id| GaveUp { replica: ReplicaId(id), high: View(high), signature: Signature::from(SEAL) };
    Tc { view: View(view), entries: (0..3).map(entry).collect() }
}

fn proposal(view: u64, justify: Qc, tc: Option<Tc>) -> Message {
    let (height, root_of) = (Height(1), Height(0));
    let (epoch, state_root, frames) = (Epoch(0), Digest::default(), Vec::new());
    let view = View(view);
    let content = Content { epoch, view, height, justify, tc, root_of, state_root, frames };
    let block = Arc::new(Block::new(content));
    Message::Proposal { block, signature: Signature::from(SEAL), decided: None }
}

fn genesis() -> Qc {
    origin(&committee(4)).memory.high_qc
}

#[test]
fn a_proposal_is_its_leaders_and_justified() {
    assert_eq!(checks(4, 0, proposal(1, genesis(), None)), Ok(1));
    assert_eq!(checks(4, 1, proposal(1, genesis(), None)), Err(Malformed::WrongSender));
    let other = Qc { block: BLOCK, ..genesis() };
    assert_eq!(checks(4, 0, proposal(1, other, None)), Err(Malformed::NotGenesis));
    // View 3 behind view 1: only with a certificate that view 2 was given up, by replicas that knew
    // of no later QC.
    let contradiction = Err(Malformed::Contradiction);
    assert_eq!(checks(4, 2, proposal(3, qc(1, 0..3, 0..0), None)), contradiction);
    assert_eq!(checks(4, 2, proposal(3, qc(1, 0..3, 0..0), Some(tc(2, 1)))), Ok(7));
    assert_eq!(checks(4, 2, proposal(3, genesis(), Some(tc(2, 1)))), contradiction);
    assert_eq!(checks(4, 2, proposal(3, qc(1, 0..3, 0..0), Some(tc(1, 0)))), contradiction);
}

#[test]
fn certificates_need_a_quorum_of_different_members() {
    let standing = |high_qc| {
        let (tc, decided, asks) = (None, None, false);
        Message::Standing(Box::new(Standing { high_qc, tc, decided, asks }))
    };
    let refused = |qc| checks(4, 1, standing(qc)).unwrap_err();
    assert_eq!(checks(4, 1, standing(qc(1, 0..2, 2..3))), Ok(3));
    assert_eq!(refused(qc(1, 0..2, 0..0)), Malformed::NoQuorum);
    assert_eq!(refused(qc(1, 0..2, 1..2)), Malformed::UnorderedSigners);
    assert_eq!(refused(qc(1, 3..5, 0..2)), Malformed::UnknownSigner);
    let mut twice = qc(1, 0..2, 0..0);
    twice.firsts.push(twice.firsts[1]);
    assert_eq!(refused(twice), Malformed::UnorderedSigners);
}

#[test]
fn a_commit_has_n_minus_1_first_votes_or_q_second_ones() {
    let commit = |phase, votes| {
        let commit = Commit { phase, view: View(1), block: BLOCK, votes: signed(votes) };
        Domain::new(committee(7)).commit(&commit).map(|checks| checks.len())
    };
    assert_eq!(commit(Phase::First, 0..6), Ok(6));
    assert_eq!(commit(Phase::First, 0..5), Err(Malformed::NoQuorum));
    assert_eq!(commit(Phase::Second, 0..5), Ok(5));
    assert_eq!(commit(Phase::Second, 0..4), Err(Malformed::NoQuorum));
    assert_eq!(commit(Phase::Fallback, 0..7), Err(Malformed::WrongPhase));
}

#[test]
fn a_time_out_names_an_earlier_qc_of_its_sender() {
    let time_out = |view: u64, high_qc| {
        let (view, signature) = (View(view), Signature::from(SEAL));
        checks(4, 1, Message::TimeOut { view, high_qc, signature })
    };
    assert_eq!(time_out(1, genesis()), Ok(1));
    assert_eq!(time_out(2, qc(1, 0..3, 0..0)), Ok(4));
    assert_eq!(time_out(2, qc(2, 0..3, 0..0)), Err(Malformed::Contradiction));
    assert_eq!(time_out(0, genesis()), Err(Malformed::Stale));
    assert_eq!(time_out(u64::MAX, genesis()), Err(Malformed::Stale));
}

/// A first vote proves that the leader signed the block: by that alone a leader is known to lie.
#[test]
fn a_vote_brings_the_leaders_signature() {
    let vote = |phase, view: u64, block| {
        let (view, signature) = (View(view), Signature::from(SEAL));
        checks(4, 1, Message::Vote(Vote { phase, view, block, signature }))
    };
    let block = Some((BLOCK, Signature::from(SEAL)));
    assert_eq!(vote(Phase::First, 1, block), Ok(2));
    assert_eq!(vote(Phase::Fallback, 1, block), Ok(2));
    assert_eq!(vote(Phase::First, 1, None), Ok(1));
    assert_eq!(vote(Phase::Second, 1, block), Ok(1));
    assert_eq!(vote(Phase::First, 6, None), Err(Malformed::Stale));
}

#[test]
fn members_weigh_the_same_for_ever() {
    let with_weights = |weights: [u16; 4], administrators: Vec<PublicKey>| {
        let member = |(key, weight)| Some(Member { weight, ..Member::new(key) });
        let members = keys(4).into_iter().zip(weights).map(member).collect();
        let approvals = u16::from(!administrators.is_empty());
        let governance = Governance { administrators, approvals };
        let opening = Opening { after: Digest([7; 32]), height: Height(0) };
        Committee::with_members(Digest([7; 32]), Epoch(0), opening, members, governance).unwrap()
    };
    assert!(supports(&with_weights([1, 1, 1, 0], Vec::new())));
    assert!(!supports(&with_weights([1, 1, 1, 2], Vec::new())));
    assert!(!supports(&with_weights([1, 1, 1, 1], vec![PublicKey([1; 32])])));
}

/// The largest memory there is fits the room that is kept for it, and can be read again.
#[test]
fn the_largest_memory_fits() {
    let block = (BLOCK, Signature::from(SEAL));
    let high_qc = qc(8, 0..7, 0..0);
    let entries = tc(9, 8).entries[0];
    let entries = (0..7).map(|id| GaveUp { replica: ReplicaId(id), ..entries }).collect();
    let memory = Memory {
        said: Said {
            view: View(10),
            first: Some(Some(block)),
            fallbacks: vec![block; MAX_FALLBACKS],
            second: Some(BLOCK),
            gave_up: Some(high_qc.clone()),
        },
        high_qc,
        tc: Some(Tc { view: View(9), entries }),
        decided: Some(Commit {
            phase: Phase::First,
            view: View(8),
            block: BLOCK,
            votes: signed(0..7),
        }),
    };
    let bytes = memory.to_bytes();
    assert!(bytes.len() <= memory_bytes(7), "{} > {}", bytes.len(), memory_bytes(7));
    assert!(bytes.len() + 64 > memory_bytes(7), "{} of {}", bytes.len(), memory_bytes(7));
    assert_eq!(Memory::decode(&mut Reader::new(bytes.into())), Ok(memory));
}
