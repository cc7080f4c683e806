//! The votes at hand: a few places a peer, whatever it sends.

use quorate_core::base::crypto::Signature;
use quorate_core::protocols::hotstuff::certificate::Vote;
use quorate_core::protocols::hotstuff::votes::VoteCollector;
use quorate_core::{Digest, ReplicaId, View};

use crate::cluster::keys::committee;
use crate::forge::{FORMS, domain, vote};

const BLOCK: Digest = Digest([3; 32]);
const OTHER: Digest = Digest([4; 32]);

fn of(voter: u16, view: u64, phase: u8, block: Digest) -> Vote {
    vote(&domain(4, FORMS[0]), voter, view, phase, block)
}

fn collector() -> VoteCollector {
    VoteCollector::new(&committee(4))
}

#[test]
fn the_first_vote_of_a_view_and_phase_counts() {
    let mut votes = collector();
    assert_eq!(votes.add(of(1, 5, 1, BLOCK)), None);
    assert_eq!(votes.add(of(2, 5, 1, BLOCK)), None);
    // Another block, the same once more, and another phase.
    assert_eq!(votes.add(of(1, 5, 1, OTHER)), None);
    assert_eq!(votes.add(of(2, 5, 1, BLOCK)), None);
    assert_eq!(votes.add(of(3, 5, 2, BLOCK)), None);
    let complete = votes.add(of(3, 5, 1, BLOCK)).expect("three agree");
    assert_eq!(complete.iter().map(|vote| vote.voter.0).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(votes.quorum_for(&of(1, 5, 1, OTHER).ballot), None);
}

/// A peer that votes for ever later views pushes out its own votes, and nobody else's.
#[test]
fn a_peer_has_a_few_places() {
    let mut votes = collector();
    for voter in [1, 2] {
        votes.add(of(voter, 5, 1, BLOCK));
    }
    for view in 1..1_000 {
        votes.add(of(3, view, 1, BLOCK));
    }
    assert!(votes.quorum_for(&of(1, 5, 1, BLOCK).ballot).is_none(), "its vote for view 5 is gone");
    assert!(votes.add(of(0, 5, 1, BLOCK)).is_some(), "the others' are not");
    let mut votes = collector();
    // Six: earlier ones are not taken in once they are full of later ones.
    for view in (1..=6).rev() {
        votes.add(of(3, view, 1, BLOCK));
    }
    for voter in [1, 2] {
        votes.add(of(voter, 1, 1, BLOCK));
    }
    assert!(votes.quorum_for(&of(1, 1, 1, BLOCK).ballot).is_some());
    votes.add(of(3, 7, 1, BLOCK));
    assert!(votes.quorum_for(&of(1, 1, 1, BLOCK).ballot).is_none());
}

#[test]
fn who_forged_a_vote_is_ignored_up_to_its_view() {
    let mut votes = collector();
    for voter in [1, 2, 3] {
        votes.add(of(voter, 5, 1, BLOCK));
    }
    votes.refuse(&of(3, 5, 1, BLOCK));
    assert_eq!(votes.quorum_for(&of(1, 5, 1, BLOCK).ballot), None);
    for (view, phase) in [(5, 1), (5, 2), (4, 1)] {
        assert_eq!(votes.add(of(3, view, phase, BLOCK)), None);
    }
    assert!(votes.quorum_for(&of(1, 5, 1, BLOCK).ballot).is_none());
    for voter in [1, 2] {
        votes.add(of(voter, 6, 1, BLOCK));
    }
    assert!(votes.add(of(3, 6, 1, BLOCK)).is_some(), "a later view is another matter");
}

#[test]
fn a_stranger_has_no_place() {
    let mut votes = collector();
    let stranger = Vote { voter: ReplicaId(4), signature: Signature::NONE, ..of(1, 5, 1, BLOCK) };
    assert_eq!(votes.add(stranger), None);
    votes.refuse(&stranger);
    for voter in [1, 2] {
        assert_eq!(votes.add(of(voter, 5, 1, BLOCK)), None);
    }
    assert!(votes.add(of(3, 5, 1, BLOCK)).is_some());
}

#[test]
fn what_is_over_is_forgotten() {
    let mut votes = collector();
    for voter in [1, 2, 3] {
        votes.add(of(voter, 5, 1, BLOCK));
        votes.add(of(voter, 6, 1, BLOCK));
    }
    votes.forget_below(View(6));
    assert!(votes.quorum_for(&of(1, 5, 1, BLOCK).ballot).is_none());
    assert!(votes.quorum_for(&of(1, 6, 1, BLOCK).ballot).is_some());
}
