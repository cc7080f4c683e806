//! Random schedules: loss, partitions, delays, crashes at any write, liars; the oracles look on
//! all the time, and after the network has healed everything must be answered.
//!
//! `QUORATE_SEEDS=from..to` runs these seeds instead of the usual ones; `QUORATE_TRACE=1` prints
//! what happened. A seed that fails prints itself.
#![allow(
    clippy::disallowed_methods,
    reason = "the core is pure; who runs the test says which seeds, and scripts are files"
)]

mod cluster;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use cluster::network::Link;
use cluster::rng::Rng;
use cluster::trace::Trace;
use cluster::{Cluster, Config, Core, keys};
use quorate_core::block::Block;
use quorate_core::crypto::Form;
use quorate_core::hotstuff::rules;
use quorate_core::leader::reputation::PATIENCE;
use quorate_core::leader::{Election, History};
use quorate_core::pacemaker::Kind;
use quorate_core::protocol::Protocol;
use quorate_core::replica::Ancestors;
use quorate_core::tree::BlockTree;
use quorate_core::{Epoch, Height, ReplicaId, View};

/// By how much the pacemaker shortens the wait for a leader that failed before.
const SHORTENED: u64 = 5;
/// After each view without a commit the wait is so many hundredths of the one before.
const LONGER_PERCENT: u64 = 150;

/// The longest that a view of a correct leader takes, from where the first replica enters it to
/// where the last one leaves it with a certificate, while no message is lost. In hops, each a
/// message and the verdict on its signatures:
///
/// - 1 until the last replica has entered it: certificates reach one a delay later than another;
/// - 2 until the leader may propose: it is told of the time-out certificate, then of locks;
/// - 2 for bodies that the proposal names and a replica lacks;
/// - 1 for the proposal, and 2 a phase: votes, and what is made of them.
fn view_micros(config: &Config) -> u64 {
    let hop = config.link.delay.1 + config.verify_delay.map_or(0, |(_, longest)| longest);
    hop * (1 + 2 + 2 + 1 + 2 * u64::from(config.rules.facts().phases))
}

/// Who may let any of its views fail: liars, those who are down, and those who abstain as they lost
/// their data.
fn spoilers(cluster: &Cluster) -> Vec<bool> {
    let mut spoilers = vec![false; cluster.config.replicas];
    for slot in &cluster.slots {
        spoilers[slot.id] |= slot.faulty || slot.lost_data || slot.core.is_none();
    }
    spoilers
}

/// Views that may pass until the next commit, from view `healed` on, where all correct replicas run,
/// no message is lost, and nobody lacks a block ([`found_together`]). What can cost views:
///
/// 1. **What was done before.** A replica does not vote in a view that it gave up, nor propose in
///    one that it had reserved when it was stopped: no later one than that behind `healed`. With the
///    linear pacemaker, though, it has given up as many as n views that nobody has entered; and
///    where one of these fails, those who hold its leader to have failed before wait a fifth as
///    long, and give up another n before the others give up the first. Once these have failed, more
///    than f leaders have, and all wait alike.
/// 2. **Waits that are too short** for a leader that failed before and is back, or for the views
///    whose votes a dead one is to collect: a fifth of the base. They do not grow for the pacemaker's
///    slack, chain length + 4 f views from the last commit, and then by half with each view.
/// 3. **The election.** Round-robin and fixed leaders need nothing. Carousel is round-robin wherever
///    the last view did not bring a commit. Reputation may draw a spoiler in any view as long as it
///    weighs 1000 and the others, who had an outage, 1 or 10: without commits the window does not
///    move, so that ends only when all weigh the same, `PATIENCE` views after the last commit.
/// 4. **A run of good leaders**, as long as the chain that commits ([`views_of_a_run`]). With the
///    linear pacemaker a spoiler's view just before may spoil one, as in 1: it is the second.
/// 5. **One more** view, whose proposal shows the last certificate.
fn liveness_views(cluster: &Cluster, healed: View) -> u64 {
    let config = &cluster.config;
    if config.replicas == 1 {
        // Alone, a replica goes through any number of views in one instant.
        return u64::MAX;
    }
    let spoilers = spoilers(cluster);
    let spoilt = spoilers.contains(&true);
    let replicas = config.replicas as u64;
    let skips = config.pacemaker == Kind::Linear && !config.election.needs_signers();
    let done_before = if skips { 2 * replicas } else { 1 };
    let waits_grow = match waits_to_grow(config) {
        0 => 0,
        steps => config.rules.facts().chain_length + 4 * ((replicas - 1) / 3).min(4) + steps,
    };
    let drawn_by_weight = match config.election {
        Election::Reputation if spoilt => PATIENCE,
        _ => 0,
    };
    let mut views = done_before + waits_grow + drawn_by_weight;
    for _ in 0..1 + u64::from(skips && spoilt) {
        views += views_of_a_run(config, healed.plus(views), &spoilers);
    }
    views + 1
}

/// How often the wait has to grow until a fifth of it is enough for a view.
fn waits_to_grow(config: &Config) -> u64 {
    let enough = SHORTENED * view_micros(config);
    let waits = |wait: &u64| Some(wait * LONGER_PERCENT / 100);
    let grown = std::iter::successors(Some(config.base_timeout), waits);
    grown.take_while(|wait| *wait < enough).count() as u64
}

/// How many views after `view` the first run of leaders that are no spoilers is complete.
///
/// That follows the very draws: without a commit each election is a function of the view alone,
/// which is what it is on the genesis block. (For round-robin a run ends within n + 3 views. Uniform
/// draws, good with a probability p > 2/3, need (1 − p³) / ((1 − p) p³) views on average for three in
/// a row, 7 or less, and more than 40 once in 1800 times: a bound for all draws would be a loose one.)
fn views_of_a_run(config: &Config, view: View, spoilers: &[bool]) -> u64 {
    let committee = keys::committee(config.replicas);
    let genesis = Arc::new(Block::genesis(keys::CHAIN, Epoch(0)));
    let head = genesis.id();
    let tree = BlockTree::new(genesis, Height(0), Vec::new());
    let history = History { tree: &tree, head: &head, committed: Height(0) };
    let needed = config.rules.facts().chain_length;
    let mut run = 0;
    let complete = (1..10_000).find(|views| {
        let leader = config.election.leader(view.plus(*views), &committee, needed, &history);
        run = if spoilers[leader.index()] { 0 } else { run + 1 };
        run == needed
    });
    complete.expect("there are leaders that are no spoilers")
}

fn seeds(usual: std::ops::Range<u64>) -> std::ops::Range<u64> {
    let Ok(range) = std::env::var("QUORATE_SEEDS") else { return usual };
    let (from, to) = range.split_once("..").expect("QUORATE_SEEDS=from..to");
    from.parse().expect("a number")..to.parse().expect("a number")
}

/// Runs all seeds, so that a wide run names every one that fails.
fn for_each_seed(usual: std::ops::Range<u64>, run: impl Fn(u64, &mut Option<Cluster>)) {
    let mut failed = Vec::new();
    for seed in seeds(usual) {
        let mut place = None;
        if catch_unwind(AssertUnwindSafe(|| run(seed, &mut place))).is_err() {
            eprintln!("seed {seed} fails: QUORATE_SEEDS={seed}..{} QUORATE_TRACE=1", seed + 1);
            if let Some(cluster) = place.as_mut().filter(|cluster| cluster.trace.on) {
                eprintln!("{}", cluster.trace.take().join("\n"));
            }
            failed.push(seed);
        }
    }
    assert!(failed.is_empty(), "these seeds fail: {failed:?}");
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
    let config = Config {
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
            cut: false,
        },
        verify_delay: rng.pick(&[None, Some((10, 500)), Some((100, 20_000))]),
        inline_bytes: rng.pick(&[0, 64, 4096]),
        batch_commands: rng.pick(&[1, 5, 100]),
        snapshot_blocks: rng.pick(&[5, 20, 1_000_000]),
        retire: rng.percent(50),
        ..Config::default()
    };
    // Long enough for a view, every second time even where it is shortened.
    let times = rng.pick(&[1, SHORTENED]);
    Config { base_timeout: times * view_micros(&config), ..config }
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

/// Whether all correct replicas hold the block of the highest certificate that any of them has, so
/// that each can vote and lead.
fn found_together(cluster: &Cluster) -> bool {
    let high_qcs = cluster.correct().map(|core| core.protocol().high_qc());
    let Some(highest) = high_qcs.max_by_key(|qc| qc.rank()) else { return false };
    let holds = |core: &Core| {
        let root = core.protocol().tree().root().view;
        root >= highest.view() || core.protocol().tree().find(&highest.block()).is_some()
    };
    cluster.correct().all(|core| !core.is_rejoining() && holds(core))
}

/// The network heals, everybody comes back, and gets the blocks it lacks: that takes requests, which
/// may go to dead peers first, and time rather than views. From there on the next commit takes a
/// bounded number of views; and in the end every command must be answered.
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
    assert!(
        cluster.run_until(600_000_000, |cluster| found_together(cluster) || cluster.is_answered()),
        "a replica does not get the blocks it lacks"
    );
    for client in 0..cluster.clients.len() {
        cluster.request(client, 1, 10);
    }
    let (view, height) = (cluster.highest_view(), cluster.oracles.height());
    let allowed = liveness_views(cluster, view);
    assert!(
        cluster.run_until(600_000_000, |cluster| cluster.oracles.height() > height),
        "nothing is committed after the network healed"
    );
    let views = cluster.highest_view().0 - view.0;
    assert!(views <= allowed, "it took {views} views to commit, {allowed} are allowed");
    assert!(cluster.run_until_answered(600_000_000), "no progress after the network healed");
    assert!(
        cluster.run_until(600_000_000, Cluster::is_level),
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
        let mut config = draw(&mut rng, seed);
        if rng.percent(10) {
            // All come back in the end: who leads alone as well.
            config.election = Election::Fixed(ReplicaId(rng.below(config.replicas as u64) as u16));
        }
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
            assert!(cluster.run_until_answered(600_000_000));
        }
        assert!(cluster.correct().all(|core| !core.is_rejoining()));
        must_fall_silent(cluster);
    });
}
