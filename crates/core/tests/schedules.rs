//! Random schedules: loss, partitions, delays, crashes at any write, liars; the oracles look on
//! all the time, and after the network has healed everything must be answered.
//!
//! `QUORATE_SEEDS=from..to` runs these seeds instead of the usual ones; `QUORATE_TRACE=1` prints
//! what happened. A seed that fails prints itself.
#![allow(
    clippy::disallowed_methods,
    reason = "the core is pure; who runs the test says which seeds, and scripts are files"
)]

use quorate_sim as cluster;

use std::panic::{AssertUnwindSafe, catch_unwind};

use cluster::network::Link;
use cluster::rng::Rng;
use cluster::trace::Trace;
use cluster::{Cluster, Config};
use quorate_core::crypto::Form;
use quorate_core::hotstuff::rules;
use quorate_core::leader::Election;
use quorate_core::pacemaker::Kind;
use quorate_core::replica::Ancestors;

/// Views that may pass from the healing of the network to the next commit: one in which replicas
/// find together, a rotation of leaders, and the three views of a commit; another rotation where
/// liars, or replicas that lost their data and abstain, may spoil the first.
fn liveness_views(cluster: &Cluster) -> u64 {
    let spoilt = cluster.slots.iter().any(|slot| slot.faulty || slot.lost_data);
    if cluster.config.replicas == 1 {
        // Alone, a replica goes through any number of views in one instant.
        return u64::MAX;
    }
    // A replica that was restarted leaves out the view it had reserved: one rotation more.
    let rotations = 2 + u64::from(spoilt);
    1 + rotations * cluster.config.replicas as u64 + 3
}

fn seeds(usual: std::ops::Range<u64>) -> std::ops::Range<u64> {
    let Ok(range) = std::env::var("QUORATE_SEEDS") else { return usual };
    let (from, to) = range.split_once("..").expect("QUORATE_SEEDS=from..to");
    from.parse().expect("a number")..to.parse().expect("a number")
}

fn for_each_seed(usual: std::ops::Range<u64>, run: impl Fn(u64, &mut Option<Cluster>)) {
    let seeds = seeds(usual);
    for seed in seeds.clone() {
        let mut place = None;
        let result = catch_unwind(AssertUnwindSafe(|| run(seed, &mut place)));
        if let Err(panic) = result {
            eprintln!("seed {seed} fails: QUORATE_SEEDS={seed}..{} QUORATE_TRACE=1", seed + 1);
            if let Some(cluster) = place.as_mut().filter(|cluster| cluster.trace.on) {
                eprintln!("{}", cluster.trace.take().join("\n"));
            }
            std::panic::resume_unwind(panic);
        }
    }
}

fn trace() -> Trace {
    if std::env::var_os("QUORATE_TRACE").is_some() { Trace::on() } else { Trace::default() }
}

/// A cluster drawn from a seed.
fn draw(rng: &mut Rng, seed: u64) -> Config {
    let replicas = rng.pick(&[1, 2, 3, 4, 4, 4, 4, 5, 7, 10]);
    let slowest = rng.pick(&[1_000, 5_000, 40_000]);
    let rules = rng.pick(&rules::ALL);
    let forms = rng.pick(&[
        (Form::List, Form::List),
        (Form::Aggregate, Form::Aggregate),
        (Form::Threshold, Form::Aggregate),
    ]);
    let election = match forms.0 {
        // Certificates that name no signers elect nobody.
        Form::Threshold => Election::RoundRobin,
        _ => rng.pick(&[
            Election::RoundRobin,
            Election::RoundRobin,
            Election::Carousel,
            Election::Reputation,
        ]),
    };
    Config {
        replicas,
        rules,
        election,
        forms,
        pacemaker: rng.pick(&[Kind::TimeoutCertificates, Kind::Linear]),
        second_vote: rules.facts().name == "hotstuff-two-chain" && rng.percent(50),
        filtering: rng.percent(90),
        ancestors: rng.pick(&[
            Ancestors::None,
            Ancestors::None,
            Ancestors::Missing,
            Ancestors::All,
        ]),
        seed,
        clients: 1 + rng.below(3) as usize,
        link: Link {
            delay: (500, slowest),
            loss_percent: rng.pick(&[0, 0, 2, 10]),
            duplicate_percent: rng.pick(&[0, 5]),
            ..Link::steady(0)
        },
        verify_delay: rng.pick(&[None, Some((10, 500)), Some((100, 20_000))]),
        inline_bytes: rng.pick(&[0, 64, 4096]),
        batch_commands: rng.pick(&[1, 5, 100]),
        snapshot_blocks: rng.pick(&[5, 20, 1_000_000]),
        retire: rng.percent(50),
        ..Config::default()
    }
}

/// One random fault, or the end of one.
fn disturb(cluster: &mut Cluster, rng: &mut Rng) {
    let slots = cluster.slots.len();
    let slot = rng.below(slots as u64) as usize;
    match rng.below(10) {
        0 if cluster.slots[slot].core.is_some() => cluster.crash(slot),
        1 | 2 => {
            let fails = (rng.below(4) as usize, rng.below(3) as usize);
            cluster.slots[slot].disk.fails = Some(fails);
        }
        3..=5 if cluster.slots[slot].core.is_none() => cluster.boot(slot),
        6 if rng.percent(50) => {
            let sides = rng.next();
            cluster.network.partition(|slot| (sides >> slot & 1) as usize);
        }
        6 => {
            // Two runs of leaders, either of which could commit if it were a quorum; twins sit on
            // both sides.
            let (replicas, from) = (cluster.config.replicas, rng.below(10) as usize);
            let ids: Vec<usize> = cluster.slots.iter().map(|slot| slot.id).collect();
            let half = |slot: usize| (ids[slot] + from) % replicas < replicas / 2;
            let twins: Vec<usize> = cluster.config.twins.clone();
            cluster.network.partition(|slot| match twins.contains(&ids[slot]) {
                true => usize::from(slot >= replicas),
                false => usize::from(half(slot)),
            });
        }
        7 => {
            let to = rng.below(slots as u64) as usize;
            let cut = rng.percent(70);
            cluster.network.link(slot, to).cut = cut;
        }
        8 => cluster.network.heal(),
        _ => {}
    }
}

/// The network heals, everybody comes back; then every command must be answered.
fn must_recover(cluster: &mut Cluster, down: &[usize]) {
    cluster.network.heal();
    cluster.network.set_all(|link| link.loss_percent = 0);
    for slot in 0..cluster.slots.len() {
        cluster.slots[slot].disk.fails = None;
        if down.contains(&slot) {
            if cluster.slots[slot].core.is_some() {
                cluster.crash(slot);
            }
        } else if cluster.slots[slot].core.is_none() {
            cluster.boot(slot);
        }
    }
    for client in 0..cluster.clients.len() {
        cluster.request(client, 1, 10);
    }
    let (view, height) = (cluster.highest_view().0, cluster.oracles.height());
    assert!(
        cluster.run_until(60_000_000, |cluster| cluster.oracles.height() > height),
        "nothing is committed after the network healed"
    );
    let views = cluster.highest_view().0 - view;
    let allowed = liveness_views(cluster);
    // Alone, a replica does in one turn all there is to do.
    assert!(
        views <= allowed || cluster.slots.len() == 1,
        "it took {views} views to commit, {allowed} are allowed"
    );
    assert!(cluster.run_until_answered(60_000_000), "no progress after the network healed");
    assert!(
        cluster.run_until(60_000_000, Cluster::is_level),
        "a replica does not catch up: {:?}",
        cluster.correct().map(|core| core.execution().height()).collect::<Vec<_>>()
    );
    for client in &cluster.clients {
        assert_eq!(cluster.oracles.executed_of(client.id), client.acknowledged);
    }
}

/// After all was answered nothing moves any more.
fn must_fall_silent(cluster: &mut Cluster) {
    cluster.run_for(10_000_000);
    assert_eq!(cluster.in_flight(), 0, "messages without work");
    assert!(!cluster.has_timer(), "a timer without work");
}

#[test]
fn faults_come_and_go() {
    for_each_seed(0..200, |seed, place| {
        let mut rng = Rng::new(seed);
        let config = draw(&mut rng, seed);
        let cluster = place.insert(Cluster::traced(config, trace()));
        for _ in 0..rng.between((10, 80)) {
            let client = rng.below(cluster.clients.len() as u64) as usize;
            if rng.percent(60) {
                let (count, bytes) = (1 + rng.below(4), rng.pick(&[10, 100]));
                cluster.request(client, count, bytes);
            }
            if rng.percent(50) {
                disturb(cluster, &mut rng);
            }
            let micros = rng.pick(&[1_000, 10_000, 50_000, 300_000]);
            cluster.run_for(micros);
        }
        must_recover(cluster, &[]);
        must_fall_silent(cluster);
    });
}

/// Up to f replicas lie: they run twice with one key, forget what they signed, and bend what they
/// send.
#[test]
fn liars_change_nothing() {
    for_each_seed(0..150, |seed, place| {
        let mut rng = Rng::new(seed ^ 0x11A5);
        let replicas = rng.pick(&[4, 4, 4, 5, 7, 10]);
        let mut liars: Vec<usize> = (0..replicas).collect();
        while liars.len() > (replicas - 1) / 3 {
            liars.remove(rng.below(liars.len() as u64) as usize);
        }
        let config = Config { replicas, twins: liars, ..draw(&mut rng, seed) };
        let cluster = place.insert(Cluster::traced(config, trace()));
        cluster.liars = rng.percent(70);
        for _ in 0..rng.between((10, 60)) {
            let client = rng.below(cluster.clients.len() as u64) as usize;
            if rng.percent(60) {
                let (count, bytes) = (1 + rng.below(4), rng.pick(&[10, 100]));
                cluster.request(client, count, bytes);
            }
            if rng.percent(50) {
                disturb(cluster, &mut rng);
            }
            let liar = cluster.config.replicas;
            if rng.percent(10) {
                cluster.crash(liar);
                cluster.slots[liar].disk = cluster::disk::Disk::default();
                cluster.boot(liar);
            }
            let micros = rng.pick(&[1_000, 10_000, 50_000, 300_000]);
            cluster.run_for(micros);
        }
        // In the end the liars lie on, or are silent.
        let down: Vec<usize> = match rng.below(3) {
            0 => (0..cluster.slots.len()).filter(|slot| cluster.slots[*slot].faulty).collect(),
            _ => Vec::new(),
        };
        must_recover(cluster, &down);
    });
}

/// Up to f replicas lose their disks in the middle of it all, and never contradict themselves.
#[test]
fn lost_data_is_no_lie() {
    for_each_seed(0..100, |seed, place| {
        let mut rng = Rng::new(seed ^ 0x105E);
        let replicas = rng.pick(&[4, 4, 7]);
        let config = Config { replicas, ..draw(&mut rng, seed) };
        let cluster = place.insert(Cluster::traced(config, trace()));
        let mut victims = (replicas - 1) / 3;
        for _ in 0..rng.between((20, 80)) {
            let client = rng.below(cluster.clients.len() as u64) as usize;
            if rng.percent(60) {
                cluster.request(client, 1 + rng.below(4), 10);
            }
            if rng.percent(30) {
                disturb(cluster, &mut rng);
            }
            if victims > 0 && rng.percent(5) {
                victims -= 1;
                let slot = (rng.below(2) as usize + 2 * victims) % replicas;
                cluster.crash(slot);
                cluster.slots[slot].disk = cluster::disk::Disk::default();
                cluster.rejoin(slot, victims as u8);
            }
            cluster.run_for(rng.pick(&[1_000, 10_000, 50_000, 300_000]));
        }
        must_recover(cluster, &[]);
        // Enough views that it may speak again.
        for _ in 0..30 {
            cluster.request(0, 1, 10);
            assert!(cluster.run_until_answered(60_000_000));
        }
        assert!(cluster.correct().all(|core| !core.is_rejoining()));
        must_fall_silent(cluster);
    });
}
