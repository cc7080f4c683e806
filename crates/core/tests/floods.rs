//! One peer sends without end. The others answer their client all the same, and hold no more for
//! it than a few messages.

use quorate_sim as cluster;

use std::sync::Arc;

use cluster::adversary::Liar;
use cluster::keys::{CHAIN, Key};
use cluster::{Cluster, Config, Peer, status_of};
use quorate_core::base::crypto::{ClientSigner as _, Signature};
use quorate_core::ledger::frame::Frame;
use quorate_core::protocols::hotstuff::Message;
use quorate_core::protocols::hotstuff::block::{Block, Content};
use quorate_core::protocols::hotstuff::certificate::Qc;
use quorate_core::protocols::hotstuff::leader::Election;
use quorate_core::protocols::protocol::{Malformed, Protocol as _};
use quorate_core::replica::Refused;
use quorate_core::replica::message::PeerMessage;
use quorate_core::{Digest, Epoch, Height, ReplicaId, Sequence, SessionId, View};

const LIAR: usize = 3;

/// r3 floods the others with what `make` makes of a number, while a client wants to be served.
fn flooded(make: impl Fn(u64, usize, &Cluster) -> Peer) -> Cluster {
    let verify_delay = Some((100, 2_000));
    let mut cluster = Cluster::new(Config { verify_delay, ..Config::default() });
    cluster.request(0, 1, 10);
    assert!(cluster.run_until_answered(10_000_000));
    cluster.crash(LIAR);
    cluster.slots[LIAR].faulty = true;
    let mut number = 0;
    for round in 0..10 {
        cluster.request(0, 1, 10);
        for _ in 0..50 {
            for to in 0..3 {
                for _ in 0..10 {
                    number += 1;
                    let message = make(number, to, &cluster);
                    cluster.inject(LIAR, to, &message);
                }
            }
            cluster.run_for(1_000);
        }
        assert!(cluster.run_until_answered(10_000_000), "round {round}");
    }
    for core in cluster.correct() {
        assert!(core.held_blocks() < 20, "{}", core.held_blocks());
        assert!(status_of(core).uncommitted < 20);
    }
    cluster.run_for(20_000_000);
    assert!(!cluster.has_timer(), "the flood is over, and so is the work");
    cluster
}

fn liar(to: usize) -> Liar {
    Liar { id: LIAR, domain: Config::default().domain(), to }
}

fn high_qc(cluster: &Cluster, of: usize) -> Qc {
    cluster.core(of).protocol().high_qc().clone()
}

#[test]
fn votes_of_future_views() {
    flooded(|number, to, cluster| {
        let view = View(status_of(cluster.core(to)).view.0 + number);
        PeerMessage::of(Message::Vote(liar(to).vote(view, 1, Digest([number as u8; 32]))))
    });
}

#[test]
fn time_outs_of_future_views() {
    let cluster = flooded(|number, to, cluster| {
        let high_qc = high_qc(cluster, to);
        let view = View(status_of(cluster.core(to)).view.0 + number * 1_000);
        let time_out = liar(to).time_out(view, &high_qc);
        PeerMessage::of(Message::TimeOut { time_out, high_qc, high_tc: None, last_vote: None })
    });
    assert!(cluster.highest_view().0 < 500, "one liar moves nobody");
}

#[test]
fn time_outs_of_views_long_past_are_answered_by_no_more_than_they_cost() {
    let cluster = flooded(|number, to, cluster| {
        let high_qc = Qc::genesis(Block::genesis(CHAIN, Epoch(0)).id());
        let past = status_of(cluster.core(to)).view.0.max(1);
        let time_out = liar(to).time_out(View(1 + number % past), &high_qc);
        PeerMessage::of(Message::TimeOut { time_out, high_qc, high_tc: None, last_vote: None })
    });
    let sent: u64 = cluster.slots.iter().map(|slot| slot.sent).sum();
    assert!(sent < 10_000 + 15_000, "{sent} messages for 15000 of a liar");
}

#[test]
fn proposals_whose_bodies_nobody_has() {
    flooded(|number, to, cluster| {
        let justify = high_qc(cluster, to);
        // The next view that r3 leads.
        let view = View((justify.view().0 / 4) * 4 + 3);
        let height = status_of(cluster.core(to)).committed;
        let block = Arc::new(Block::new(Content {
            epoch: Epoch(0),
            view,
            height: Height(height.0 + 3),
            proposer: ReplicaId(LIAR as u16),
            justify,
            state_root: Digest::default(),
            frames: vec![Digest::of("nobody's frame", &number.to_le_bytes())],
        }));
        PeerMessage::of(Message::Proposal { block, tc: None })
    });
}

/// r3, which leads for ever, falls silent in an idle cluster. The others have its last block and,
/// below it, an older one that is not committed yet.
fn left_by_its_leader() -> Cluster {
    let election = Election::Fixed(ReplicaId(LIAR as u16));
    let mut cluster = Cluster::new(Config { election, ..Config::default() });
    cluster.request(0, 3, 10);
    assert!(cluster.run_until_answered(10_000_000));
    cluster.run_for(1_000_000);
    cluster
}

#[test]
fn blocks_of_a_leaders_older_views() {
    let mut cluster = left_by_its_leader();
    cluster.crash(LIAR);
    cluster.slots[LIAR].faulty = true;
    let tree = cluster.core(0).protocol().tree();
    let last = high_qc(&cluster, 0).block();
    let older = Content::clone(tree.get(&last).expect("it is certified"));
    assert!(older.height > tree.root().height);
    for number in 0..200u64 {
        let state_root = Digest::of("made up", &number.to_le_bytes());
        let block = Arc::new(Block::new(Content { state_root, ..older.clone() }));
        for to in 0..LIAR {
            let block = Arc::clone(&block);
            cluster.inject(LIAR, to, &PeerMessage::of(Message::Proposal { block, tc: None }));
        }
        cluster.run_for(10_000);
    }
    for core in cluster.correct() {
        assert!(status_of(core).uncommitted < 20, "{}", status_of(core).uncommitted);
    }
}

/// A proposal whose bodies never come tells of certificates all the same.
#[test]
fn certificates_do_not_wait_for_bodies() {
    let mut cluster = left_by_its_leader();
    let justify = high_qc(&cluster, LIAR);
    assert!(high_qc(&cluster, 0).view() < justify.view());
    let tree = cluster.core(LIAR).protocol().tree();
    let parent = Content::clone(tree.get(&justify.block()).expect("its own block"));
    cluster.crash(LIAR);
    cluster.slots[LIAR].faulty = true;
    let block = Arc::new(Block::new(Content {
        view: justify.view().next(),
        height: parent.height.next(),
        frames: vec![Digest::of("nobody's frame", &[])],
        justify: justify.clone(),
        ..parent
    }));
    for to in 0..LIAR {
        let block = Arc::clone(&block);
        cluster.inject(LIAR, to, &PeerMessage::of(Message::Proposal { block, tc: None }));
    }
    cluster.run_for(10_000);
    for to in 0..LIAR {
        assert_eq!(high_qc(&cluster, to).view(), justify.view());
        assert!(!cluster.core(to).protocol().holds(&block.id()), "it has no bodies");
    }
}

#[test]
fn frames_that_nobody_signed() {
    let cluster = flooded(|number, _, _| {
        let key = Key::of_client(77).public_key();
        let commands = [&b"c77:1 "[..]];
        let sign = |_: &_| Signature::from([number as u8; 64]);
        let (session, first) = (SessionId(number), Sequence(number));
        let frame = Frame::build(key, session, first, commands, &CHAIN, sign);
        PeerMessage::Relay(vec![Arc::new(frame.expect("a small frame"))])
    });
    assert_eq!(cluster.oracles.executed_of(77), 0);
    assert!(cluster.correct().all(|core| core.mempool().is_empty()));
}

#[test]
fn requests_for_testimonies_blocks_bodies_and_chunks() {
    flooded(|number, _, _| match number % 4 {
        0 => PeerMessage::AskTestimony { nonce: Digest::of("nonce", &number.to_le_bytes()) },
        1 => PeerMessage::FetchChain {
            tip: Digest([1; 32]),
            above: Height(number % 7),
            budget_bytes: u32::MAX,
        },
        2 => PeerMessage::NeedFrames(vec![Digest([2; 32]); 100]),
        _ => PeerMessage::FetchChunk { height: Height(number), chunk: number as u32 },
    });
}

#[test]
fn what_nobody_asked_for() {
    let cluster = flooded(|number, _, _| match number % 2 {
        0 => PeerMessage::Chain(Vec::new()),
        _ => PeerMessage::Chunk {
            height: Height(number),
            chunk: 0,
            last: true,
            bytes: vec![0; 100].into(),
        },
    });
    assert!(cluster.refused[&Refused::Unasked] > 10_000);
}

#[test]
fn more_to_verify_than_one_peer_may_ask_for() {
    let cluster = flooded(|number, to, cluster| {
        let high_qc = high_qc(cluster, to);
        let signed = liar(to).time_out(View(100 + number), &high_qc);
        let time_out = quorate_core::protocols::hotstuff::certificate::TimeOut {
            signature: Signature::from([number as u8; 64]),
            ..signed
        };
        let message = Message::TimeOut { time_out, high_qc, high_tc: None, last_vote: None };
        PeerMessage::of(message)
    });
    // After the first bad signature its messages are verified one at a time, behind all others.
    let verified = cluster.refused[&Refused::BadSignature];
    assert!((1..=1_000).contains(&verified), "{verified} of 15000 bad signatures were verified");
    assert!(cluster.refused[&Refused::Flood] > 10_000);
    assert!(!cluster.refused.contains_key(&Refused::Malformed(Malformed::UnknownSigner)));
}

#[test]
fn a_burst_beyond_what_is_verified_at_a_time_is_refused() {
    let verify_delay = Some((50_000, 50_000));
    let mut cluster = Cluster::new(Config { verify_delay, ..Config::default() });
    cluster.crash(LIAR);
    cluster.slots[LIAR].faulty = true;
    for number in 0..200 {
        let genesis = Qc::genesis(Block::genesis(CHAIN, Epoch(0)).id());
        let time_out = liar(0).time_out(View(number + 1), &genesis);
        let message =
            Message::TimeOut { time_out, high_qc: genesis, high_tc: None, last_vote: None };
        cluster.inject(LIAR, 0, &PeerMessage::of(message));
    }
    cluster.run_for(10_000);
    assert!(cluster.refused[&Refused::Flood] >= 200 - 64);
    cluster.run_for(1_000_000);
    // The places are free again.
    let before = cluster.refused[&Refused::Flood];
    let high_qc = Qc::genesis(Block::genesis(CHAIN, Epoch(0)).id());
    let time_out = liar(0).time_out(View(1_000), &high_qc);
    let message = Message::TimeOut { time_out, high_qc, high_tc: None, last_vote: None };
    cluster.inject(LIAR, 0, &PeerMessage::of(message));
    cluster.run_for(1_000_000);
    assert_eq!(cluster.refused[&Refused::Flood], before);
}
