//! Random schedules: everything is drawn from a seed, disturbed, healed, and must recover.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};

use quorate_core::base::crypto::Form;
use quorate_core::base::membership;
use quorate_core::protocols::hotstuff::leader::Election;
use quorate_core::protocols::hotstuff::pacemaker::Kind;
use quorate_core::protocols::hotstuff::rules::{self, Rules};
use quorate_core::replica::Ancestors;
use quorate_sim::disk::{Disk, Fate};
use quorate_sim::network::Link;
use quorate_sim::rng::Rng;
use quorate_sim::swarm::{self, Plan};
use quorate_sim::trace::Trace;
use quorate_sim::{Cluster, Config, status_of};

use crate::forger::Forger;

/// How long, in virtual microseconds, a cluster may take for what it must do.
const PATIENCE_MICROS: u64 = 60_000_000;

/// Views that may pass from the healing of the network to the next commit: one in which replicas
/// find together, and rotations of leaders: two, one more where liars or replicas that abstain may
/// spoil one, two more where some are dead, and as many views as an election by history may take to
/// see that they are.
fn liveness_views(cluster: &Cluster) -> u64 {
    if cluster.config.replicas == 1 {
        // Alone, a replica goes through any number of views in one instant.
        return u64::MAX;
    }
    let spoilt = cluster.slots.iter().any(|slot| slot.faulty || slot.lost_data);
    let dead = cluster.slots.iter().any(|slot| slot.core.is_none());
    let by_history = cluster.config.election != Election::RoundRobin;
    let rotations = 3 + u64::from(spoilt) + 2 * u64::from(dead) + 2 * u64::from(by_history);
    4 + rotations * cluster.config.replicas as u64 + if by_history { 40 } else { 0 }
}

/// Where the variant to be run is in [`rules::ALL`]; beyond it: any.
static VARIANT: AtomicUsize = AtomicUsize::new(usize::MAX);

/// From now on this variant alone is run; `None`: all are.
pub fn only(variant: Option<&str>) {
    let at = variant.and_then(|name| rules::ALL.iter().position(|r| r.facts().name == name));
    VARIANT.store(at.unwrap_or(usize::MAX), Ordering::Relaxed);
}

/// The variants to be run.
pub fn variants() -> Vec<&'static dyn Rules> {
    match rules::ALL.get(VARIANT.load(Ordering::Relaxed)) {
        Some(rules) => vec![*rules],
        None => rules::ALL.to_vec(),
    }
}

pub fn draw_rules(rng: &mut Rng) -> &'static dyn Rules {
    let variants = variants();
    variants[rng.below(variants.len() as u64) as usize]
}

/// A cluster drawn from a seed.
fn draw(rng: &mut Rng, seed: u64) -> Config {
    let replicas = rng.pick(&[1, 2, 3, 3, 4, 4, 4, 4, 4, 5, 6, 7, 10]);
    let slowest = rng.pick(&[1_000, 5_000, 40_000]);
    let rules = draw_rules(rng);
    let forms = rng.pick(&[
        (Form::List, Form::List),
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
            loss_percent: rng.pick(&[0, 0, 2, 10]),
            duplicate_percent: rng.pick(&[0, 5]),
            delay: (500, slowest),
            ..Link::steady(0)
        },
        verify_delay: rng.pick(&[None, Some((10, 500)), Some((100, 20_000))]),
        inline_bytes: rng.pick(&[0, 64, 4096]),
        batch_commands: rng.pick(&[1, 5, 100]),
        snapshot_blocks: rng.pick(&[5, 20, 1_000_000]),
        retire: rng.percent(50),
        encodes: false,
        ..Config::default()
    }
}

/// `QUORATE_TRACE=1`: what happened is printed where something is found.
pub fn trace() -> Trace {
    if std::env::var_os("QUORATE_TRACE").is_some() { Trace::on() } else { Trace::default() }
}

/// One random fault, or the end of one.
fn disturb(cluster: &mut Cluster, rng: &mut Rng) {
    let slots = cluster.slots.len();
    let slot = rng.below(slots as u64) as usize;
    match rng.below(11) {
        0 if cluster.slots[slot].core.is_some() => cluster.crash(slot),
        1 | 2 => {
            let fate = match rng.below(3) {
                0 => Fate::Kept,
                1 => Fate::Lost,
                _ => Fate::Mixed { seed: rng.number() },
            };
            cluster.power_failure_in(slot, 1 + rng.below(12), fate);
        }
        3..=5 if cluster.slots[slot].core.is_none() => cluster.boot(slot),
        6 if rng.percent(50) => {
            let sides = rng.number();
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
        // One replica alone.
        9 => cluster.network.partition(|other| usize::from(other == slot)),
        _ => {}
    }
}

/// The network heals, everybody comes back but those who are to stay `down`; then every command
/// must be answered.
fn must_recover(cluster: &mut Cluster, down: &[usize]) {
    cluster.network.heal();
    cluster.network.set_all(|link| link.loss_percent = 0);
    for slot in 0..cluster.slots.len() {
        cluster.slots[slot].disk.heal();
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
        cluster.run_until(PATIENCE_MICROS, |cluster| cluster.oracles.height() > height),
        "liveness: nothing is committed after the network healed"
    );
    let views = cluster.highest_view().0 - view;
    let allowed = liveness_views(cluster);
    // Alone, a replica does in one turn all there is to do.
    assert!(
        views <= allowed || cluster.slots.len() == 1,
        "liveness: it took {views} views to commit, {allowed} are allowed"
    );
    assert!(
        cluster.run_until_answered(PATIENCE_MICROS),
        "liveness: not all is answered after the network healed"
    );
    // Who keeps something from one replica for ever can keep it behind while there is no work.
    let kept_from = cluster.slots.iter().any(|slot| slot.faulty && slot.core.is_some());
    assert!(
        cluster.run_until(PATIENCE_MICROS, Cluster::is_level) || kept_from,
        "liveness: a replica does not catch up: {:?}",
        cluster.correct().map(|core| core.execution().height()).collect::<Vec<_>>()
    );
    for client in &cluster.clients {
        assert_eq!(
            cluster.oracles.executed_of(client.id),
            client.acknowledged,
            "exactly once: client {} was told of other commands than were executed",
            client.id
        );
    }
}

/// After all was answered nothing moves any more.
fn must_fall_silent(cluster: &mut Cluster) {
    cluster.run_for(10_000_000);
    assert_eq!(cluster.in_flight(), 0, "silence: messages without work");
    assert!(!cluster.has_timer(), "silence: a timer without work");
}

fn some_requests(cluster: &mut Cluster, rng: &mut Rng) {
    let client = rng.below(cluster.clients.len() as u64) as usize;
    if rng.percent(60) {
        let (count, bytes) = (1 + rng.below(4), rng.pick(&[10, 100]));
        cluster.request(client, count, bytes);
    }
    if rng.percent(10) {
        // Several frames on their way at once.
        for _ in 0..4 {
            cluster.request(client, 1, 10);
        }
    }
}

fn some_time(cluster: &mut Cluster, rng: &mut Rng) {
    let micros = rng.pick(&[1_000, 10_000, 50_000, 300_000, 300_000]);
    cluster.run_for(micros);
}

/// The worlds of `quorate sim`.
pub fn campaign(seed: u64, place: &mut Option<Cluster>) {
    let variants = variants();
    let rules = variants.first().filter(|_| variants.len() == 1).copied();
    swarm::run(seed, &Plan { rules, ..Plan::default() }, trace(), place);
}

/// Loss, partitions, delays, crashes at any write; in the end up to f replicas are dead.
pub fn faults(seed: u64, place: &mut Option<Cluster>) {
    let mut rng = Rng::new(seed);
    let config = draw(&mut rng, seed);
    let cluster = place.insert(Cluster::traced(config, trace()));
    cluster.watch_strictly();
    let replicas = cluster.config.replicas as u64;
    let tells_all = cluster.config.pacemaker == Kind::TimeoutCertificates;
    let dead = rng.percent(40) && (4..8).contains(&replicas) && tells_all;
    let down: Vec<usize> = match dead {
        true => (0..membership::faults(replicas as usize))
            .map(|_| rng.below(replicas) as usize)
            .collect(),
        false => Vec::new(),
    };
    for _ in 0..rng.between((10, 80)) {
        some_requests(cluster, &mut rng);
        if rng.percent(50) {
            disturb(cluster, &mut rng);
        }
        some_time(cluster, &mut rng);
    }
    must_recover(cluster, &down);
    if !dead {
        must_fall_silent(cluster);
    }
}

/// Up to f replicas lie: they run twice with one key, forget what they signed, and bend or forge
/// what they send.
pub fn liars(seed: u64, place: &mut Option<Cluster>) {
    let mut rng = Rng::new(seed ^ 0x11A5);
    let replicas = rng.pick(&[4, 4, 4, 5, 6, 7, 10]);
    let mut liars: Vec<usize> = (0..replicas).collect();
    while liars.len() > membership::faults(replicas) {
        liars.remove(rng.below(liars.len() as u64) as usize);
    }
    let config = Config { replicas, twins: liars, ..draw(&mut rng, seed) };
    let cluster = place.insert(Cluster::traced(config, trace()));
    cluster.watch_strictly();
    if rng.percent(60) {
        for slot in
            (0..cluster.slots.len()).filter(|slot| cluster.slots[*slot].faulty).collect::<Vec<_>>()
        {
            let (_, make) = rng.pick(&quorate_adversary::ALL);
            cluster.make_liar(slot, make(rng.number()));
        }
    }
    if rng.percent(60) {
        let faulty = cluster.slots.iter().map(|slot| slot.faulty).collect();
        let forger = RefCell::new(Forger::new(rng.number(), faulty));
        cluster.meddler =
            Some(Box::new(move |from, to, message| forger.borrow_mut().meddle(from, to, message)));
    }
    for _ in 0..rng.between((10, 60)) {
        some_requests(cluster, &mut rng);
        if rng.percent(50) {
            disturb(cluster, &mut rng);
        }
        let liar = cluster.config.replicas;
        if rng.percent(10) {
            cluster.crash(liar);
            cluster.slots[liar].disk = Disk::default();
            cluster.boot(liar);
        }
        some_time(cluster, &mut rng);
    }
    // In the end the liars lie on, or are silent.
    let down: Vec<usize> = match rng.below(3) {
        0 => (0..cluster.slots.len()).filter(|slot| cluster.slots[*slot].faulty).collect(),
        _ => Vec::new(),
    };
    must_recover(cluster, &down);
}

/// Up to f replicas lose their disks in the middle of it all, and never contradict themselves.
pub fn lost_data(seed: u64, place: &mut Option<Cluster>) {
    let mut rng = Rng::new(seed ^ 0x105E);
    let replicas = rng.pick(&[4, 4, 7]);
    let config = Config { replicas, ..draw(&mut rng, seed) };
    let cluster = place.insert(Cluster::traced(config, trace()));
    cluster.watch_strictly();
    let mut victims = membership::faults(replicas);
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
            cluster.slots[slot].disk = Disk::default();
            cluster.rejoin(slot, victims as u8);
        }
        some_time(cluster, &mut rng);
    }
    must_recover(cluster, &[]);
    // Enough views that it may speak again.
    for _ in 0..30 {
        cluster.request(0, 1, 10);
        assert!(cluster.run_until_answered(PATIENCE_MICROS), "liveness: after data was lost");
    }
    assert!(
        cluster.correct().all(|core| !core.is_rejoining()),
        "liveness: a replica that lost its data does not come back"
    );
    must_fall_silent(cluster);
}

/// Who is cut off changes with every view and every certificate, at the moment when it is there: as
/// in Twins, a certificate reaches a few only, and time-outs build on what the others have. With
/// twins in half of the worlds.
pub fn views(seed: u64, place: &mut Option<Cluster>) {
    let mut rng = Rng::new(seed ^ 0x71E5);
    let rules = draw_rules(&mut rng);
    let twins = if rng.percent(50) { vec![rng.below(4) as usize] } else { Vec::new() };
    let config = Config {
        rules,
        pacemaker: rng.pick(&[Kind::TimeoutCertificates, Kind::TimeoutCertificates, Kind::Linear]),
        second_vote: rules.facts().name == "hotstuff-two-chain" && rng.percent(30),
        broadcast_votes: rng.percent(20),
        twins,
        seed,
        base_timeout: 20_000,
        delta: 5_000,
        client_patience: 200_000,
        encodes: false,
        ..Config::default()
    };
    let cluster = place.insert(Cluster::traced(config, trace()));
    cluster.watch_strictly();
    if rng.percent(30) {
        let faulty = cluster.slots.iter().map(|slot| slot.faulty).collect();
        let forger = RefCell::new(Forger::new(rng.number(), faulty));
        cluster.meddler =
            Some(Box::new(move |from, to, message| forger.borrow_mut().meddle(from, to, message)));
    }
    for _ in 0..rng.between((5, 40)) {
        if rng.percent(40) {
            cluster.request(0, 1, 10);
        }
        let before = front(cluster);
        cluster.run_until(400_000, |cluster| front(cluster) > before);
        if rng.percent(30) {
            cluster.run_for(rng.pick(&[500, 1_000, 2_000]));
        }
        repartition(cluster, &mut rng);
        if rng.percent(5) {
            let slot = rng.below(4) as usize;
            cluster.crash(slot);
            cluster.boot(slot);
        }
    }
    must_recover(cluster, &[]);
}

/// The highest view, and the highest certificate.
fn front(cluster: &Cluster) -> (u64, u64) {
    let statuses = || cluster.slots.iter().filter_map(|slot| slot.core.as_deref()).map(status_of);
    let view = statuses().map(|status| status.view.0).max().unwrap_or(0);
    (view, statuses().map(|status| status.high_qc.0).max().unwrap_or(0))
}

fn repartition(cluster: &mut Cluster, rng: &mut Rng) {
    let slots = cluster.slots.len();
    let one = rng.below(slots as u64) as usize;
    // Who knows most is the one to keep apart.
    let knows =
        |slot: usize| cluster.slots[slot].core.as_deref().map(|core| status_of(core).high_qc);
    let first = (0..slots).max_by_key(|slot| (knows(*slot), *slot)).unwrap_or(0);
    let one = if rng.percent(50) { first } else { one };
    match rng.below(10) {
        0..=3 => cluster.network.partition(|slot| usize::from(slot == one)),
        4 | 5 => {
            cluster.network.heal();
            (0..slots).for_each(|to| cluster.network.link(one, to).cut = true);
        }
        6 => {
            let other = rng.below(slots as u64) as usize;
            cluster.network.heal();
            (0..slots)
                .filter(|to| *to != other)
                .for_each(|to| cluster.network.link(one, to).cut = true);
        }
        7 => {
            let sides = rng.number();
            cluster.network.partition(|slot| (sides >> slot & 1) as usize);
        }
        _ => cluster.network.heal(),
    }
}

/// One replica after another gets a certificate that nobody else has, is cut off with it, and comes
/// back while another one is: what it alone knows to be committed must be what all commit. In half
/// of the worlds a liar forks whenever it may.
pub fn holders(seed: u64, place: &mut Option<Cluster>) {
    let mut rng = Rng::new(seed ^ 0x401D);
    let config = Config {
        rules: draw_rules(&mut rng),
        seed,
        base_timeout: 20_000,
        delta: 5_000,
        client_patience: 100_000,
        encodes: false,
        ..Config::default()
    };
    let cluster = place.insert(Cluster::traced(config, trace()));
    let liar = rng.percent(50).then(|| rng.below(4) as usize);
    if let Some(liar) = liar {
        cluster.slots[liar].faulty = true;
        let faulty = cluster.slots.iter().map(|slot| slot.faulty).collect();
        let domain = cluster.config.domain();
        let forger = RefCell::new(Forger::new(rng.number(), faulty).who_always_forks(domain));
        cluster.meddler =
            Some(Box::new(move |from, to, message| forger.borrow_mut().meddle(from, to, message)));
    }
    cluster.watch_strictly();
    cluster.request(0, 1, 10);
    cluster.run_for(rng.below(15) * 1_000);
    let pair = [rng.below(4) as usize, rng.below(4) as usize];
    for round in 0..rng.between((2, 7)) as usize {
        cluster.request(0, 1, 10);
        hold(cluster, &mut rng, pair[round % 2]);
    }
    cluster.network.heal();
    cluster.meddler = None;
    for _ in 0..3 {
        cluster.request(0, 1, 10);
        assert!(
            cluster.run_until_answered(PATIENCE_MICROS),
            "liveness: not all is answered after the network healed"
        );
    }
}

/// `holder` gets a certificate, is cut off, and the others go on for some views.
fn hold(cluster: &mut Cluster, rng: &mut Rng, holder: usize) {
    let rank = |cluster: &Cluster, slot: usize| cluster.core(slot).protocol().high_qc().rank();
    let highest = |cluster: &Cluster| (0..4).map(|slot| rank(cluster, slot)).max();
    cluster.network.heal();
    let phases = cluster.config.rules.facts().phases;
    if phases > 1 {
        // It leads, and has come to some phase.
        let phase = rng.below(u64::from(phases)) as u8;
        cluster.run_until(150_000, |cluster| {
            let status = status_of(cluster.core(holder));
            let leads = status.leader.index() == holder;
            leads && (phase == 0 || rank(cluster, holder) >= (status.view, phase))
        });
        cluster.run_for(rng.pick(&[0, 1_000]));
    }
    // With one who hears nothing there are no more votes than a certificate needs, and the others
    // cannot make it again of what time-outs carry.
    let deaf = rng.percent(80).then(|| (holder + 1 + rng.below(3) as usize) % 4);
    for other in 0..4 {
        cluster.network.link(holder, other).cut = true;
        if let Some(deaf) = deaf {
            cluster.network.link(other, deaf).cut = true;
        }
    }
    let before = highest(cluster);
    cluster.run_until(150_000, |cluster| Some(rank(cluster, holder)) > before);
    cluster.network.partition(|slot| usize::from(slot == holder));
    let views = cluster.highest_view().0 + 1 + rng.below(3);
    let others = |cluster: &Cluster| {
        let view = |slot: usize| status_of(cluster.core(slot)).view.0;
        (0..4).filter(|slot| *slot != holder).map(view).max()
    };
    cluster.run_until(600_000, |cluster| others(cluster) >= Some(views));
}
