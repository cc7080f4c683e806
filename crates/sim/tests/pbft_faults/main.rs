//! PBFT where it is known to break elsewhere: liars of every kind, and what a pipeline makes of
//! crashes, cuts and view changes.

mod crawling;
mod liars;
mod liveness;
mod tentative;

use quorate_core::Duration;
use quorate_core::protocols::pbft::{Authentication, Patience, Settings};
use quorate_core::protocols::protocol::Protocol as _;
use quorate_sim::family::Pbfts;
use quorate_sim::trace::Trace;
use quorate_sim::{Cluster, Config};

/// How long, in virtual microseconds, anything may take that must come at last.
const PATIENCE: u64 = 120_000_000;
/// The first wait for a primary, in microseconds.
const BASE: u64 = 100_000;

const BOTH: [Authentication; 2] = [Authentication::Signatures, Authentication::Macs];

/// Small windows, so that they fill; one frame a block.
fn settings(authentication: Authentication) -> Settings {
    let base = Duration::from_micros(BASE);
    let patience = Patience { base, max: base * 64 };
    let (window, checkpoint_every, under_way) = (16, 8, 8);
    let rest = Settings::default();
    Settings { authentication, window, checkpoint_every, under_way, patience, ..rest }
}

fn cluster(pbft: Settings, replicas: usize) -> Cluster<Pbfts> {
    cluster_of(Config { pbft, replicas, clients: 8, batch_commands: 1, ..Config::default() })
}

fn cluster_of(config: Config) -> Cluster<Pbfts> {
    let mut cluster = Cluster::<Pbfts>::of(config, Trace::default());
    // Their sessions are open.
    (0..8).for_each(|client| cluster.request(client, 1, 10));
    answered(&mut cluster);
    cluster
}

fn answered(cluster: &mut Cluster<Pbfts>) {
    let done = cluster.run_until_answered(PATIENCE);
    assert!(done, "liveness: a command is not answered, in view {}", cluster.highest_view());
}

/// All clients ask at once, so many times.
fn work(cluster: &mut Cluster<Pbfts>, rounds: usize) {
    for _ in 0..rounds {
        (0..8).for_each(|client| cluster.request(client, 1, 10));
        answered(cluster);
    }
}

/// All replicas come to the same state.
fn level(cluster: &mut Cluster<Pbfts>) {
    work(cluster, 2);
    assert!(cluster.run_until(PATIENCE, Cluster::is_level), "liveness: a replica lags");
}

/// What a replica's protocol says of itself.
fn detail(cluster: &Cluster<Pbfts>, slot: usize, name: &str) -> u64 {
    let details = cluster.core(slot).protocol().status().details;
    details.into_iter().find(|(known, _)| *known == name).map_or(0, |(_, value)| value)
}
