//! Directed attacks on PBFT: where a bug shows only if somebody does one certain thing, it is done
//! here. Each is a cluster that works, a fault or a liar, and what must come of it; the oracles
//! look on.

mod checkpoints;
mod views;
mod waits;
mod words;

use quorate_core::protocols::pbft::words::{Phase, Vote};
use quorate_core::protocols::pbft::{Authentication, Message, Patience, Settings};
use quorate_core::protocols::protocol::Protocol as _;
use quorate_core::replica::message::PeerMessage;
use quorate_core::{Duration, Height};
use quorate_sim::family::Pbfts;
use quorate_sim::network::Fate;
use quorate_sim::{Cluster, Config, Peer};

use super::{BASE, PATIENCE, Place};
use crate::schedules::trace;

type Pbft = Cluster<Pbfts>;
type Attack = fn(Authentication, &mut Place);

/// Clients, and blocks that may be under way at once.
const CLIENTS: usize = 8;

const ATTACKS: [(&str, Attack); 17] = [
    ("committed at one", views::committed_at_one),
    ("prepared at one", views::prepared_at_one),
    ("prepared at one and a liar", views::prepared_at_a_liar),
    ("prepared again in part", views::prepared_again_in_part),
    ("made-up P", views::made_up),
    ("new view with too little", views::too_little),
    ("new view of forged changes", views::forged_changes),
    ("view ended by one", views::ended_by_one),
    ("new view unheard", views::unheard),
    ("votes without signatures", words::unsigned),
    ("two chains and a restart", words::two_chains),
    ("all restart", words::all_restart),
    ("checkpoints unheard", checkpoints::unheard),
    ("checkpoints of nobody", checkpoints::of_nobody),
    ("full window", checkpoints::full_window),
    ("known to two", waits::known_to_two),
    ("slow network", waits::slow),
];

/// How many there are.
pub const COUNT: u64 = ATTACKS.len() as u64;

/// What an attack is called.
pub fn name(number: u64) -> &'static str {
    ATTACKS.get(number as usize).map_or("", |(name, _)| name)
}

/// Runs an attack, with signatures and with MACs.
pub fn run(number: u64) {
    let Some((_, attack)) = ATTACKS.get(number as usize) else { return };
    for authentication in [Authentication::Signatures, Authentication::Macs] {
        attack(authentication, &mut Place::default());
    }
}

/// Small windows, so that they fill.
fn settings(authentication: Authentication) -> Settings {
    let base = Duration::from_micros(BASE);
    let patience = Patience { base, max: base * 64 };
    let (window, checkpoint_every, under_way) = (16, 8, 8);
    let rest = Settings::default();
    Settings { authentication, window, checkpoint_every, under_way, patience, ..rest }
}

/// Four replicas and their clients, whose sessions are open; one frame a block.
fn start(place: &mut Place, pbft: Settings) -> &mut Pbft {
    let config = Config { pbft, clients: CLIENTS, batch_commands: 1, ..Config::default() };
    let cluster = place.0.insert(Cluster::of(config, trace()));
    work(cluster, 1);
    cluster.run_for(20_000);
    cluster
}

/// Each client wants something.
fn request_all(cluster: &mut Pbft) {
    (0..CLIENTS).for_each(|client| cluster.request(client, 1, 10));
}

/// All clients ask at once, so many times.
fn work(cluster: &mut Pbft, rounds: usize) {
    for _ in 0..rounds {
        request_all(cluster);
        assert!(cluster.run_until_answered(PATIENCE), "liveness: a command is not answered");
    }
}

/// Messages that are lost from now on, by sender, receiver and what they say.
fn lose(cluster: &mut Pbft, is_lost: impl Fn(usize, usize, &Message) -> bool + 'static) {
    cluster.meddler = Some(Box::new(move |from, to, message: &Peer<Pbfts>| match message {
        PeerMessage::Protocol { message, .. } if is_lost(from, to, message) => Fate::Lost,
        _ => Fate::Goes,
    }));
}

fn is_vote(message: &Message, phase: Phase) -> bool {
    matches!(message, Message::Vote { vote, .. } if vote.phase == phase)
}

/// The vote that a message is, if it is one of a phase.
fn vote(message: &Message, phase: Phase) -> Option<&Vote> {
    match message {
        Message::Vote { vote, .. } if vote.phase == phase => Some(vote),
        _ => None,
    }
}

/// The height that a replica has committed.
fn committed(cluster: &Pbft, slot: usize) -> Height {
    cluster.core(slot).protocol().committed().height()
}

/// What a replica's protocol says of itself.
fn detail(cluster: &Pbft, slot: usize, name: &str) -> u64 {
    let details = cluster.core(slot).protocol().status().details;
    details.into_iter().find(|(known, _)| *known == name).map_or(0, |(_, value)| value)
}

/// The world came to where an attack begins.
fn came_to(cluster: &mut Pbft, micros: u64, what: &str, is: impl FnMut(&Pbft) -> bool) {
    assert!(cluster.run_until(micros, is), "harness: {what}");
}

/// Nobody is heard of a replica, nor hears.
fn cut_off(cluster: &mut Pbft, replica: usize) {
    cluster.network.partition(|slot| usize::from(slot == replica));
}
