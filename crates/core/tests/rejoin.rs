//! What a replica that lost its data makes of the others' testimonies.

use quorate_sim as cluster;

use cluster::disk::Disk;
use cluster::keys::Key;
use cluster::network::Fate;
use cluster::{Cluster, Config, Peer, status_of};
use quorate_core::base::crypto::Signer as _;
use quorate_core::base::membership::ReplicaKey;
use quorate_core::base::wire::{Decode as _, Encode as _};
use quorate_core::protocols::hotstuff::Message;
use quorate_core::protocols::hotstuff::block::Block;
use quorate_core::protocols::hotstuff::certificate::{Proof, Qc};
use quorate_core::protocols::hotstuff::safety::Safety;
use quorate_core::protocols::hotstuff::testimony::{ABSTAINED_VIEWS, Testimony, recollect};
use quorate_core::protocols::protocol::{Ballot, Malformed};
use quorate_core::replica::message::PeerMessage;
use quorate_core::replica::rejoin::Rejoin;
use quorate_core::replica::{Input, Refused};
use quorate_core::{Committee, Digest, Epoch, ReplicaId, View};

fn committee(replicas: u8) -> Committee {
    let keys = (0..replicas).map(|i| ReplicaKey::from([i; 32])).collect();
    Committee::new(Digest::default(), Epoch(0), keys).expect("a committee")
}

/// What a replica says whose highest certificate is of the view before `view`.
fn testimony(view: u64) -> Testimony {
    let ballot = Ballot { view: View(view - 1), phase: 1, block: Digest::default() };
    let mut bytes = ballot.to_bytes();
    Proof::List(Vec::new()).encode(&mut bytes);
    let high_qc = Qc::from_bytes(bytes.into()).expect("well formed");
    Testimony { view: View(view), high_qc, high_tc: None }
}

/// Hears views of replicas 1, 2, … and returns the record that the last of them leads to.
fn hear(replicas: u8, views: &[u64]) -> Option<Safety> {
    let mut rejoin = Rejoin::new(Digest([7; 32]), &committee(replicas));
    let mut safety = None;
    for (i, view) in views.iter().enumerate() {
        assert_eq!(safety, None, "a quorum was not needed");
        let from = ReplicaId(1 + i as u16);
        let testimonies = rejoin.testimony(from, testimony(*view));
        safety = testimonies.and_then(|all| recollect(&all, Safety::new(Digest::default())));
    }
    safety
}

#[test]
fn a_quorum_is_needed_and_the_highest_view_counts() {
    assert_eq!(hear(4, &[5, 9]), None);
    let safety = hear(4, &[5, 9, 7]).expect("three of three others");
    assert_eq!(safety.abstain_until, View(9 + ABSTAINED_VIEWS));
    assert_eq!(safety.high_qc.view(), View(8));
    // However many say less.
    let safety = hear(10, &[1, 1, 1, 9, 1, 1, 1]).expect("seven others");
    assert_eq!(safety.abstain_until, View(9 + ABSTAINED_VIEWS));
}

/// What `from` says to the question of replica `asker`, which chose the nonce 7.
fn signed(cluster: &Cluster, from: usize, asker: u16, view: View) -> Peer {
    let nonce = Digest([7; 32]);
    let mut bytes = nonce.0.to_vec();
    bytes.extend_from_slice(&asker.to_le_bytes());
    let content = Digest::of("quorate testimony", &bytes);
    let domain = cluster.config.domain();
    let signature = Key::of_replica(from).sign(&domain.testimony(view, &content));
    let committee = domain.committee();
    let high_qc = Qc::genesis(Block::genesis(committee.chain(), committee.epoch()).id());
    let testimony = Testimony { view, high_qc, high_tc: None };
    PeerMessage::Testimony { nonce, testimony, signature }
}

#[test]
fn a_view_without_its_certificate_is_refused() {
    let mut cluster = Cluster::new(Config::default());
    cluster.crash(3);
    cluster.slots[3].disk = Disk::default();
    cluster.network.partition(|slot| usize::from(slot == 3));
    cluster.rejoin(3, 7);
    cluster.run_for(10_000);
    cluster.refused.clear();
    for view in [2, 9, u64::MAX] {
        let told = signed(&cluster, 1, 3, View(view));
        cluster.inject(1, 3, &told);
    }
    cluster.run_for(1_000);
    let reason = Refused::Malformed(Malformed::Contradiction);
    assert_eq!(
        cluster.refused.iter().map(|(of, count)| (*of, *count)).collect::<Vec<_>>(),
        [(reason, 3)]
    );
    assert!(cluster.core(3).is_rejoining());
    cluster.network.heal();
    assert!(cluster.run_until(5_000_000, |cluster| !cluster.core(3).is_rejoining()));
}

/// Ten replicas: r9 loses its data, and counts toward f = 3 with two liars. Those say that they
/// have seen nothing, three correct ones were cut off and have seen nothing, two of the correct
/// ones that went on with r9 are slow to answer. Two of the seven that answer know how far it came,
/// by time-outs that no certificate of votes tells of.
#[test]
fn liars_and_those_who_were_cut_off_do_not_hide_what_was_signed() {
    const VICTIM: usize = 9;
    let mut cluster = Cluster::new(Config { replicas: 10, ..Config::default() });
    cluster.request(0, 1, 10);
    assert!(cluster.run_until_answered(10_000_000));
    cluster.network.partition(|slot| usize::from((6..VICTIM).contains(&slot)));
    cluster.drops = Some(|_, _, message| {
        matches!(message, PeerMessage::Protocol { message: Message::Proposal { .. }, .. })
    });
    cluster.request(0, 1, 10);
    let far = |cluster: &Cluster| status_of(cluster.core(VICTIM)).view.0 > 3 * ABSTAINED_VIEWS;
    assert!(cluster.run_until(600_000_000, far));
    let spoke_in = status_of(cluster.core(VICTIM)).view;
    cluster.crash(VICTIM);
    cluster.slots[VICTIM].disk = Disk::default();
    cluster.network.heal();
    cluster.meddler = Some(Box::new(|from, to, message| {
        let cut_off = |slot: usize| (6..VICTIM).contains(&slot);
        let apart = cut_off(from) != cut_off(to) && from != VICTIM && to != VICTIM;
        let testimony = matches!(message, PeerMessage::Testimony { .. });
        if apart || testimony && [0, 1, 4, 5].contains(&from) { Fate::Lost } else { Fate::Goes }
    }));
    cluster.rejoin(VICTIM, 7);
    for liar in [0, 1] {
        let told = signed(&cluster, liar, VICTIM as u16, View(1));
        cluster.inject(liar, VICTIM, &told);
    }
    assert!(cluster.run_until(5_000_000, |cluster| !cluster.core(VICTIM).is_rejoining()));
    assert!(status_of(cluster.core(VICTIM)).abstain_until >= spoke_in);
}

/// An idle cluster makes no views, so that abstention counted in views does not end: the replica
/// that came back stands for one that is faulty. It ends while there is work, and where somebody
/// wishes for roots.
#[test]
fn abstention_in_an_idle_cluster_ends_with_the_views_that_somebody_asks_for() {
    const BACK: usize = 3;
    let abstains = |cluster: &Cluster| {
        let status = status_of(cluster.core(BACK));
        status.abstain_until >= status.view
    };
    let came_back = || {
        let mut cluster = Cluster::new(Config::default());
        cluster.request(0, 3, 10);
        assert!(cluster.run_until_answered(5_000_000));
        cluster.crash(BACK);
        cluster.slots[BACK].disk = Disk::default();
        cluster.rejoin(BACK, 7);
        assert!(cluster.run_until(5_000_000, |cluster| !cluster.core(BACK).is_rejoining()));
        cluster.run_for(600_000_000);
        assert!(abstains(&cluster), "ten minutes without a view");
        cluster
    };
    let mut cluster = came_back();
    for _ in 0..2 * ABSTAINED_VIEWS {
        cluster.request(0, 1, 10);
        assert!(cluster.run_until_answered(5_000_000));
    }
    assert!(!abstains(&cluster), "there was work");
    let mut cluster = came_back();
    for _ in 0..2 * ABSTAINED_VIEWS {
        cluster.turn(BACK, Input::Show);
        cluster.run_for(2_000_000);
    }
    assert!(!abstains(&cluster), "it asked for views");
    // Then another one may fail.
    cluster.crash(0);
    cluster.request(0, 1, 10);
    assert!(cluster.run_until_answered(60_000_000));
}
