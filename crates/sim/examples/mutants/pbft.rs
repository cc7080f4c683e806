//! Worlds of PBFT.

pub mod attacks;

use quorate_adversary::pbft::ALL;
use quorate_core::Duration;
use quorate_core::protocols::pbft::words::Phase;
use quorate_core::protocols::pbft::{Authentication, Message, Patience, Settings};
use quorate_core::replica::message::PeerMessage;
use quorate_sim::family::Pbfts;
use quorate_sim::network::Fate;
use quorate_sim::rng::Rng;
use quorate_sim::swarm::{self, Plan};
use quorate_sim::twins::pbft;
use quorate_sim::{Cluster, Config, Peer};

use crate::schedules::trace;
use crate::twins::DELIVERED;

/// How long, in virtual microseconds, a cluster may take for what it must do.
const PATIENCE: u64 = 120_000_000;
/// The first wait for a primary, in microseconds.
const BASE: u64 = 100_000;
/// Kinds of messages that are lost by themselves.
const KINDS: usize = 6;

/// A cluster that is looked at when it is over, however it ends.
#[derive(Default)]
struct Place(Option<Cluster<Pbfts>>);

impl Drop for Place {
    fn drop(&mut self) {
        let Some(cluster) = &mut self.0 else { return };
        DELIVERED.set(cluster.steps);
        if std::thread::panicking() && cluster.trace.on {
            eprintln!("{:?}\n{}", cluster.config, cluster.trace.take().join("\n"));
        }
    }
}

/// The worlds of `quorate sim --protocol pbft`.
pub fn swarm(seed: u64, _: &mut Option<Cluster>) {
    let mut place = Place::default();
    swarm::run(seed, &Plan::default(), trace(), &mut place.0);
}

fn kind(message: &Peer<Pbfts>) -> Option<usize> {
    let PeerMessage::Protocol { message, .. } = message else { return None };
    Some(match message {
        Message::PrePrepare { .. } => 0,
        Message::Vote { vote, .. } if vote.phase == Phase::Prepare => 1,
        Message::Vote { .. } => 2,
        Message::Checkpoint { .. } | Message::Stable(_) => 3,
        Message::ViewChange(_) => 4,
        Message::NewView { .. } => 5,
        Message::Standing(_) => return None,
    })
}

fn draw(rng: &mut Rng, seed: u64) -> Config {
    let checkpoint_every = rng.pick(&[1, 2, 8]);
    let base = Duration::from_micros(BASE);
    let pbft = Settings {
        authentication: rng.pick(&[Authentication::Signatures, Authentication::Macs]),
        window: 2 * checkpoint_every + rng.pick(&[0, 3]),
        checkpoint_every,
        under_way: rng.pick(&[1, 3, 8]),
        patience: Patience { base, max: base * 64 },
        ..Settings::default()
    };
    let replicas = rng.pick(&[4, 4, 4, 5, 7]);
    let clients = 4;
    Config { pbft, replicas, clients, seed, batch_commands: 1, ..Config::default() }
}

/// The directed attack of a number.
pub fn attacks(number: u64, _: &mut Option<Cluster>) {
    attacks::run(number);
}

/// Scenarios of Twins.
pub fn twins(seed: u64, _: &mut Option<Cluster>) {
    let mut place = Place::default();
    pbft::run(&pbft::Scenario::draw(seed), trace(), &mut place.0);
}

/// Who hears which phase of whom changes from one moment to the next, while replicas come and go;
/// in some worlds one replica lies.
pub fn phases(seed: u64, _: &mut Option<Cluster>) {
    let mut rng = Rng::new(seed ^ 0x9BF7);
    let config = draw(&mut rng, seed);
    let replicas = config.replicas;
    let mut place = Place::default();
    let cluster = place.0.insert(Cluster::of(config, trace()));
    if rng.percent(40) {
        let (_, make) = rng.pick(&ALL);
        cluster.make_liar(rng.below(replicas as u64) as usize, make(rng.number()));
    }
    for _ in 0..rng.between((5, 40)) {
        for client in 0..4 {
            if rng.percent(70) {
                cluster.request(client, 1, 10);
            }
        }
        let unheard: [Vec<u64>; KINDS] = std::array::from_fn(|_| {
            let quiet = rng.percent(60);
            let mask = |rng: &mut Rng| if quiet { 0 } else { rng.number() & rng.number() };
            (0..replicas).map(|_| mask(&mut rng)).collect()
        });
        cluster.meddler = Some(Box::new(move |from, to, message| {
            match kind(message).is_some_and(|kind| unheard[kind][from] >> to & 1 == 1) {
                true => Fate::Lost,
                false => Fate::Goes,
            }
        }));
        let slot = rng.below(replicas as u64) as usize;
        match rng.below(6) {
            0 if cluster.slots[slot].core.is_some() => cluster.crash(slot),
            1 | 2 if cluster.slots[slot].core.is_none() => cluster.boot(slot),
            3 => cluster.network.partition(|other| usize::from(other == slot)),
            4 => cluster.network.heal(),
            _ => {}
        }
        cluster.run_for(rng.pick(&[2_000, 5_000, 20_000, 150_000, 400_000]));
    }
    recovers(cluster);
}

/// Everybody is there and hears everything: all is answered, and all come to one state.
fn recovers(cluster: &mut Cluster<Pbfts>) {
    cluster.meddler = None;
    cluster.network.heal();
    for slot in 0..cluster.slots.len() {
        if cluster.slots[slot].core.is_none() {
            cluster.boot(slot);
        }
    }
    for _ in 0..3 {
        (0..4).for_each(|client| cluster.request(client, 1, 10));
        assert!(cluster.run_until_answered(PATIENCE), "liveness: a command is not answered");
    }
    let is_level = cluster.run_until(PATIENCE, Cluster::is_level);
    assert!(is_level || cluster.slots.iter().any(|slot| slot.faulty), "liveness: a replica lags");
}
