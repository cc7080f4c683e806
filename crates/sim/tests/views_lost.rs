//! How many views are lost, counted: while the waits still climb to what the network takes, when
//! one proposal is lost, and in the steady state.
//!
//! A view is lost if no block of it is committed, or if f + 1 correct replicas gave it up
//! (time-outs carry votes, so that a view that everybody gave up can have its block all the same).

use quorate_adversary::{Adversary, Context, Peer, Sent};
use quorate_core::base::membership;
use quorate_core::protocols::hotstuff::leader::Election;
use quorate_core::protocols::hotstuff::pacemaker::Kind;
use quorate_core::protocols::hotstuff::rules::{self, Chained, Rules, TwoChain};
use quorate_core::replica::message::PeerMessage;
use quorate_core::{Duration, ReplicaId};
use quorate_sim::network::{Fate, Link};
use quorate_sim::{Cluster, Config};

/// The first wait for a view.
const BASE: u64 = 300_000;
const CLIENTS: usize = 8;
/// Long enough for anything here, in microseconds of the world.
const LONG: u64 = 3_600_000_000;

/// `replicas` with work to do all the time, over links that always take `hop`.
fn config(replicas: usize, rules: &'static dyn Rules, hop: u64) -> Config {
    Config {
        replicas,
        rules,
        link: Link::steady(hop),
        clients: CLIENTS,
        client_patience: LONG,
        relay_after: LONG,
        base_timeout: BASE,
        longest_timeout: 1_000,
        encodes: false,
        ..Config::default()
    }
}

/// What the first replica that enters a view waits until its block is certified: it may be told of
/// the end of the view before a hop earlier than the leader; then the proposal, the votes of each
/// phase, and what is made of them. With the linear pacemaker the leader hears of a view change a
/// hop later, and of locks another one.
fn needed(config: &Config) -> u64 {
    let phases = u64::from(config.rules.facts().phases);
    let told = if config.pacemaker == Kind::Linear { 3 } else { 1 };
    config.link.delay.1 * (told + 2 * phases + 1)
}

/// ⌈log₂(what the network takes / base)⌉ + 2.
fn climb(config: &Config) -> u64 {
    let mut steps = 0;
    while config.base_timeout << steps < needed(config) {
        steps += 1;
    }
    steps + 2
}

/// Goes on, with work to do all the time, until a block of a view above `view` is committed.
fn work_until(cluster: &mut Cluster, view: u64) {
    let start = cluster.now;
    let pause = cluster.config.link.delay.1 / 4;
    while cluster.oracles.committed_view() <= view {
        for client in 0..CLIENTS {
            if cluster.clients[client].is_done() {
                cluster.request(client, 1, 10);
            }
        }
        cluster.run_for(pause);
        assert!(
            cluster.now.since(start).as_secs() < 3_600,
            "no block above view {view} is committed"
        );
    }
}

fn lost(cluster: &Cluster, after: u64) -> Vec<u64> {
    let witness = membership::honest_witness(cluster.config.replicas);
    cluster.oracles.lost_views(after, witness)
}

fn name(config: &Config) -> String {
    let Config { replicas, rules, pacemaker, second_vote, broadcast_votes, adaptive, .. } = config;
    let (rules, pacemaker) = (rules.facts().name, pacemaker.name());
    let hop = config.link.delay.1 / 1_000;
    format!(
        "n = {replicas}, {rules}, {pacemaker}, second votes: {second_vote}, broadcast: {broadcast_votes}, \
         adaptive: {adaptive}, hops of {hop} ms"
    )
}

/// The waits climb in as many views as they have to, and then none is lost in `steady` more.
fn adapts(config: Config, steady: u64) {
    let (name, allowed) = (name(&config), climb(&config));
    let mut cluster = Cluster::new(config);
    work_until(&mut cluster, 0);
    let first = cluster.oracles.committed_view();
    work_until(&mut cluster, first + 8);
    let climbed = lost(&cluster, 0);
    assert!(climbed.len() as u64 <= allowed, "{name}: {climbed:?} are lost, allowed are {allowed}");
    let from = cluster.oracles.committed_view();
    work_until(&mut cluster, from + steady);
    let then = lost(&cluster, from);
    assert!(then.is_empty(), "{name}: {then:?} are lost in the steady state");
}

#[test]
fn sixty_four_replicas_and_hops_of_almost_four_times_the_base() {
    adapts(config(64, &Chained, 1_100_000), 40);
}

#[test]
fn sixty_four_replicas_and_hops_of_two_thirds_of_the_base() {
    adapts(config(64, &Chained, 200_000), 40);
}

#[test]
fn sixty_four_replicas_and_hops_above_the_base() {
    adapts(config(64, &Chained, 350_000), 40);
    adapts(Config { second_vote: true, ..config(64, &TwoChain, 350_000) }, 24);
}

#[test]
fn sixteen_replicas_and_hops_of_two_thirds_of_the_base() {
    adapts(config(16, &Chained, 200_000), 50);
}

/// All there are: variants, second votes, pacemakers.
fn variants(replicas: usize, hop: u64) -> Vec<Config> {
    let with = |rules| config(replicas, rules, hop);
    let kinds = [Kind::TimeoutCertificates, Kind::Linear];
    let of = |pacemaker| rules::ALL.map(|rules| Config { pacemaker, ..with(rules) });
    let second = Config { second_vote: true, ..with(&TwoChain) };
    let broadcast = Config { broadcast_votes: true, ..with(&Chained) };
    kinds.into_iter().flat_map(of).chain([second, broadcast]).collect()
}

#[test]
fn every_variant_and_pacemaker_with_hops_from_a_fifth_to_twice_the_base() {
    for adaptive in [false, true] {
        for (replicas, hop) in [(4, BASE / 5), (4, BASE / 2), (4, BASE), (7, 2 * BASE)] {
            for config in variants(replicas, hop) {
                adapts(Config { adaptive, ..config }, 30);
            }
        }
    }
}

/// One proposal reaches nobody.
fn loses_one(config: Config) {
    let name = name(&config);
    let mut cluster = Cluster::new(config);
    work_until(&mut cluster, 40);
    let from = cluster.oracles.committed_view();
    let victim = from + 10;
    cluster.meddler = Some(Box::new(move |_, _, peer| match peer {
        PeerMessage::Protocol { message, .. }
            if (message.kind(), message.view().0) == ("proposal", victim) =>
        {
            Fate::Lost
        }
        _ => Fate::Goes,
    }));
    work_until(&mut cluster, from + 50);
    let without = cluster.oracles.lost_views(from, usize::MAX);
    assert_eq!(without, [victim], "{name}");
    let given_up = lost(&cluster, from);
    // Votes that the leader alone has are in the time-outs of the view before.
    assert!(
        given_up.iter().all(|view| victim - 1 <= *view && *view <= victim),
        "{name}: {given_up:?}"
    );
}

#[test]
fn one_proposal_lost_costs_one_view() {
    for adaptive in [false, true] {
        for (replicas, hop) in [(4, 20_000), (4, 80_000), (7, 80_000), (10, 80_000)] {
            for config in variants(replicas, hop) {
                loses_one(Config { adaptive, ..config });
            }
        }
    }
}

/// With leaders in turn and replica 1 dead, the views that are lost are its own, and those whose
/// votes go to it.
#[test]
fn a_dead_leader_of_four_costs_its_own_views() {
    const DEAD: u64 = 1;
    for hop in [BASE / 10, BASE / 2, BASE] {
        for config in variants(4, hop) {
            let name = name(&config);
            let mut cluster = Cluster::new(config);
            cluster.crash(DEAD as usize);
            work_until(&mut cluster, 24);
            let from = cluster.oracles.committed_view();
            work_until(&mut cluster, from + 40);
            let lost = lost(&cluster, from);
            let is_its = |view: &u64| view % 4 == DEAD || (view + 1) % 4 == DEAD;
            assert!(lost.iter().all(is_its), "{name}: {lost:?} are lost behind {from}");
        }
    }
}

/// With Carousel, f dead replicas of 64 are left out of the election once blocks are committed.
#[test]
fn twenty_one_dead_of_sixty_four_lead_no_more() {
    let election = Election::Carousel;
    let config = config(64, &TwoChain, BASE / 3);
    let config = Config { second_vote: true, broadcast_votes: true, election, ..config };
    let mut cluster = Cluster::new(config);
    (0..21).for_each(|dead| cluster.crash(3 * dead + 1));
    work_until(&mut cluster, 0);
    let first = cluster.oracles.committed_view();
    work_until(&mut cluster, first + 64);
    let from = cluster.oracles.committed_view();
    work_until(&mut cluster, from + 64);
    assert_eq!(lost(&cluster, from), Vec::<u64>::new());
}

/// With what is chosen by default, whoever dies, and whoever dies once that one is back: after a
/// first time-out or few no view is lost any more, and 100 of them take no more than a tenth longer
/// than when all live.
#[test]
fn the_dead_one_of_four_costs_nothing_whoever_died_before() {
    let election = Election::Carousel;
    let by_default = Config { second_vote: true, election, ..config(4, &TwoChain, 10_000) };
    let steady = |cluster: &mut Cluster, who: &str| {
        let died = cluster.oracles.committed_view();
        work_until(cluster, died + 16);
        let (from, start) = (cluster.oracles.committed_view(), cluster.now);
        assert!(lost(cluster, died).len() <= 4, "{who}: {:?}", lost(cluster, died));
        work_until(cluster, from + 100);
        assert_eq!(lost(cluster, from), Vec::<u64>::new(), "{who}: behind view {from}");
        cluster.now.since(start).as_millis() as u64
    };
    for (first, second) in (0..4).flat_map(|first| (0..4).map(move |second| (first, second))) {
        if first == second {
            continue;
        }
        let mut cluster = Cluster::new(by_default.clone());
        let all = steady(&mut cluster, "all live");
        for dead in [first, second] {
            let who = format!("{dead} of {first}, {second}");
            cluster.crash(dead);
            let took = steady(&mut cluster, &who);
            assert!(took * 10 <= all * 11, "{who}: {took} ms instead of {all}");
            cluster.boot(dead);
            steady(&mut cluster, &who);
        }
    }
}

/// A leader that proposes so much later than it could, and does nothing else.
#[derive(Debug)]
struct Slow(Duration);

impl Adversary for Slow {
    fn sends(&mut self, _: &Context<'_>, to: ReplicaId, message: Peer, out: &mut Vec<Sent>) {
        let is_proposal = match &message {
            PeerMessage::Protocol { message, .. } => message.kind() == "proposal",
            _ => false,
        };
        let delay = if is_proposal { self.0 } else { Duration::ZERO };
        out.push(Sent { to, delay, message });
    }
}

/// How many milliseconds it takes to commit blocks of 200 views, once 100 are, where the proposals
/// of replica 1 are so much late.
fn time_of_200_views(config: Config, late_ms: Option<u64>) -> u64 {
    let mut cluster = Cluster::new(config);
    if let Some(late_ms) = late_ms {
        cluster.make_liar(1, Box::new(Slow(Duration::from_millis(late_ms))));
    }
    work_until(&mut cluster, 100);
    let (view, start) = (cluster.oracles.committed_view(), cluster.now);
    work_until(&mut cluster, view + 200);
    cluster.now.since(start).as_millis() as u64
}

/// A leader that is slow, and never so slow that it would lose its view: a few times it has its
/// way, and then the others give up on it as soon as it takes twice as long as they do, and
/// Carousel leaves it out. So with waits that adapt too, which alone would let it take four times
/// as long.
#[test]
fn a_leader_that_is_slow_but_in_time_is_left_out() {
    let election = Election::Carousel;
    let by_default = Config { second_vote: true, election, ..config(4, &TwoChain, 10_000) };
    for (adaptive, late_ms) in [(false, 200), (true, 45)] {
        let config = Config { adaptive, ..by_default.clone() };
        let honest = time_of_200_views(config.clone(), None);
        let slow = time_of_200_views(config.clone(), Some(late_ms));
        let name = name(&config);
        assert!(slow <= honest * 5 / 4, "{name}: {slow} ms, {honest} without");
    }
}
