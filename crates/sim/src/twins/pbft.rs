//! Twins for PBFT: one replica of four runs twice with one key, and for each phase of each of the
//! first views a partition says who hears whom.
//!
//! Unlike HotStuff's views, one of PBFT lasts as long as its primary works. So a scenario ends each
//! scripted view by force: its blocks and votes are lost from then on, and the replicas give it up.
//! Behind the script all is heard, and the cluster must recover.

use std::cell::Cell;
use std::rc::Rc;

use quorate_core::protocols::pbft::words::Phase;
use quorate_core::protocols::pbft::{Authentication, Message, Patience, Settings};
use quorate_core::replica::message::PeerMessage;
use quorate_core::{Duration, View};

use crate::cluster::{Cluster, Peer};
use crate::config::Config;
use crate::family::Pbfts;
use crate::network::Fate;
use crate::rng::Rng;
use crate::trace::Trace;

/// Scripted views.
pub const VIEWS: usize = 5;
/// Messages that are partitioned by themselves: pre-prepares, prepares, commits, view changes, new
/// views.
pub const PHASES: usize = 5;
/// Replicas, and with the twin how many run.
const REPLICAS: usize = 4;
const SLOTS: u64 = 5;
/// The first wait for a primary, and how long a scripted view lasts, in microseconds.
const BASE: u64 = 100_000;
const LASTS: u64 = 20_000;
/// How long anything may take that must come at last, in microseconds.
const PATIENCE: u64 = 120_000_000;

/// Who hears whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// Who runs twice.
    pub twin: usize,
    /// How replicas know who speaks.
    pub authentication: Authentication,
    /// By view and phase: which slots are on the one side (a bit each); the others are on the
    /// other. The twin's second copy is the last slot.
    pub sides: [[u64; PHASES]; VIEWS],
}

impl Scenario {
    /// One of (4 · 2 · 16²⁵) scenarios, those in which a phase is whole more often than others.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x7431_4E5A);
        let mut sides = [[0; PHASES]; VIEWS];
        for side in sides.iter_mut().flatten() {
            *side = if rng.percent(30) { 0 } else { rng.below(1 << (SLOTS - 1)) };
        }
        let authentication = rng.pick(&[Authentication::Signatures, Authentication::Macs]);
        Self { twin: rng.below(REPLICAS as u64) as usize, authentication, sides }
    }

    /// Whether a message of a view and phase passes between two slots.
    fn passes(&self, view: View, phase: usize, from: usize, to: usize) -> bool {
        let at = (view.0 as usize).checked_sub(1).and_then(|view| self.sides.get(view)?.get(phase));
        at.is_none_or(|side| side >> from & 1 == side >> to & 1)
    }
}

fn place(message: &Message) -> Option<(View, usize)> {
    Some(match message {
        Message::PrePrepare { block, .. } => (block.view, 0),
        Message::Vote { vote, .. } if vote.phase == Phase::Prepare => (vote.view, 1),
        Message::Vote { vote, .. } => (vote.view, 2),
        Message::ViewChange(signed) => (signed.change.view, 3),
        Message::NewView { new_view, .. } => (new_view.view, 4),
        Message::Checkpoint { .. } | Message::Stable(_) | Message::Standing(_) => return None,
    })
}

/// Runs a scenario; `place` holds the cluster, for whoever catches a violation.
///
/// # Panics
/// At a violation: the text begins with the oracle's name.
pub fn run(scenario: &Scenario, trace: Trace, place: &mut Option<Cluster<Pbfts>>) {
    let base = Duration::from_micros(BASE);
    let patience = Patience { base, max: base * 64 };
    let pbft = Settings {
        authentication: scenario.authentication,
        window: 8,
        checkpoint_every: 4,
        under_way: 3,
        tentative: scenario.twin % 2 == 1,
        patience,
    };
    let config = Config {
        pbft,
        replicas: REPLICAS,
        twins: vec![scenario.twin],
        clients: 3,
        batch_commands: 1,
        encodes: false,
        ..Config::default()
    };
    let cluster = place.insert(Cluster::of(config, trace));
    let ended = Rc::new(Cell::new(0));
    let (script, over) = (scenario.clone(), Rc::clone(&ended));
    cluster.meddler = Some(Box::new(move |from, to, message: &Peer<Pbfts>| {
        let PeerMessage::Protocol { message, .. } = message else { return Fate::Goes };
        let passes = self::place(message).is_none_or(|(view, phase)| {
            (phase > 2 || view.0 > over.get()) && script.passes(view, phase, from, to)
        });
        if passes { Fate::Goes } else { Fate::Lost }
    }));
    for view in 1..=VIEWS as u64 {
        (0..3).for_each(|client| cluster.request(client, 1, 10));
        // It begins, or is passed over.
        let _ = cluster.run_until(4 * BASE, |cluster| cluster.highest_view() >= View(view));
        cluster.run_for(LASTS);
        ended.set(view);
        let _ = cluster.run_until(8 * BASE, |cluster| cluster.highest_view() > View(view));
    }
    cluster.meddler = None;
    for _ in 0..3 {
        (0..3).for_each(|client| cluster.request(client, 1, 10));
        assert!(cluster.run_until_answered(PATIENCE), "liveness: a command is not answered");
    }
    assert!(cluster.run_until(PATIENCE, Cluster::is_level), "liveness: a replica lags");
}
