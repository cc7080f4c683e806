//! Primaries that order just inside the view timer, and primaries that do not.

use std::sync::Arc;

use quorate_adversary::pbft::crawling;
use quorate_core::base::crypto::{ClientSigner as _, Signer as _};
use quorate_core::ledger::frame::Frame;
use quorate_core::protocols::pbft::{Authentication, Patience, Settings};
use quorate_core::{Duration, Time, View};
use quorate_sim::family::Pbfts;
use quorate_sim::keys::{CHAIN, Key};
use quorate_sim::network::Link;
use quorate_sim::rng::Rng;
use quorate_sim::{Cluster, Config};

use super::{BASE, BOTH, PATIENCE, cluster, level, settings, work};

/// How long a round of eight blocks takes.
fn round(cluster: &mut Cluster<Pbfts>) -> Duration {
    let begins = cluster.now;
    work(cluster, 1);
    cluster.now.since(begins)
}

/// Each block takes some times as long as the last. The primary is waited for as long as for the
/// first one, and is replaced.
#[test]
fn a_primary_cannot_stretch_the_wait_for_its_own_blocks() {
    let base = Duration::from_micros(BASE);
    let mut cluster = cluster(settings(Authentication::Macs), 4);
    let mut gap = base / 10;
    while cluster.highest_view() == View(1) {
        assert!(gap < base * 3, "a block is waited for {gap:?} by now");
        cluster.make_liar(0, crawling(gap));
        let _ = round(&mut cluster);
        gap = gap * 3 / 2;
    }
    // The next primary is waited for no longer than by any first time-out.
    cluster.make_liar(1, crawling(base * 9 / 4));
    let _ = round(&mut cluster);
    assert_eq!(cluster.highest_view(), View(3));
    level(&mut cluster);
}

/// Load that comes and goes, replicas four or seven, near or far from each other: no correct
/// primary is ever replaced.
#[test]
fn no_correct_primary_is_replaced() {
    for (replicas, delay) in [(4, (1_000, 1_000)), (4, (200, 4_000)), (7, (2_000, 6_000))] {
        let mut cluster = cluster(settings(Authentication::Macs), replicas);
        cluster.network.set_all(|link| *link = Link { delay, ..Link::steady(0) });
        for _ in 0..4 {
            work(&mut cluster, 25);
            for _ in 0..50 {
                cluster.request(0, 1, 10);
                super::answered(&mut cluster);
            }
            for _ in 0..20 {
                cluster.request(1, 1, 10);
                super::answered(&mut cluster);
                cluster.run_for(30_000);
            }
        }
        assert_eq!(cluster.highest_view(), View(1), "n = {replicas}, {delay:?}");
        assert!(cluster.oracles.height() > 500, "{}", cluster.oracles.height());
    }
}

/// The network gets much slower than it ever was: views are given up until that is usual, and no
/// more.
#[test]
fn a_network_that_slows_down_is_learnt() {
    let mut cluster = cluster(settings(Authentication::Macs), 4);
    work(&mut cluster, 12);
    cluster.network.set_all(|link| *link = Link::steady(60_000));
    work(&mut cluster, 60);
    let view = cluster.highest_view();
    assert!(view > View(1) && view <= View(6), "{view}");
    work(&mut cluster, 60);
    assert_eq!(cluster.highest_view(), view, "it goes on");
    level(&mut cluster);
}

/// How many verdicts there were that a primary is too slow.
fn verdicts(cluster: &Cluster<Pbfts>) -> u64 {
    cluster.noted.get("too-slow").copied().unwrap_or_default()
}

/// Commands a second, by what was committed since.
fn speed(cluster: &Cluster<Pbfts>, (height, begins): (u64, Time)) -> f64 {
    let commands = cluster.oracles.height() - height;
    commands as f64 / cluster.now.since(begins).as_secs_f64()
}

/// It orders each block just inside the view timer, and could do so for ever. It is too slow by
/// what the group takes for a block, and the next primary is not.
#[test]
fn a_primary_that_crawls_is_too_slow() {
    for (authentication, replicas) in [(BOTH[0], 4), (BOTH[1], 4), (BOTH[1], 7)] {
        let mut cluster = cluster(settings(authentication), replicas);
        work(&mut cluster, 20);
        cluster.make_liar(0, crawling(Duration::from_micros(BASE) * 4 / 5));
        let begins = (cluster.oracles.height(), cluster.now);
        (0..40).for_each(|at| cluster.request(at % 8, 1, 10));
        let is_left = cluster.run_until(PATIENCE, |cluster| cluster.highest_view() > View(1));
        let crawl = speed(&cluster, begins);
        assert!(is_left, "it crawls on, at {crawl:.1} commands a second");
        super::answered(&mut cluster);
        let begins = (cluster.oracles.height(), cluster.now);
        work(&mut cluster, 50);
        let after = speed(&cluster, begins);
        println!("n = {replicas}, {authentication:?}: {crawl:.1}, then {after:.1} commands/s");
        assert!(after > 10.0 * crawl, "{crawl:.1} commands a second, and then {after:.1}");
        assert_eq!(cluster.highest_view(), View(2));
        assert!(verdicts(&cluster) >= 2, "{:?}", cluster.noted);
        level(&mut cluster);
    }
}

/// The load comes, goes and falls silent, and links become faster and slower by a factor of two
/// hundred: nobody finds a correct primary too slow, and none is replaced.
#[test]
fn no_correct_primary_is_too_slow() {
    let base = Duration::from_micros(4 * BASE);
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let patience = Patience { base, max: base * 64 };
        let under_way = rng.pick(&[1, 2, 8]);
        let settings = Settings { under_way, patience, ..settings(rng.pick(&BOTH)) };
        let mut cluster = cluster(settings, rng.pick(&[4, 5, 7]));
        for _ in 0..30 {
            if rng.percent(50) {
                let fastest = rng.pick(&[200, 1_000, 5_000, 40_000]);
                let delay = (fastest, rng.between((fastest, 40_000)));
                let in_order = rng.percent(50);
                let link = Link { delay, in_order, ..Link::steady(0) };
                cluster.network.set_all(|any| *any = link);
            }
            match rng.below(3) {
                0 => work(&mut cluster, 4),
                1 => (0..8).for_each(|at| {
                    cluster.request(at, 1, 10);
                    super::answered(&mut cluster);
                }),
                _ => cluster.run_for(rng.below(20_000_000)),
            }
        }
        assert_eq!((cluster.highest_view(), verdicts(&cluster)), (View(1), 0), "seed {seed}");
    }
}

/// All links become slower and slower, without end. Views are given up while waits grow, and none
/// for its primary's rate.
#[test]
fn no_primary_is_too_slow_for_a_slow_network() {
    let mut cluster = cluster(settings(Authentication::Macs), 4);
    let mut delay = 200;
    while delay < 1_000_000 {
        cluster.network.set_all(|link| *link = Link::steady(delay));
        work(&mut cluster, 4);
        delay = delay * 5 / 4;
    }
    assert_eq!(verdicts(&cluster), 0);
    level(&mut cluster);
}

/// A faulty client sends its frames to the backups alone, and these are in no hurry to pass them on
/// to all: they have one that waits nearly all the time, and a correct client asks now and then.
#[test]
fn a_client_that_shuns_the_primary_does_not_make_it_slow() {
    let (pbft, relay_after) = (settings(Authentication::Macs), BASE * 100);
    let mut cluster =
        super::cluster_of(Config { pbft, relay_after, clients: 8, ..Config::default() });
    work(&mut cluster, 10);
    let faulty = Key::of_client(77);
    for incarnation in 1..=200 {
        let key = faulty.public_key();
        let frame = Frame::open(key, incarnation, &CHAIN, |statement| faulty.sign(statement));
        let frame = Arc::new(frame);
        (1..4).for_each(|backup| cluster.intrude(backup, Arc::clone(&frame)));
        cluster.run_for(80_000);
        cluster.request(0, 1, 10);
        super::answered(&mut cluster);
    }
    assert_eq!((cluster.highest_view(), verdicts(&cluster)), (View(1), 0));
}
