//! Twins for the protocol of two delays: f replicas run twice with one key each, and for each kind
//! of message of each of the first views a partition says who hears whom.
//!
//! A view of this protocol ends by certificates alone, so a scripted view that nobody can end goes
//! on. Then the script moves on without it: after some waits, what is said again is heard by whom
//! the next view's script lets hear it. Behind the script all is heard, and the cluster must
//! recover.

use std::cell::Cell;
use std::rc::Rc;

use quorate_core::View;
use quorate_core::base::membership::faults;
use quorate_core::protocols::two_delay::Message;
use quorate_core::protocols::two_delay::certificate::Phase;
use quorate_core::replica::message::PeerMessage;

use crate::cluster::{Cluster, Peer};
use crate::config::Config;
use crate::family::TwoDelays;
use crate::network::{Fate, Link};
use crate::rng::Rng;
use crate::trace::Trace;

/// Scripted views: each of four leaders twice, or each of seven once.
pub const VIEWS: usize = 8;
/// Messages that are partitioned by themselves: proposals, first votes, fallback votes, second
/// votes, time-outs. What a replica tells of its standing goes with the time-outs.
pub const KINDS: usize = 5;
/// How long a message takes, in microseconds. It varies, so that the copies of a leader have
/// different commands at hand.
const DELAY: (u64, u64) = (500, 1_500);
/// The first wait in a view, in microseconds.
const BASE: u64 = 20_000;
/// How long the script waits for a view's end.
const LASTS: u64 = 3 * BASE;
/// How long anything may take that must come at last, in microseconds.
const PATIENCE: u64 = 120_000_000;

/// Who hears whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// What else is drawn from.
    pub seed: u64,
    /// How many replicas.
    pub replicas: usize,
    /// Those that run twice.
    pub twins: Vec<usize>,
    /// By view and kind: which slots are on the one side (a bit each); the others are on the
    /// other. The twins' second copies are the last slots.
    pub sides: [[u64; KINDS]; VIEWS],
}

impl Scenario {
    /// One of four replicas, or in one case of four of seven. Kinds that are whole are more
    /// frequent than others, and so are partitions that leave a quorum together.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x2DE1_A751);
        let replicas: usize = rng.pick(&[4, 4, 4, 7]);
        let faults = faults(replicas);
        let first = rng.below(replicas as u64) as usize;
        let step = 1 + rng.below(replicas as u64 - 1) as usize;
        let twins: Vec<_> = (0..faults).map(|at| (first + at * step) % replicas).collect();
        let slots = (replicas + faults) as u64;
        let mut sides = [[0; KINDS]; VIEWS];
        for side in sides.iter_mut().flatten() {
            *side = match rng.below(10) {
                0..3 => 0,
                3..7 => 1 << rng.below(slots) | 1 << rng.below(slots),
                _ => rng.below(1 << slots),
            };
        }
        Self { seed, replicas, twins, sides }
    }

    /// Whether a message of a kind passes between two slots while a view's script holds.
    fn passes(&self, view: u64, kind: usize, from: usize, to: usize) -> bool {
        let at = (view as usize).checked_sub(1).and_then(|view| self.sides.get(view)?.get(kind));
        at.is_none_or(|side| side >> from & 1 == side >> to & 1)
    }
}

/// The view that a message is about, and its kind.
fn place(message: &Message) -> (View, usize) {
    match message {
        Message::Proposal { block, .. } => (block.view, 0),
        Message::Vote(vote) => match vote.phase {
            Phase::First => (vote.view, 1),
            Phase::Fallback => (vote.view, 2),
            Phase::Second => (vote.view, 3),
        },
        Message::TimeOut { view, .. } => (*view, 4),
        Message::Standing(standing) => (standing.view(), 4),
    }
}

/// Runs a scenario; `place` holds the cluster, for whoever catches a violation.
///
/// # Panics
/// At a violation: the text begins with the oracle's name.
pub fn run(scenario: &Scenario, trace: Trace, place: &mut Option<Cluster<TwoDelays>>) {
    let config = Config {
        seed: scenario.seed,
        replicas: scenario.replicas,
        twins: scenario.twins.clone(),
        base_timeout: BASE,
        link: Link { delay: DELAY, ..Link::steady(0) },
        clients: 3,
        batch_commands: 1,
        encodes: false,
        filtering: true,
        ..Config::default()
    };
    let cluster = place.insert(Cluster::of(config, trace));
    let passed = Rc::new(Cell::new(0));
    let (script, over) = (scenario.clone(), Rc::clone(&passed));
    cluster.meddler = Some(Box::new(move |from, to, message: &Peer<TwoDelays>| {
        let PeerMessage::Protocol { message, .. } = message else { return Fate::Goes };
        let (view, kind) = self::place(message);
        let view = view.0.max(over.get() + 1);
        if script.passes(view, kind, from, to) { Fate::Goes } else { Fate::Lost }
    }));
    for view in 1..=VIEWS as u64 {
        (0..3).for_each(|client| cluster.request(client, 1, 10));
        let _ = cluster.run_until(LASTS, |cluster| cluster.highest_view() > View(view));
        passed.set(view);
    }
    cluster.meddler = None;
    for _ in 0..3 {
        (0..3).for_each(|client| cluster.request(client, 1, 10));
        assert!(cluster.run_until_answered(PATIENCE), "liveness: a command is not answered");
    }
    assert!(cluster.run_until(PATIENCE, Cluster::is_level), "liveness: a replica lags");
}
