//! Worlds in which members change.

use quorate_adversary::forge;
use quorate_core::base::crypto::Signer as _;
use quorate_core::protocols::hotstuff::Message;
use quorate_core::protocols::hotstuff::certificate::Proof;
use quorate_core::protocols::protocol::{Ballot, Protocol as _};
use quorate_core::replica::message::PeerMessage;
use quorate_core::{Digest, Epoch, ReplicaId};
use quorate_sim::administrator::{Administrator, members_are_level, newest};
use quorate_sim::keys::Key;
use quorate_sim::rng::Rng;
use quorate_sim::swarm::{self, Plan, Trouble};
use quorate_sim::{Cluster, Config, twins};

use crate::schedules::{draw_rules, trace};

/// Virtual time, microseconds.
const SECOND: u64 = 1_000_000;
/// How long a cluster may take for what it must do.
const PATIENCE: u64 = 60 * SECOND;

/// The worlds of `quorate sim --trouble changes`.
pub fn changes(seed: u64, place: &mut Option<Cluster>) {
    let trouble = Some(Trouble::Changes);
    swarm::run(seed, &Plan { trouble, ..Plan::default() }, trace(), place);
}

/// The worlds of `quorate sim --trouble lying-changes`.
pub fn liars(seed: u64, place: &mut Option<Cluster>) {
    let trouble = Some(Trouble::LyingChanges);
    swarm::run(seed, &Plan { trouble, ..Plan::default() }, trace(), place);
}

/// Scenarios of Twins over the edges of epochs.
pub fn twins(seed: u64, place: &mut Option<Cluster>) {
    twins::edges::run(&twins::edges::Scenario::draw(seed), trace(), place);
}

type Attack = fn(&mut Option<Cluster>);

const ATTACKS: [(&str, Attack); 3] = [
    ("newcomers away", newcomers_away),
    ("removed members sign", removed_members_sign),
    ("the heavy one away", heavy_one_away),
];

/// How many attacks there are.
pub const COUNT: u64 = ATTACKS.len() as u64;

/// What an attack is called.
pub fn name(number: u64) -> &'static str {
    ATTACKS.get(number as usize).map_or("", |(name, _)| name)
}

/// The directed attack of a number.
pub fn attacks(number: u64, place: &mut Option<Cluster>) {
    if let Some((_, attack)) = ATTACKS.get(number as usize) {
        attack(place);
    }
}

/// Eight replicas, the first four of which are the members, and an administrator.
fn start(place: &mut Option<Cluster>, config: Config) -> (&mut Cluster, Administrator) {
    let config = Config { replicas: 8, members: Some(4), ..config };
    let cluster = place.insert(Cluster::traced(config, trace()));
    let administrator = Administrator::of(cluster, PATIENCE).expect("liveness: no session");
    (cluster, administrator)
}

/// These weights, by id; all others are no members.
fn weights(weights: &[u16]) -> Vec<Option<u16>> {
    weights.iter().copied().map(Some).collect()
}

/// A change is made: its epoch begins at all its members.
fn make(cluster: &mut Cluster, administrator: &mut Administrator, weights: &[Option<u16>]) {
    let ends = newest(cluster).epoch();
    let change = administrator.change(ends, weights, |_| true);
    administrator.submit(cluster, &change);
    cluster.request(0, 1, 10);
    let began = |cluster: &Cluster| newest(cluster).epoch() > ends;
    assert!(cluster.run_until(PATIENCE, began), "liveness: a change is not made");
    works(cluster);
}

fn works(cluster: &mut Cluster) {
    cluster.request(0, 1, 10);
    assert!(cluster.run_until_answered(PATIENCE), "liveness: a command is not answered");
    assert!(cluster.run_until(PATIENCE, members_are_level), "liveness: a member lags");
}

/// Learners that went away are to be all who count. None of them said that it is ready.
fn newcomers_away(place: &mut Option<Cluster>) {
    let (cluster, mut administrator) = start(place, Config::default());
    make(cluster, &mut administrator, &weights(&[1, 1, 1, 1, 0, 0, 0, 0]));
    (4..8).for_each(|slot| cluster.crash(slot));
    let next = weights(&[0, 0, 0, 0, 1, 1, 1, 1]);
    let change = administrator.change(Epoch(1), &next, |_| false);
    administrator.submit(cluster, &change);
    cluster.request(0, 3, 10);
    assert!(
        cluster.run_until_answered(PATIENCE),
        "liveness: the cluster was handed to members that are not there"
    );
}

/// Three members that were removed sign a certificate of the next epoch, and a liar shows it.
fn removed_members_sign(place: &mut Option<Cluster>) {
    let (cluster, mut administrator) = start(place, Config::default());
    make(cluster, &mut administrator, &weights(&[1, 1, 1, 1, 0, 0, 0, 0]));
    let learners = [None; 4].into_iter().chain(weights(&[1; 4])).collect::<Vec<_>>();
    make(cluster, &mut administrator, &learners);
    let domain = cluster.config.protocol().domain(newest(cluster));
    let view = cluster.highest_view().next();
    let ballot = Ballot { view, phase: 1, block: Digest([7; 32]) };
    let statement = domain.vote(view, 1, &ballot.block);
    let sign = |id: usize| (ReplicaId(id as u16), Key::of_replica(id).sign(&statement));
    let high_qc = forge::qc(ballot, &Proof::List((0..3).map(sign).collect())).expect("a form");
    let message = Message::Advance { high_qc, high_tc: None, decided: None, is_answer: false };
    let (epoch, frames) = (Epoch(2), Vec::new());
    cluster.inject(4, 5, &PeerMessage::Protocol { epoch, message, frames });
    cluster.run_for(SECOND);
    // Who believes it goes on to the view behind.
    assert!(
        cluster.core(5).protocol().view() <= view,
        "certificates: one that removed members signed is believed"
    );
    works(cluster);
}

/// Of four members one weighs more than the others together, and goes away.
fn heavy_one_away(place: &mut Option<Cluster>) {
    let (cluster, mut administrator) = start(place, Config::default());
    make(cluster, &mut administrator, &weights(&[1, 1, 1, 4]));
    cluster.crash(3);
    let height = cluster.oracles.height();
    cluster.request(0, 1, 10);
    cluster.run_for(5 * SECOND);
    assert!(cluster.oracles.height() == height, "certificates: a weight of 3 of 7 commits");
    cluster.boot(3);
    works(cluster);
}

/// A replica gets the certificate of a change that nobody else has, is cut off with it, and comes
/// back some views later.
pub fn edges(seed: u64, place: &mut Option<Cluster>) {
    let mut rng = Rng::new(seed ^ 0xED6E);
    let config = Config {
        rules: draw_rules(&mut rng),
        seed,
        base_timeout: 20_000,
        delta: 5_000,
        client_patience: 100_000,
        encodes: false,
        ..Config::default()
    };
    let (cluster, mut administrator) = start(place, config);
    works(cluster);
    let voters = rng.pick(&[[1, 1, 1, 1], [2, 1, 1, 2]]);
    let next = [weights(&voters), weights(&[0; 4])].concat();
    let change = administrator.change(Epoch(0), &next, |_| true);
    for round in 0..rng.between((1, 4)) {
        cluster.network.heal();
        let holder = rng.below(4) as usize;
        let deaf = (holder + 1 + rng.below(3) as usize) % 4;
        // Without its vote the others cannot make the certificate of what time-outs carry.
        for other in 0..4 {
            cluster.network.link(holder, other).cut = true;
            cluster.network.link(other, deaf).cut = true;
        }
        if round == 0 {
            administrator.submit(cluster, &change);
        }
        cluster.request(0, 1, 10);
        let rank = |cluster: &Cluster| cluster.core(holder).protocol().high_qc().rank();
        let before = rank(cluster);
        cluster.run_until(150_000, |cluster| rank(cluster) > before);
        cluster.network.partition(|slot| usize::from(slot == holder));
        let views = cluster.highest_view().0 + 2 + rng.below(3);
        cluster.run_until(600_000, |cluster| cluster.highest_view().0 >= views);
    }
    cluster.network.heal();
    for (one, two) in (0..8).flat_map(|one| (0..one).map(move |two| (one, two))) {
        cluster.reconnect(one, two);
    }
    for _ in 0..3 {
        works(cluster);
    }
}
