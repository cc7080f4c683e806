//! Lies told to replicas that lack something: blocks, bodies, a snapshot, all memory.

use quorate_adversary::named;
use quorate_core::protocols::hotstuff::pacemaker::Kind;
use quorate_core::protocols::hotstuff::rules;
use quorate_sim::disk::Disk;
use quorate_sim::network::Link;
use quorate_sim::{Cluster, Config};

use crate::matrix::must_answer;

/// The liars among seven.
const LIARS: [usize; 2] = [2, 5];

fn cluster(config: Config) -> Cluster {
    let link = Link { delay: (500, 3_000), ..Link::steady(0) };
    let mut cluster = Cluster::new(Config { replicas: 7, link, ..config });
    for liar in LIARS {
        cluster.make_liar(liar, named("lying-sync").expect("it has a name")(liar as u64));
    }
    cluster
}

/// Waits until the correct replicas have executed the same, with something to do now and then.
fn must_level(cluster: &mut Cluster, what: &str) {
    for _ in 0..60 {
        must_answer(cluster, 1, what);
        if cluster.run_until(2_000_000, Cluster::is_level) {
            return;
        }
    }
    panic!("{what}: somebody stays behind");
}

fn lies(cluster: &Cluster) -> u64 {
    LIARS.iter().map(|liar| cluster.deeds(*liar).bent + cluster.deeds(*liar).withheld).sum()
}

/// Replicas are away again and again, and come back. Returns how many lies they were told. Whom
/// they ask first is chance.
fn away_and_back(cluster: &mut Cluster, what: &str) -> u64 {
    for _ in 0..6 {
        must_answer(cluster, 2, what);
        (0..2).for_each(|away| cluster.crash(away));
        must_answer(cluster, 25, what);
        (0..2).for_each(|away| cluster.boot(away));
        must_level(cluster, what);
    }
    lies(cluster)
}

#[test]
fn replicas_that_were_away_catch_up_past_liars() {
    for retire in [false, true] {
        let mut told = 0;
        for rules in rules::ALL {
            for pacemaker in [Kind::TimeoutCertificates, Kind::Linear] {
                let what = format!("{}, {pacemaker:?}, retire {retire}", rules.facts().name);
                let snapshot_blocks = if retire { 5 } else { 1_000_000 };
                let config =
                    Config { rules, pacemaker, retire, snapshot_blocks, ..Config::default() };
                told += away_and_back(&mut cluster(config), &what);
            }
        }
        assert!(told > 10, "retire {retire}: only {told} lies were told");
    }
}

#[test]
fn testimonies_of_liars_free_nobody_and_bind_nobody() {
    for pacemaker in [Kind::TimeoutCertificates, Kind::Linear] {
        for rules in rules::ALL {
            let what = format!("{}, {pacemaker:?}", rules.facts().name);
            // One that lost its memory counts among the f.
            let config = Config { rules, pacemaker, replicas: 7, ..Config::default() };
            let mut cluster = Cluster::new(config);
            cluster.make_liar(2, named("lying-sync").expect("it has a name")(11));
            must_answer(&mut cluster, 10, &what);
            cluster.crash(0);
            cluster.slots[0].disk = Disk::default();
            cluster.rejoin(0, 9);
            must_level(&mut cluster, &what);
            assert!(cluster.deeds(2).bent > 0, "{what}: it was asked for its word");
            must_answer(&mut cluster, 60, &what);
            assert!(!cluster.core(0).is_rejoining(), "{what}");
            let status = quorate_sim::status_of(cluster.core(0));
            assert!(status.abstain_until < status.view, "{what}: it abstains for good");
        }
    }
}

#[test]
fn bodies_are_asked_for_elsewhere() {
    for rules in rules::ALL {
        let what = rules.facts().name;
        // Nothing travels with proposals, and clients speak to one replica alone.
        let mut cluster = cluster(Config { rules, inline_bytes: 0, ..Config::default() });
        let targets = quorate_sim::client::Targets::One { replica: 1, relay: false };
        must_answer(&mut cluster, 1, what);
        cluster.turn_client_to(0, targets);
        must_level(&mut cluster, what);
        assert!(cluster.clients.iter().all(|client| client.is_done()), "{what}");
    }
}
