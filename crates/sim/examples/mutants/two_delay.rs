//! Worlds of the protocol of two delays.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use quorate_core::base::membership::faults;
use quorate_core::ledger::block::Block;
use quorate_core::protocols::protocol::BlockOf;
use quorate_core::protocols::two_delay::certificate::Phase;
use quorate_core::protocols::two_delay::words::Content;
use quorate_core::protocols::two_delay::{Domain, Message, Types};
use quorate_core::replica::message::PeerMessage;
use quorate_core::{ReplicaId, View};
use quorate_sim::family::TwoDelays;
use quorate_sim::keys::{committee, replica_seal};
use quorate_sim::network::{Fate, Link};
use quorate_sim::rng::Rng;
use quorate_sim::swarm::{self, Plan};
use quorate_sim::twins::two_delay;
use quorate_sim::{Cluster, Config, Peer};

use crate::schedules::trace;
use crate::twins::DELIVERED;

/// How long, in virtual microseconds, a cluster may take for what it must do.
const PATIENCE: u64 = 120_000_000;
/// The first wait in a view, in microseconds.
const BASE: u64 = 20_000;
/// Kinds of messages that are lost by themselves.
const KINDS: usize = 5;

/// A cluster that is looked at when it is over, however it ends.
#[derive(Default)]
struct Place(Option<Cluster<TwoDelays>>);

impl Drop for Place {
    fn drop(&mut self) {
        let Some(cluster) = &mut self.0 else { return };
        DELIVERED.set(cluster.steps);
        if std::thread::panicking() && cluster.trace.on {
            eprintln!("{:?}\n{}", cluster.config, cluster.trace.take().join("\n"));
        }
    }
}

/// The worlds of `quorate sim --protocol laboratory-two-delay`.
pub fn swarm(seed: u64, _: &mut Option<Cluster>) {
    let mut place = Place::default();
    swarm::run(seed, &Plan::default(), trace(), &mut place.0);
}

/// Scenarios of Twins.
pub fn twins(seed: u64, _: &mut Option<Cluster>) {
    let mut place = Place::default();
    two_delay::run(&two_delay::Scenario::draw(seed), trace(), &mut place.0);
}

fn kind(message: &Peer<TwoDelays>) -> Option<usize> {
    let PeerMessage::Protocol { message, .. } = message else { return None };
    Some(match message {
        Message::Proposal { .. } => 0,
        Message::Vote(vote) => match vote.phase {
            Phase::First => 1,
            Phase::Fallback => 2,
            Phase::Second => 3,
        },
        Message::TimeOut { .. } => 4,
        Message::Standing(_) => return None,
    })
}

/// Leaders that build on an older certificate than they hold, and show no reason for that.
struct Forkers {
    domain: Domain,
    /// The blocks that were proposed last, oldest first.
    seen: Vec<BlockOf<Types>>,
    /// The block of the view that a liar leads.
    forged: Option<BlockOf<Types>>,
}

impl Forkers {
    /// How far back they build.
    const BACK: usize = 3;

    fn new(replicas: usize) -> Self {
        Self { domain: Domain::new(committee(replicas)), seen: Vec::new(), forged: None }
    }

    fn sees(&mut self, message: &Message) {
        let Message::Proposal { block, .. } = message else { return };
        if self.seen.iter().all(|seen| seen.id() != block.id()) {
            self.seen.push(Arc::clone(block));
            let old = self.seen.len().saturating_sub(Self::BACK);
            self.seen.drain(..old);
        }
    }

    /// A sibling of an earlier block, in the place of this proposal of a liar.
    fn forge(&mut self, from: usize, peer: &Peer<TwoDelays>) -> Option<Peer<TwoDelays>> {
        let PeerMessage::Protocol { epoch, message, .. } = peer else { return None };
        let Message::Proposal { block, .. } = message else { return None };
        let view: View = block.view;
        if self.forged.as_ref().is_none_or(|forged| forged.view != view) {
            let earlier = self.seen.iter().find(|earlier| earlier.view < view)?;
            let sibling = Content { view, tc: None, frames: Vec::new(), ..(***earlier).clone() };
            self.forged = Some(Arc::new(Block::new(sibling)));
        }
        let block = Arc::clone(self.forged.as_ref()?);
        let statement = self.domain.vote(Phase::First, view, Some(&block.id()));
        let signature = replica_seal(ReplicaId(from as u16), statement.as_bytes());
        let message = Message::Proposal { block, signature, decided: None };
        Some(PeerMessage::<Types>::Protocol { epoch: *epoch, message, frames: Vec::new() })
    }
}

/// Who hears which kind of message of whom changes from one moment to the next, while correct
/// replicas come and go; in some worlds f run twice with one key each, and in half of these they
/// build on old blocks.
pub fn kinds(seed: u64, _: &mut Option<Cluster>) {
    let mut rng = Rng::new(seed ^ 0x51DE);
    let replicas: usize = rng.pick(&[4, 4, 4, 5, 7]);
    let first = rng.below(replicas as u64) as usize;
    let liars = if rng.percent(60) { faults(replicas) } else { 0 };
    let twins: Vec<_> = (0..liars).map(|at| (first + 2 * at) % replicas).collect();
    let config = Config {
        replicas,
        twins: twins.clone(),
        base_timeout: BASE,
        link: Link { delay: (500, 1_500), ..Link::steady(0) },
        clients: 4,
        seed,
        batch_commands: 1,
        filtering: true,
        ..Config::default()
    };
    let mut place = Place::default();
    let cluster = place.0.insert(Cluster::of(config, trace()));
    let slots = replicas + liars;
    let forks = rng.percent(50);
    let forkers = Rc::new(RefCell::new(Forkers::new(replicas)));
    for _ in 0..rng.between((5, 40)) {
        for client in 0..4 {
            if rng.percent(70) {
                cluster.request(client, 1, 10);
            }
        }
        let unheard: [Vec<u64>; KINDS] = std::array::from_fn(|_| {
            let quiet = rng.percent(60);
            let mask = |rng: &mut Rng| if quiet { 0 } else { rng.number() & rng.number() };
            (0..slots).map(|_| mask(&mut rng)).collect()
        });
        let (forkers, liars) = (Rc::clone(&forkers), twins.clone());
        cluster.meddler = Some(Box::new(move |from, to, peer| {
            if kind(peer).is_some_and(|kind| unheard[kind][from] >> to & 1 == 1) {
                return Fate::Lost;
            }
            let mut forkers = forkers.borrow_mut();
            if forks && liars.contains(&from) {
                return forkers.forge(from, peer).map_or(Fate::Goes, |it| Fate::Bent(Box::new(it)));
            }
            if let PeerMessage::Protocol { message, .. } = peer {
                forkers.sees(message);
            }
            Fate::Goes
        }));
        let slot = rng.below(replicas as u64) as usize;
        match rng.below(6) {
            _ if twins.contains(&slot) => {}
            0 if cluster.slots[slot].core.is_some() => cluster.crash(slot),
            1 | 2 if cluster.slots[slot].core.is_none() => cluster.boot(slot),
            3 => cluster.network.partition(|other| usize::from(other == slot)),
            4 => cluster.network.heal(),
            _ => {}
        }
        cluster.run_for(rng.pick(&[1_000, 2_000, 5_000, 30_000, 80_000]));
    }
    recovers(cluster);
}

/// Everybody is there and hears everything: all is answered, and all come to one state.
fn recovers(cluster: &mut Cluster<TwoDelays>) {
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
    assert!(cluster.run_until(PATIENCE, Cluster::is_level), "liveness: a replica lags");
}
