//! Twins over the edge of an epoch: one replica of the first committee runs twice with one key,
//! while the members change again and again.
//!
//! A scenario is a few rounds. In each, one partition says between whom the protocol's messages
//! pass, and another one between whom the ends of epochs do. So one copy may be in the next epoch
//! while the other helps the old committee to go on. Behind the script all is heard, and the
//! members of the newest epoch must execute every command.

use std::cell::RefCell;
use std::rc::Rc;

use quorate_core::protocols::hotstuff::rules::TwoChain;
use quorate_core::protocols::pbft::Settings;
use quorate_core::replica::message::PeerMessage;

use crate::administrator::{Administrator, drawn, members_are_level, newest};
use crate::cluster::{Cluster, Peer};
use crate::config::Config;
use crate::family::Family;
use crate::network::Fate;
use crate::rng::Rng;
use crate::trace::Trace;

/// Replicas, and how many of them are members at first. The twin's second copy is the slot behind
/// them.
const REPLICAS: usize = 8;
const MEMBERS: usize = 4;
const SLOTS: u64 = REPLICAS as u64 + 1;
/// Scripted rounds.
const ROUNDS: usize = 8;
/// How long anything may take that must come at last, in microseconds.
const PATIENCE: u64 = 120_000_000;

/// One round of a scenario. A partition has a bit for each slot: on which side it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Between whom the protocol's messages pass.
    pub words: u64,
    /// Between whom the ends of epochs pass.
    pub ends: u64,
    /// Whether an administrator wants other members.
    pub changes: bool,
    /// How long it lasts, in microseconds.
    pub lasts: u64,
}

/// Who hears whom, and when the members change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// What else is drawn: delays, and who the next members are.
    pub seed: u64,
    /// Who runs twice.
    pub twin: usize,
    /// The script.
    pub rounds: [Round; ROUNDS],
}

impl Scenario {
    /// The one of a seed. A partition is whole in some of them.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0xED6E_7415);
        let side = |rng: &mut Rng| match rng.percent(40) {
            true => 0,
            false => rng.below(1 << SLOTS),
        };
        let mut rounds = [Round::default(); ROUNDS];
        for (at, round) in rounds.iter_mut().enumerate() {
            *round = Round {
                words: side(&mut rng),
                ends: side(&mut rng),
                changes: at == 0 || rng.percent(50),
                lasts: rng.pick(&[2_000, 5_000, 20_000, 150_000, 400_000]),
            };
        }
        Self { seed, twin: rng.below(MEMBERS as u64) as usize, rounds }
    }

    fn config(&self) -> Config {
        Config {
            seed: self.seed,
            rules: &TwoChain,
            second_vote: self.seed.is_multiple_of(2),
            pbft: Settings { window: 8, checkpoint_every: 4, under_way: 3, ..Settings::default() },
            replicas: REPLICAS,
            members: Some(MEMBERS),
            twins: vec![self.twin],
            clients: 2,
            batch_commands: 2,
            encodes: false,
            ..Config::default()
        }
    }
}

/// Whether a message passes between two slots in a round.
fn passes<F: Family>(round: &Round, from: usize, to: usize, message: &Peer<F>) -> bool {
    let side = match message {
        PeerMessage::Handover(_) | PeerMessage::AskHandover(_) => round.ends,
        _ => round.words,
    };
    side >> from & 1 == side >> to & 1
}

/// Runs a scenario; `place` holds the cluster, for whoever catches a violation. Returns how many
/// epochs ended before the script was over.
///
/// # Panics
/// At a violation: the text begins with the oracle's name.
pub fn run<F: Family>(scenario: &Scenario, trace: Trace, place: &mut Option<Cluster<F>>) -> u64 {
    let mut rng = Rng::new(scenario.seed);
    let cluster = place.insert(Cluster::of(scenario.config(), trace));
    let administrator = Administrator::of(cluster, PATIENCE);
    let mut administrator = administrator.expect("liveness: the administrator gets no session");
    let current = Rc::new(RefCell::new(Round::default()));
    let script = Rc::clone(&current);
    cluster.meddler = Some(Box::new(move |from, to, message: &Peer<F>| {
        match passes::<F>(&script.borrow(), from, to, message) {
            true => Fate::Goes,
            false => Fate::Lost,
        }
    }));
    for round in scenario.rounds {
        current.replace(round);
        (0..2).for_each(|client| cluster.request(client, 1, 10));
        if round.changes {
            let before = newest(cluster);
            let mut weights = drawn(&mut rng, REPLICAS, &before);
            // One of four or more may lie.
            weights[scenario.twin] = weights[scenario.twin].map(|weight| weight.min(1));
            let change = administrator.change(before.epoch(), &weights, |_| true);
            administrator.submit(cluster, &change);
        }
        cluster.run_for(round.lasts);
    }
    let epochs = newest(cluster).epoch().0;
    cluster.meddler = None;
    // Channels break when something is lost, and open again.
    let slots = cluster.slots.len();
    for (one, two) in (0..slots).flat_map(|one| (0..one).map(move |two| (one, two))) {
        cluster.reconnect(one, two);
    }
    for _ in 0..3 {
        (0..2).for_each(|client| cluster.request(client, 1, 10));
        assert!(cluster.run_until_answered(PATIENCE), "liveness: a command is not answered");
    }
    assert!(cluster.run_until(PATIENCE, members_are_level), "liveness: a member lags");
    epochs
}
