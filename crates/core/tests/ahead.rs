//! Frames that travel ahead of the proposals that name them: who sends bodies, and what liars can
//! do.

use quorate_sim as cluster;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use cluster::client::Targets;
use cluster::network::Fate;
use cluster::{Cluster, Config, Peer};
use quorate_core::protocols::hotstuff::Message;
use quorate_core::replica::Dissemination;
use quorate_core::replica::message::{PeerMessage, ShortId};

/// Clients that each send to one replica, which passes their frames on.
fn sent_to_one(replicas: usize, dissemination: Dissemination) -> Cluster {
    sent_to_one_of(Config { replicas, dissemination, ..Config::default() })
}

fn sent_to_one_of(config: Config) -> Cluster {
    let clients = config.replicas;
    let mut cluster = Cluster::new(Config { clients, inline_bytes: 16 << 10, ..config });
    for client in 0..clients {
        cluster.turn_client_to(client, Targets::One { replica: client, relay: true });
    }
    cluster
}

/// The messages that were sent, by kind, and the bodies in them.
type Counts = Rc<RefCell<BTreeMap<&'static str, (usize, usize)>>>;

fn count(counts: &Counts, peer: &Peer) {
    let (kind, bodies) = match peer {
        PeerMessage::Protocol { message: Message::Proposal { .. }, frames, .. } => {
            ("proposal", frames.len())
        }
        PeerMessage::Relay(frames) => ("relay", frames.len()),
        PeerMessage::Frames(frames) => ("bodies", frames.len()),
        PeerMessage::NeedFrames(ids) => ("asked", ids.len()),
        PeerMessage::Held(ids) => ("held", ids.len()),
        PeerMessage::Chain(blocks) => ("fetched", blocks.iter().map(|b| b.frames.len()).sum()),
        _ => return,
    };
    let mut counts = counts.borrow_mut();
    let (messages, all) = counts.entry(kind).or_default();
    (*messages, *all) = (*messages + 1, *all + bodies);
}

/// Has commands executed, a frame of each client at a time.
fn served(cluster: &mut Cluster, clients: &[usize], rounds: u64) {
    for round in 0..rounds {
        for client in clients {
            cluster.request(*client, 2, 100);
        }
        assert!(cluster.run_until_answered(10_000_000), "round {round}");
    }
}

fn bodies(counts: &Counts, kind: &str) -> usize {
    counts.borrow().get(kind).map_or(0, |(_, bodies)| *bodies)
}

#[test]
fn each_body_is_sent_once_to_each_replica_and_none_with_a_proposal() {
    for dissemination in [Dissemination::Direct, Dissemination::Ahead] {
        let mut cluster = sent_to_one(4, dissemination);
        // Sessions are opened by then.
        served(&mut cluster, &[0, 1, 2, 3], 1);
        let counts = Counts::default();
        let noted = Rc::clone(&counts);
        cluster.meddler = Some(Box::new(move |_, _, peer| {
            count(&noted, peer);
            Fate::Goes
        }));
        served(&mut cluster, &[0, 1, 2, 3], 20);
        // Twenty frames of each of four clients, to three replicas each.
        assert_eq!(bodies(&counts, "relay"), 20 * 4 * 3, "{dissemination:?}");
        let is_ahead = dissemination == Dissemination::Ahead;
        assert_eq!(bodies(&counts, "proposal") == 0, is_ahead, "{:?}", counts.borrow());
        assert_eq!(bodies(&counts, "held") > 0, is_ahead, "{:?}", counts.borrow());
        assert_eq!((bodies(&counts, "asked"), bodies(&counts, "bodies")), (0, 0));
    }
}

#[test]
fn dead_replicas_hold_nothing_up() {
    let mut cluster = sent_to_one(4, Dissemination::Ahead);
    served(&mut cluster, &[0, 1, 2], 3);
    cluster.crash(3);
    served(&mut cluster, &[0, 1, 2], 3);
    cluster.boot(3);
    cluster.crash(2);
    // r3 is needed for a quorum: it has told the others anew, and they it.
    served(&mut cluster, &[0, 1], 10);
    cluster.run_for(20_000_000);
    assert!(!cluster.has_timer(), "nothing waits any more");
}

/// r0's link to r2 is full, so that bodies come a tenth of a second after what is told of them. The
/// others commit without r2.
#[test]
fn bodies_that_a_full_link_holds_back_travel_once() {
    let (relay_after, base_timeout) = (1_000_000, 2_000_000);
    let dissemination = Dissemination::Ahead;
    let config = Config { dissemination, relay_after, base_timeout, ..Config::default() };
    let mut cluster = sent_to_one_of(config);
    let counts = Counts::default();
    let noted = Rc::clone(&counts);
    cluster.meddler = Some(Box::new(move |from, to, peer| {
        count(&noted, peer);
        match peer {
            PeerMessage::Relay(_) if (from, to) == (0, 2) => Fate::Late(100_000),
            _ => Fate::Goes,
        }
    }));
    let twice = || bodies(&counts, "asked") + bodies(&counts, "fetched");
    let serve = |cluster: &mut Cluster, rounds| {
        for _ in 0..rounds {
            served(cluster, &[0], 1);
            cluster.run_for(150_000);
        }
    };
    serve(&mut cluster, 10);
    let first = twice();
    assert!((1..10).contains(&first), "nothing was known yet: {first}");
    serve(&mut cluster, 20);
    assert_eq!(twice(), first, "it knows how late they are: {:?}", counts.borrow());
    let height = |replica| cluster.core(replica).execution().height();
    assert_eq!(height(2), height(0));
}

/// Of seven, r0 passes frames on to as few as a leader takes for a quorum, and answers nobody who
/// asks for them; r6 tells that it holds whatever others tell of, and votes for nothing.
#[test]
fn bodies_that_liars_withhold_come_from_those_that_hold_them() {
    let mut cluster = sent_to_one(7, Dissemination::Ahead);
    served(&mut cluster, &[0, 1], 1);
    for liar in [0, 6] {
        cluster.slots[liar].faulty = true;
    }
    let counts = Counts::default();
    let told: Rc<RefCell<Vec<ShortId>>> = Rc::default();
    let (noted, heard) = (Rc::clone(&counts), Rc::clone(&told));
    cluster.meddler = Some(Box::new(move |from, to, peer| {
        let is_lost = match peer {
            PeerMessage::Relay(_) => from == 0 && !(1..=3).contains(&to),
            PeerMessage::Frames(_) => from == 0 || from == 6,
            PeerMessage::Protocol { message: Message::Vote(_), .. } => from == 6,
            _ => false,
        };
        if let PeerMessage::Held(ids) = peer
            && from == 1
        {
            heard.borrow_mut().extend(ids.iter().copied());
        }
        if !is_lost {
            count(&noted, peer);
        }
        if is_lost { Fate::Lost } else { Fate::Goes }
    }));
    for round in 0..10 {
        for client in [0, 1] {
            cluster.request(client, 2, 100);
        }
        for _ in 0..4_000 {
            let ids = std::mem::take(&mut *told.borrow_mut());
            if !ids.is_empty() {
                (0..6).for_each(|to| cluster.inject(6, to, &PeerMessage::Held(ids.clone())));
            }
            cluster.run_for(500);
        }
        assert!(cluster.run_until_answered(1), "round {round}");
    }
    let asked = bodies(&counts, "asked");
    assert!(asked > 0, "nobody lacked anything: {:?}", counts.borrow());
}
