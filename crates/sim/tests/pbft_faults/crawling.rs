//! Primaries that order just inside the view timer, and primaries that do not.

use quorate_adversary::pbft::crawling;
use quorate_core::protocols::pbft::Authentication;
use quorate_core::{Duration, View};
use quorate_sim::Cluster;
use quorate_sim::family::Pbfts;
use quorate_sim::network::Link;

use super::{BASE, cluster, level, settings, work};

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
