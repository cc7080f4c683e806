//! What a cluster is made of, drawn.

use quorate_adversary::{ALL, Schedule, named};
use quorate_core::ReplicaId;
use quorate_core::base::crypto::Form;
use quorate_core::base::membership::faults;
use quorate_core::protocols::hotstuff::leader::Election;
use quorate_core::protocols::hotstuff::pacemaker::Kind;
use quorate_core::protocols::hotstuff::rules::{self, Rules};
use quorate_core::replica::{Ancestors, Dissemination};

use super::{Plan, Trouble};
use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::config::Config;
use crate::family::Family;
use crate::liveness::{SHORTENED, view_micros};
use crate::network::Link;
use crate::rng::Rng;

/// The most that a clock may be wrong: 50 parts in a million are a bad quartz, 10,000 a broken one.
const DRIFTS: [i64; 6] = [0, 0, 50, -50, 10_000, -10_000];
/// Clocks begin up to so many nanoseconds apart: five seconds.
const LARGEST_OFFSET: u64 = 5_000_000_000;

pub(super) fn config(rng: &mut Rng, seed: u64, plan: &Plan, trouble: Trouble) -> Config {
    let drawn = match trouble {
        Trouble::Faults => rng.pick(&[1, 2, 3, 4, 4, 4, 4, 5, 7, 10]),
        Trouble::Liars => rng.pick(&[4, 4, 4, 5, 7, 10]),
        Trouble::LostData => rng.pick(&[4, 4, 7]),
        Trouble::Changes | Trouble::LyingChanges => CHANGING,
    };
    let replicas = plan.replicas.unwrap_or(drawn);
    let mut size = latest(seed);
    let replicas = match trouble {
        trouble if trouble.changes() => replicas.max(4),
        _ => many(&mut size, plan).unwrap_or(replicas),
    };
    let twins = match trouble {
        Trouble::Liars if replicas <= FEW => some(rng, replicas, faults(replicas)),
        Trouble::Liars => some(&mut size, replicas, 2),
        // Of those that may be faulty one lies; the others lose their data.
        Trouble::LostData if faults(replicas) > 1 && size.percent(50) => {
            some(&mut size, replicas, 1)
        }
        Trouble::LyingChanges if size.percent(50) => some(&mut size, replicas, 1),
        _ => Vec::new(),
    };
    let drawn = rng.pick(&rules::ALL);
    let rules = plan.rules.unwrap_or(drawn);
    let forms = rng.pick(&[
        (Form::List, Form::List),
        (Form::Aggregate, Form::Aggregate),
        (Form::Threshold, Form::Aggregate),
    ]);
    // A change is signed by keys that a signature is checked by alone.
    let changes = trouble.changes();
    let forms = if changes { (Form::List, Form::List) } else { forms };
    let batch_commands = rng.pick(&[1, 5, 100]);
    let config = Config {
        replicas,
        members: changes.then(|| later(seed).between((4, replicas as u64)) as usize),
        rules,
        twins,
        election: election(rng, forms.0, replicas, trouble),
        forms,
        pacemaker: rng.pick(&[Kind::TimeoutCertificates, Kind::Linear]),
        second_vote: second_vote(rng, rules),
        filtering: rng.percent(90),
        ancestors: rng.pick(&[
            Ancestors::None,
            Ancestors::None,
            Ancestors::Missing,
            Ancestors::All,
        ]),
        seed,
        clients: 1 + rng.below(3) as usize,
        link: link(rng),
        verify_delay: rng.pick(&[None, Some((10, 500)), Some((100, 20_000))]),
        inline_bytes: rng.pick(&[0, 64, 4096]),
        batch_commands,
        // Where blocks are small, so are segments: logs are cut after a few.
        log_room_bytes: if batch_commands > 5 { 32 << 10 } else { 0 },
        snapshot_blocks: rng.pick(&[5, 20, 1_000_000]),
        retire: rng.percent(50),
        encodes: rng.percent(25),
        sync_micros: later(seed).pick(&[(0, 0), (0, 0), (0, 0), (100, 1_000)]),
        dissemination: Dissemination::Direct,
        ..Config::default()
    };
    let config = with_large_blocks(&mut size, config);
    // Never too short for a view; every second time long enough even where it is shortened.
    let times = rng.pick(&[1, SHORTENED]);
    Config { base_timeout: times * view_micros(&config), ..config }
}

/// Numbers for what came to be drawn later, so that the seeds before it are the same runs still.
pub(super) fn later(seed: u64) -> Rng {
    Rng::new(!seed)
}

/// The same for what was drawn last of all.
fn latest(seed: u64) -> Rng {
    Rng::new(seed.rotate_left(32))
}

/// So many replicas there are where members change.
const CHANGING: usize = 8;
/// More replicas than this are many: what takes long is done less often.
const FEW: usize = 10;
/// One seed of so many has many replicas, and one of fewer has large blocks.
const MANY_ONE_IN: u64 = 300;
const LARGE_ONE_IN: u64 = 120;
/// Commands of a block, and of a frame and their bytes, where blocks are large.
const LARGE_BATCH: usize = 2_000;
const LARGE_REQUEST: (u64, usize) = (12, 40_000);
/// A block is at most a MiB, and comes with its header and certificates.
const LARGE_ROOM_BYTES: u64 = 2 << 20;

/// Many replicas, seldom: certificates are long then, elections look far back, and a replica hears
/// from many at once.
fn many(rng: &mut Rng, plan: &Plan) -> Option<usize> {
    let is_one = rng.below(MANY_ONE_IN) == 0;
    let replicas = rng.pick(&[16, 16, 31, 64]);
    (is_one && plan.replicas.is_none()).then_some(replicas)
}

/// Blocks near the limit of their bytes, seldom.
fn with_large_blocks(rng: &mut Rng, config: Config) -> Config {
    if rng.below(LARGE_ONE_IN) > 0 || config.replicas > FEW {
        return config;
    }
    Config { batch_commands: LARGE_BATCH, log_room_bytes: LARGE_ROOM_BYTES, ..config }
}

/// Whether each round of a storm takes long to compute.
pub(super) fn is_costly(config: &Config) -> bool {
    config.replicas > FEW || large_request(config).is_some()
}

/// How many commands of how many bytes a client asks for, where blocks are large.
pub(super) fn large_request(config: &Config) -> Option<(u64, usize)> {
    (config.batch_commands >= LARGE_BATCH).then_some(LARGE_REQUEST)
}

/// Those that lie get an adversary each, which most of the time makes small changes to whatever
/// they send; or the one that is wanted.
pub(crate) fn lies(cluster: &mut Cluster, rng: &mut Rng, wanted: Option<&Schedule>) {
    for slot in 0..cluster.slots.len() {
        if !cluster.slots[slot].faulty {
            continue;
        }
        let seed = rng.number();
        let (any, _) = rng.pick(&ALL);
        let drawn = if rng.percent(50) { "small-scope" } else { any };
        let mut flood = latest(seed);
        let drawn = if flood.percent(5) { "unsolicited-chunks" } else { drawn };
        let adversary = match (wanted, named(drawn)) {
            (Some(schedule), _) => match schedule.build(seed) {
                Ok(adversary) => adversary,
                Err(foreign) => panic!("harness: {foreign}"),
            },
            (None, Some(make)) => make(seed),
            (None, None) => continue,
        };
        match wanted {
            None => cluster.faults.fired(drawn),
            Some(schedule) => schedule.parts().for_each(|(name, _)| cluster.faults.fired(name)),
        }
        cluster.make_liar(slot, adversary);
    }
}

/// So many of the replicas.
pub(super) fn some(rng: &mut Rng, replicas: usize, count: usize) -> Vec<usize> {
    let mut chosen: Vec<usize> = (0..replicas).collect();
    while chosen.len() > count {
        chosen.remove(rng.below(chosen.len() as u64) as usize);
    }
    chosen
}

fn election(rng: &mut Rng, form: Form, replicas: usize, trouble: Trouble) -> Election {
    if trouble == Trouble::Faults && rng.percent(10) {
        // It is back when the network has healed.
        return Election::Fixed(ReplicaId(rng.below(replicas as u64) as u16));
    }
    match form {
        // Certificates that name no signers elect nobody.
        Form::Threshold => Election::RoundRobin,
        _ => rng.pick(&[
            Election::RoundRobin,
            Election::RoundRobin,
            Election::Carousel,
            Election::Reputation,
        ]),
    }
}

fn second_vote(rng: &mut Rng, rules: &dyn Rules) -> bool {
    rules.facts().name == "hotstuff-two-chain" && rng.percent(50)
}

fn link(rng: &mut Rng) -> Link {
    let slowest = rng.pick(&[1_000, 5_000, 40_000]);
    Link {
        delay: (500, slowest),
        straggle_percent: rng.pick(&[0, 0, 1, 5]),
        straggle: rng.pick(&[20_000, 500_000]),
        loss_percent: rng.pick(&[0, 0, 2, 10]),
        duplicate_percent: rng.pick(&[0, 5]),
        in_order: rng.percent(30),
        bytes_per_ms: rng.pick(&[0, 0, 0, 100_000]),
        cut: false,
    }
}

/// Clocks of their own for all replicas.
pub(super) fn clocks<F: Family>(cluster: &mut Cluster<F>, rng: &mut Rng) {
    if rng.percent(50) {
        return;
    }
    let clocks: Vec<Clock> = cluster
        .slots
        .iter()
        .map(|_| Clock { offset: rng.below(LARGEST_OFFSET), drift: rng.pick(&DRIFTS) })
        .collect();
    cluster.set_clocks(&clocks);
}
