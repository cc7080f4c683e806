//! A liar sends more than anybody could want.

use std::sync::Arc;

use quorate_core::base::crypto::{ClientSigner as _, Signature, Signer as _};
use quorate_core::ledger::frame::{Frame, SharedFrame};
use quorate_core::ledger::mempool::{Cap, Limits};
use quorate_core::protocols::hotstuff::Message;
use quorate_core::protocols::hotstuff::certificate::Vote;
use quorate_core::protocols::protocol::Ballot;
use quorate_core::replica::message::PeerMessage;
use quorate_core::{Digest, ReplicaId, Sequence, SessionId, View};
use quorate_sim::keys::{CHAIN, Key};
use quorate_sim::{Cluster, Config};

use super::{LIAR, ahead, next_view_of, recover, start, tell_all, work};

/// More than what is remembered of anything.
const MANY: u64 = 5_000;

/// Votes of views that are far away.
pub fn votes(place: &mut Option<Cluster>) {
    let cluster = start(place, Config::default(), Some(LIAR));
    work(cluster, 3);
    let first = next_view_of(cluster, LIAR).0;
    for view in (first..first + 100).map(View) {
        let ballot = Ballot { view, phase: 1, block: Digest([7; 32]) };
        let (voter, signature) = (ReplicaId(LIAR as u16), Signature::from([9; 64]));
        tell_all(cluster, LIAR, &Message::Vote(Vote { ballot, voter, signature }));
    }
    recover(cluster);
}

/// Messages faster than their signatures can be verified.
pub fn messages(place: &mut Option<Cluster>) {
    let verify_delay = Some((1_000, 2_000));
    let cluster = start(place, Config { verify_delay, ..Config::default() }, Some(LIAR));
    work(cluster, 3);
    let high_qc = ahead(cluster).protocol().high_qc().clone();
    let first = next_view_of(cluster, LIAR).0;
    for view in (first..first + 500).map(View) {
        for to in 0..LIAR {
            let message = Message::NewView { view, high_qc: high_qc.clone() };
            cluster.inject(LIAR, to, &PeerMessage::of(message));
            let frames = vec![frame(100 + view.0 as usize, 1, true)];
            cluster.inject(LIAR, to, &PeerMessage::Relay(frames));
        }
    }
    cluster.run_for(100_000);
    recover(cluster);
}

/// A frame by which a client that nobody knows opens a session, or one of its commands.
fn frame(client: usize, incarnation: u64, signs: bool) -> SharedFrame {
    let key = Key::of_client(client);
    let sign = |statement: &_| if signs { key.sign(statement) } else { Signature::from([9; 64]) };
    Arc::new(Frame::open(key.public_key(), incarnation, &CHAIN, sign))
}

/// Frames of clients whose signatures hold, and more of them than there is room for.
pub fn frames(place: &mut Option<Cluster>) {
    let few = Cap { frames: 50, bytes: 1 << 20 };
    let mempool = Limits { session: few, key: few, submitted: few, learnt: few };
    let cluster = start(place, Config { mempool, ..Config::default() }, Some(LIAR));
    work(cluster, 3);
    for client in 0..10 {
        let frames: Vec<SharedFrame> =
            (0..40).map(|i| frame(100 + client * 40 + i, 1, true)).collect();
        for to in 0..LIAR {
            cluster.inject(LIAR, to, &PeerMessage::Relay(frames.clone()));
        }
    }
    cluster.run_for(100_000);
    recover(cluster);
}

/// Signatures that hold, and more of them than are remembered.
pub fn signatures(place: &mut Option<Cluster>) {
    let few = Cap { frames: 50, bytes: 1 << 20 };
    let mempool = Limits { session: few, key: few, submitted: few, learnt: few };
    let cluster = start(place, Config { mempool, ..Config::default() }, Some(LIAR));
    work(cluster, 1);
    for first in (0..MANY).step_by(500) {
        let frames = (first..first + 500).map(|i| frame(100 + i as usize, 1, true)).collect();
        cluster.inject(LIAR, 0, &PeerMessage::Relay(frames));
        cluster.run_for(1_000);
    }
    cluster.run_for(100_000);
    recover(cluster);
}

/// Commands in the name of a client that did not sign them.
pub fn forged_frames(place: &mut Option<Cluster>) {
    let cluster = start(place, Config::default(), Some(LIAR));
    work(cluster, 3);
    let key = Key::of_client(0).public_key();
    let command: &[u8] = b"c0:4 forged";
    for session in 1..3 {
        let junk = |_: &_| Signature::from([9; 64]);
        let frame = Frame::build(key, SessionId(session), Sequence(4), [command], &CHAIN, junk);
        let frame = Arc::new(frame.expect("one command"));
        for to in 0..LIAR {
            cluster.inject(LIAR, to, &PeerMessage::Relay(vec![Arc::clone(&frame)]));
        }
    }
    cluster.run_for(500_000);
    recover(cluster);
}
