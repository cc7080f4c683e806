//! Directed attacks: where a bug shows only if somebody does one certain thing, it is done here.
//!
//! Each is a small world: a cluster that works, a liar or a fault, and what must come of it. What
//! goes wrong is for the oracles to say; at the end everything must be answered.

mod certificates;
mod durability;
mod floods;
mod liveness;
mod rejoining;
mod sync;

use quorate_core::View;
use quorate_core::protocols::hotstuff::Message;
use quorate_core::replica::message::PeerMessage;
use quorate_sim::{Cluster, Config, Core, status_of};

use crate::schedules::trace;

/// How long, in virtual microseconds, a cluster may take for what it must do.
const PATIENCE_MICROS: u64 = 60_000_000;
/// Who lies, where nothing else is said.
const LIAR: usize = 3;

type Attack = fn(&mut Option<Cluster>);

const ATTACKS: [(&str, Attack); 26] = [
    ("power fails", durability::power),
    ("disk is full", durability::full),
    ("forged certificates", certificates::forged),
    ("forged genesis", certificates::genesis),
    ("forged justify", certificates::justify),
    ("votes of another chain", certificates::other_chain),
    ("votes of another epoch", certificates::other_epoch),
    ("TC with an old QC", certificates::old_qc),
    ("AggQC with a made-up QC", certificates::made_up_qc),
    ("proposal out of turn", certificates::out_of_turn),
    ("block of a wrong height", certificates::wrong_height),
    ("wrong state root", certificates::wrong_root),
    ("flood of votes", floods::votes),
    ("flood of messages", floods::messages),
    ("flood of frames", floods::frames),
    ("flood of signatures", floods::signatures),
    ("forged frames", floods::forged_frames),
    ("calm", liveness::calm),
    ("one dead", liveness::one_dead),
    ("slow network", liveness::slow),
    ("sent to one", liveness::sent_to_one),
    ("known to two", liveness::known_to_two),
    ("poisoned chain", sync::chain),
    ("poisoned snapshot", sync::snapshot),
    ("poisoned offer", sync::offer),
    ("overtaken snapshot", sync::overtaken),
];

/// How many there are.
pub const COUNT: u64 = (ATTACKS.len() + rejoining::ATTACKS.len()) as u64;

fn attack(number: u64) -> Option<&'static (&'static str, Attack)> {
    ATTACKS.iter().chain(&rejoining::ATTACKS).nth(number as usize)
}

/// What an attack is called.
pub fn name(number: u64) -> &'static str {
    attack(number).map_or("", |(name, _)| name)
}

/// Runs an attack.
pub fn run(number: u64, place: &mut Option<Cluster>) {
    if let Some((_, attack)) = attack(number) {
        attack(place);
    }
}

/// A cluster in which `liar` lies, if anybody does.
fn start(place: &mut Option<Cluster>, config: Config, liar: Option<usize>) -> &mut Cluster {
    let cluster = place.insert(Cluster::traced(config, trace()));
    if let Some(liar) = liar {
        cluster.slots[liar].faulty = true;
    }
    cluster.watch_strictly();
    cluster
}

/// Some commands are executed by all.
fn work(cluster: &mut Cluster, requests: usize) {
    for _ in 0..requests {
        cluster.request(0, 1, 10);
        let answered = cluster.run_until_answered(PATIENCE_MICROS);
        assert!(answered, "liveness: a command is not answered");
    }
    cluster.run_for(50_000);
}

/// After whatever happened: all links work, and the cluster as well.
fn recover(cluster: &mut Cluster) {
    cluster.network.heal();
    cluster.meddler = None;
    for slot in 0..cluster.slots.len() {
        if cluster.slots[slot].core.is_none() {
            cluster.boot(slot);
        }
    }
    work(cluster, 5);
    assert!(
        cluster.run_until(PATIENCE_MICROS, Cluster::is_level),
        "liveness: a replica does not catch up"
    );
}

/// The liar says this to everybody else.
fn tell_all(cluster: &mut Cluster, liar: usize, message: &Message) {
    for to in (0..cluster.config.replicas).filter(|to| *to != liar) {
        cluster.inject(liar, to, &PeerMessage::of(message.clone()));
    }
    cluster.run_for(5_000);
}

/// The replica that knows the highest certificate.
fn ahead(cluster: &Cluster) -> &Core {
    let cores = || cluster.correct();
    cores().max_by_key(|core| core.protocol().high_qc().rank()).expect("somebody runs")
}

/// The next view from the highest on that `leader` leads in turn.
fn next_view_of(cluster: &Cluster, leader: usize) -> View {
    let replicas = cluster.config.replicas as u64;
    let highest = cluster.correct().map(|core| status_of(core).view.0).max().unwrap_or(0);
    let mut views = highest + 1..;
    View(views.find(|view| view % replicas == leader as u64).unwrap_or(0))
}
