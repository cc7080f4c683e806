//! Tentative execution: answers come a message delay earlier, what is not committed is undone, and
//! nobody believes too little.

use quorate_adversary::pbft::{Adversary, Context, Peer as Said, Sent};
use quorate_core::protocols::pbft::words::Phase;
use quorate_core::protocols::pbft::{Authentication, MESSAGE_DELAYS, Message, Settings};
use quorate_core::replica::message::PeerMessage;
use quorate_core::{ReplicaId, View};
use quorate_sim::client::Targets;
use quorate_sim::family::Pbfts;
use quorate_sim::network::{Fate, Link};
use quorate_sim::{Cluster, Config, Peer};

use super::{BOTH, PATIENCE, answered, cluster, level, settings, work};

fn tentative(authentication: Authentication) -> Settings {
    Settings { tentative: true, ..settings(authentication) }
}

/// Request, pre-prepare, prepare, answer: one delay fewer than with a commit.
#[test]
fn a_client_is_answered_a_message_delay_earlier() {
    const DELTA: u64 = 10_000;
    for (is_tentative, delays) in [(false, MESSAGE_DELAYS + 2), (true, MESSAGE_DELAYS + 1)] {
        for (authentication, replicas) in [(BOTH[0], 4), (BOTH[1], 4), (BOTH[1], 7)] {
            let pbft = Settings { tentative: is_tentative, ..settings(authentication) };
            let (link, never) = (Link::steady(DELTA), 3_600_000_000);
            let rest = Config { client_patience: never, relay_after: never, ..Config::default() };
            let mut cluster =
                super::cluster_of(Config { pbft, replicas, clients: 8, link, ..rest });
            cluster.run_for(10 * DELTA);
            let asked = cluster.now;
            cluster.request(0, 1, 10);
            answered(&mut cluster);
            let took = cluster.now.since(asked).as_micros() as u64;
            assert_eq!(took, delays * DELTA, "{authentication:?}, n = {replicas}");
            level(&mut cluster);
            assert!(cluster.oracles.awaited.is_empty());
        }
    }
}

/// One or more commands of each client under way, primaries that die, and full pipelines.
#[test]
fn crashes_and_view_changes_lose_nothing() {
    for authentication in BOTH {
        let mut cluster = cluster(tentative(authentication), 4);
        for moment in 0..16 {
            let primary = (cluster.highest_view().0 - 1) as usize % 4;
            (0..24).for_each(|at| cluster.request(at % 8, 1, 10));
            cluster.run_for(500 * moment);
            cluster.crash(primary);
            answered(&mut cluster);
            cluster.boot(primary);
            work(&mut cluster, 1);
        }
        level(&mut cluster);
        assert!(cluster.oracles.awaited.is_empty());
    }
}

/// The vote of view 1 that a message is.
fn votes_in_first(message: &Peer<Pbfts>) -> Option<Phase> {
    match message {
        PeerMessage::Protocol { message: Message::Vote { vote, .. }, .. } => {
            (vote.view == View(1)).then_some(vote.phase)
        }
        _ => None,
    }
}

/// r2 has a frame of c1 that nobody else has. Then c0 asks all, and the primary orders that. It is
/// prepared at these replicas alone.
fn prepare_at(cluster: &mut Cluster<Pbfts>, at: &'static [usize]) {
    cluster.turn_client_to(1, Targets::One { replica: 2, relay: false });
    cluster.request(1, 1, 10);
    cluster.run_for(2_000);
    cluster.meddler = Some(Box::new(move |_, to, message| match votes_in_first(message) {
        Some(_) if !at.contains(&to) => Fate::Lost,
        _ => Fate::Goes,
    }));
    cluster.request(0, 1, 10);
    let is_ahead = |cluster: &Cluster<Pbfts>| cluster.core(1).execution().is_tentative();
    assert!(cluster.run_until(20_000, is_ahead), "r1 does not execute tentatively");
    // Its answer arrives.
    cluster.run_for(2_000);
}

/// r1 alone prepares a block and executes it. The others begin a view without it, with another
/// block at its height.
#[test]
fn what_is_not_committed_is_undone() {
    for authentication in BOTH {
        let mut cluster = cluster(tentative(authentication), 4);
        work(&mut cluster, 2);
        level(&mut cluster);
        let before = cluster.core(1).execution().state_root();
        prepare_at(&mut cluster, &[1]);
        cluster.network.partition(|slot| usize::from(slot == 1));
        let gave_up = |cluster: &Cluster<Pbfts>| !cluster.core(1).execution().is_tentative();
        assert!(cluster.run_until(PATIENCE, gave_up), "r1 does not come back");
        let execution = cluster.core(1).execution();
        assert_eq!(execution.state_root(), before);
        assert_eq!(
            execution.application().commands.len(),
            execution.application().committed().len()
        );
        answered(&mut cluster);
        cluster.network.heal();
        level(&mut cluster);
        assert!(cluster.highest_view() > View(2));
        assert!(cluster.oracles.awaited.is_empty());
    }
}

/// Says in its view changes that it knows of no block.
#[derive(Debug)]
struct Forgetful;

impl Adversary for Forgetful {
    fn sends(&mut self, cx: &Context<'_>, to: ReplicaId, message: Said, out: &mut Vec<Sent>) {
        match message {
            PeerMessage::Protocol { message: Message::ViewChange(mut signed), .. } => {
                signed.change.prepared.clear();
                signed.change.pre_prepared.clear();
                out.push(Sent::of(to, cx.change(signed.change)));
            }
            message => out.push(Sent::now(to, message)),
        }
    }
}

/// A liar and r1 answer tentatively. The liar denies the block, and r1 is not heard: the block is
/// lost. A client that believed f + 1 would have been told of what never was.
#[test]
fn tentative_answers_of_f_plus_one_are_not_believed() {
    for authentication in BOTH {
        let mut cluster = cluster(tentative(authentication), 4);
        work(&mut cluster, 2);
        level(&mut cluster);
        cluster.make_liar(0, Box::new(Forgetful));
        prepare_at(&mut cluster, &[0, 1]);
        cluster.network.partition(|slot| usize::from(slot == 1));
        answered(&mut cluster);
        cluster.network.heal();
        level(&mut cluster);
        assert!(cluster.highest_view() > View(2));
        assert!(cluster.oracles.awaited.is_empty());
    }
}
