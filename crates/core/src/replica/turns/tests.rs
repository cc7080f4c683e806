use super::*;
use crate::base::crypto::{Share, Signature, Statement};
use crate::base::types::{Digest, Epoch, View};

fn checks(count: usize) -> Vec<Check> {
    let kind = crate::base::crypto::Kind::Vote;
    let statement =
        Statement::new(&Digest::default(), Epoch(0), 1, kind, View(1), 1, &Digest::default());
    vec![
        Check::Replica(Share { signer: ReplicaId(0), statement, signature: Signature::NONE });
        count
    ]
}

fn cost(peer: u16, checks: usize, bytes: usize) -> Cost {
    Cost { peer: ReplicaId(peer), checks, bytes }
}

/// The asks that are given to the verifier, each coming back at once.
fn order(turns: &mut Turns, now: Time) -> Vec<u64> {
    let next = || {
        let piece = turns.next(now)?;
        turns.came_back(piece.weight());
        Some(piece.ask)
    };
    std::iter::from_fn(next).collect()
}

#[test]
fn an_account_has_messages_checks_and_bytes() {
    let mut turns = Turns::new(4);
    let now = Time(0);
    assert!(turns.admit(now, cost(1, 10 * CHECKS, 0)), "one message always fits");
    assert!(!turns.admit(now, cost(1, 1, 0)));
    assert!(turns.admit(now, cost(2, 1, BYTES)));
    assert!(!turns.admit(now, cost(2, 1, 1)), "a liar pins no more than two of the longest");
    for _ in 0..MESSAGES {
        assert!(turns.admit(now, cost(3, 1, 1)));
    }
    assert!(!turns.admit(now, cost(3, 1, 1)));
    assert_eq!(turns.messages(), 1 + 1 + MESSAGES);
    turns.settle(cost(1, 10 * CHECKS, 0));
    assert!(turns.admit(now, cost(1, 1, 0)));
    assert!(!turns.admit(now, cost(9, 1, 1)), "there is no such replica");
}

#[test]
fn the_protocols_messages_go_first_and_peers_take_turns() {
    let mut turns = Turns::new(4);
    for ask in 0..3 {
        turns.wait(ReplicaId(1), Class::Other, 10 + ask, checks(1));
        turns.wait(ReplicaId(1), Class::Protocol, 20 + ask, checks(1));
    }
    turns.wait(ReplicaId(2), Class::Other, 30, checks(1));
    turns.wait(ReplicaId(3), Class::Protocol, 40, checks(1));
    assert_eq!(order(&mut turns, Time(0)), [20, 40, 21, 22, 10, 30, 11, 12]);
}

/// However much others have sent, a vote waits for a few hundred checks.
#[test]
fn a_vote_waits_for_little_though_thousands_of_checks_wait() {
    let mut turns = Turns::new(4);
    for ask in 0..60 {
        turns.wait(ReplicaId(3), Class::Other, ask, checks(4096));
    }
    let given: usize =
        std::iter::from_fn(|| turns.next(Time(0))).map(|piece| piece.checks.len()).sum();
    assert!(given < 512 + PIECE, "{given}");
    turns.wait(ReplicaId(1), Class::Protocol, 77, checks(1));
    assert_eq!(turns.next(Time(0)).map(|piece| piece.ask), Some(77), "it is given at once");
}

#[test]
fn pieces_of_an_ask_are_all_of_it() {
    let mut turns = Turns::new(2);
    turns.wait(ReplicaId(1), Class::Other, 5, checks(300));
    let mut at = 0;
    while let Some(piece) = turns.next(Time(0)) {
        assert_eq!((piece.ask, piece.start), (5, at));
        at += piece.checks.len();
        turns.came_back(piece.checks.len());
    }
    assert_eq!(at, 300);
}

#[test]
fn a_peer_whose_signature_was_bad_is_last_and_has_one_message_for_a_while() {
    let mut turns = Turns::new(4);
    let now = Time(0);
    turns.distrust(now, ReplicaId(1));
    turns.wait(ReplicaId(1), Class::Protocol, 1, checks(1));
    turns.wait(ReplicaId(2), Class::Other, 2, checks(1));
    turns.wait(ReplicaId(3), Class::Protocol, 3, checks(1));
    assert_eq!(order(&mut turns, now), [3, 2, 1]);
    assert!(turns.admit(now, cost(1, 1, 1)));
    assert!(!turns.admit(now, cost(1, 1, 1)));
    let later = now.after(DISTRUSTED_FOR);
    assert!(turns.admit(later, cost(1, 1, 1)), "it is forgiven");
}

/// A dealing of a hundred members costs as much as hundreds of signatures, and a vote waits no
/// longer for it.
#[test]
fn long_lists_are_cut_by_what_their_checks_weigh() {
    let round = crate::base::crypto::Round {
        context: Digest::default(),
        keys: vec![[0; 32]; 100],
        quorum: 67,
    };
    let (round, dealing) = (std::sync::Arc::new(round), bytes::Bytes::new());
    let heavy = Check::Dealing { round, dealer: 0, dealing };
    assert!(heavy.weight() > PIECE);
    let mut all = checks(PIECE + 1);
    all.insert(2, heavy);
    let total: usize = all.iter().map(Check::weight).sum();
    let mut turns = Turns::new(4);
    let cost = |checks| Cost { peer: ReplicaId(1), checks, bytes: 0 };
    assert!(turns.admit(Time(0), cost(total)));
    assert!(!turns.admit(Time(0), cost(CHECKS)), "the account counts weights");
    turns.wait(ReplicaId(1), Class::Other, 7, all);
    let pieces = std::iter::from_fn(|| {
        let piece = turns.next(Time(0))?;
        turns.came_back(piece.weight());
        Some((piece.start, piece.checks.len()))
    });
    let pieces: Vec<_> = pieces.collect();
    assert_eq!(pieces, [(0, 2), (2, 1), (3, PIECE - 1)]);
}
