//! What a replica that lost its data makes of the others' testimonies.

use quorate_core::certificate::Qc;
use quorate_core::committee::ReplicaKey;
use quorate_core::protocol::Safety;
use quorate_core::replica::rejoin::{ABSTAINED_VIEWS, Rejoin};
use quorate_core::{Committee, Digest, Epoch, ReplicaId, View};

fn committee(replicas: u8) -> Committee {
    let keys = (0..replicas).map(|i| ReplicaKey::from([i; 32])).collect();
    Committee::new(Digest::default(), Epoch(0), keys).expect("a committee")
}

/// Hears views of replicas 1, 2, … and returns the record that the last of them leads to.
fn hear(replicas: u8, views: &[u64]) -> Option<Safety> {
    let genesis = Digest::default();
    let mut rejoin = Rejoin::new(Digest([7; 32]), &committee(replicas));
    let mut safety = None;
    for (i, view) in views.iter().enumerate() {
        assert_eq!(safety, None, "a quorum was not needed");
        let from = ReplicaId(1 + i as u16);
        safety = rejoin.testimony(from, View(*view), Qc::genesis(genesis), Safety::new(genesis));
    }
    safety
}

#[test]
fn a_quorum_is_needed_and_the_highest_view_counts() {
    assert_eq!(hear(4, &[5, 9]), None);
    let safety = hear(4, &[5, 9, 7]).expect("three of three others");
    assert_eq!(safety.abstain_until, View(9 + ABSTAINED_VIEWS));
}

/// With n = 7 the replica that lost its data is one of f = 2: one of the others may lie.
#[test]
fn a_liar_cannot_name_a_view_out_of_reach() {
    let safety = hear(7, &[5, u64::MAX, 9, 7, 6]).expect("five others");
    assert_eq!(safety.abstain_until, View(9 + ABSTAINED_VIEWS));
}
