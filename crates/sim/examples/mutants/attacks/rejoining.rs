//! Replicas that lost their data, and what they are told by liars.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use quorate_core::base::crypto::Signer as _;
use quorate_core::protocols::hotstuff::Message;
use quorate_core::protocols::hotstuff::block::{Block, Content};
use quorate_core::protocols::hotstuff::certificate::{Qc, Tc};
use quorate_core::protocols::hotstuff::testimony::Testimony;
use quorate_core::protocols::protocol::Protocol as _;
use quorate_core::replica::message::PeerMessage;
use quorate_core::{Digest, View};
use quorate_sim::disk::Disk;
use quorate_sim::keys::Key;
use quorate_sim::network::Fate;
use quorate_sim::{Cluster, Config, Peer};

use super::{Attack, LIAR, next_view_of, recover, start, work};
use crate::schedules::variants;

/// The attacks.
pub const ATTACKS: [(&str, Attack); 3] = [
    ("speaks at once", speaks_at_once),
    ("one testimony", one_testimony),
    ("old testimonies", old_testimonies),
];

/// Who loses its data.
const VICTIM: usize = 0;
/// The nonce of the first rejoining, and of the second.
const NONCES: [u8; 2] = [1, 2];

/// The liar makes the victim vote for a block, which then loses its data; and shows it another
/// block of the same view. Meanwhile `testify` says what the victim is told.
fn votes_again(cluster: &mut Cluster, testify: impl FnOnce(&mut Cluster)) {
    let leads = |cluster: &Cluster| next_view_of(cluster, LIAR).0;
    // The liar's next proposal reaches the victim alone.
    let proposal: Rc<RefCell<Option<Peer>>> = Rc::default();
    let kept = Rc::clone(&proposal);
    let view = View(leads(cluster));
    cluster.meddler = Some(Box::new(move |from, to, message| match message {
        PeerMessage::Protocol { message: Message::Proposal { block, .. }, .. }
            if from == LIAR && block.view == view =>
        {
            *kept.borrow_mut() = Some(message.clone());
            if to == VICTIM { Fate::Goes } else { Fate::Lost }
        }
        _ if kept.borrow().is_some() && from == VICTIM => Fate::Lost,
        _ => Fate::Goes,
    }));
    for _ in 0..8 {
        if proposal.borrow().is_none() {
            cluster.request(0, 1, 10);
            cluster.run_for(3_000);
        }
    }
    cluster.run_for(2_000);
    let Some(shown) = proposal.borrow().clone() else { panic!("harness: the liar does not lead") };
    // From now on the victim hears the liar alone; the others just hand it blocks.
    cluster.meddler = Some(Box::new(|from, to, message| {
        let blocks = matches!(message, PeerMessage::FetchChain { .. } | PeerMessage::Chain(_));
        let apart = from == VICTIM && to != LIAR || to == VICTIM && from != LIAR;
        if apart && !blocks { Fate::Lost } else { Fate::Goes }
    }));
    cluster.crash(VICTIM);
    cluster.slots[VICTIM].disk = Disk::default();
    cluster.rejoin(VICTIM, NONCES[1]);
    testify(cluster);
    cluster.run_for(20_000);
    let PeerMessage::Protocol { message: Message::Proposal { block, tc }, .. } = shown else {
        return;
    };
    let content = Content { frames: Vec::new(), ..Content::clone(&block) };
    let block = Arc::new(Block::new(content));
    let high_qc = block.justify.clone();
    let told = Message::Advance { high_qc, high_tc: tc.clone(), decided: None, is_answer: false };
    for _ in 0..3 {
        cluster.inject(LIAR, VICTIM, &PeerMessage::of(told.clone()));
        cluster.run_for(30_000);
        let (block, tc) = (Arc::clone(&block), tc.clone());
        cluster.inject(LIAR, VICTIM, &PeerMessage::of(Message::Proposal { block, tc }));
        cluster.run_for(30_000);
    }
}

/// What a replica says to the victim's question.
fn testimony(
    cluster: &Cluster,
    from: usize,
    nonce: u8,
    view: View,
    (high_qc, high_tc): (Qc, Option<Tc>),
) -> Peer {
    let nonce = Digest([nonce; 32]);
    let mut bytes = nonce.0.to_vec();
    bytes.extend_from_slice(&(VICTIM as u16).to_le_bytes());
    let content = Digest::of("quorate testimony", &bytes);
    let signature = Key::of_replica(from).sign(&cluster.config.domain().testimony(view, &content));
    let testimony = Testimony { view, high_qc, high_tc };
    PeerMessage::Testimony { nonce, testimony, signature }
}

/// What a replica shows that has seen nothing yet.
fn nothing() -> (Qc, Option<Tc>) {
    let genesis = Block::genesis(quorate_sim::keys::CHAIN, quorate_core::Epoch(0)).id();
    (Qc::genesis(genesis), None)
}

fn cluster_at_work(place: &mut Option<Cluster>, rules: usize, requests: usize) -> &mut Cluster {
    let rules = variants()[rules];
    let cluster = start(place, Config { rules, ..Config::default() }, Some(LIAR));
    work(cluster, requests);
    cluster
}

/// All say the truth.
fn speaks_at_once(place: &mut Option<Cluster>) {
    for rules in 0..variants().len() {
        let cluster = cluster_at_work(place, rules, 12);
        votes_again(cluster, |cluster| {
            for from in 1..4 {
                let core = cluster.core(from).protocol();
                let proofs = (core.high_qc().clone(), core.high_tc().cloned());
                let told = testimony(cluster, from, NONCES[1], core.view(), proofs);
                cluster.inject(from, VICTIM, &told);
            }
        });
        recover(cluster);
    }
}

/// Only the liar is heard, and says that it has seen nothing yet.
fn one_testimony(place: &mut Option<Cluster>) {
    for rules in 0..variants().len() {
        let cluster = cluster_at_work(place, rules, 12);
        votes_again(cluster, |cluster| {
            let told = testimony(cluster, LIAR, NONCES[1], View(0), nothing());
            cluster.inject(LIAR, VICTIM, &told);
        });
        recover(cluster);
    }
}

/// The liar repeats what all said when the victim lost its data for the first time.
fn old_testimonies(place: &mut Option<Cluster>) {
    for rules in 0..variants().len() {
        let cluster = cluster_at_work(place, rules, 12);
        votes_again(cluster, |cluster| {
            for from in 1..4 {
                let told = testimony(cluster, from, NONCES[0], View(0), nothing());
                cluster.inject(from, VICTIM, &told);
            }
        });
        recover(cluster);
    }
}
