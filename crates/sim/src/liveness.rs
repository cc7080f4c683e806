//! Liveness, measured in views: how many may pass from the healing of the network to the next commit.

use std::sync::Arc;

use quorate_core::block::Block;
use quorate_core::leader::reputation::PATIENCE;
use quorate_core::leader::{Election, History};
use quorate_core::pacemaker::Kind;
use quorate_core::protocol::Protocol as _;
use quorate_core::tree::BlockTree;
use quorate_core::{Epoch, Height, View};

use super::cluster::{Cluster, Core};
use super::config::Config;
use super::keys;

/// How much shorter the pacemaker waits for a leader that failed before.
pub const SHORTENED: u64 = 5;
/// Each wait without a commit is so many hundredths of the one before.
const LONGER_PERCENT: u64 = 150;

/// The longest that a view of a correct leader takes, from where the first replica enters it to
/// where the last one leaves it with a certificate, while no message is lost. In hops, each a
/// message and the verdict on its signatures:
///
/// - 1 until the last replica has entered it: certificates reach one a delay later than another;
/// - 2 until the leader may propose: it is told of the time-out certificate, or of locks;
/// - 2 for bodies that the proposal names and a replica lacks;
/// - 2 a phase, votes and what comes of them, and 1 for the proposal.
pub fn view_micros(config: &Config) -> u64 {
    let hop = config.link.delay.1 + config.verify_delay.map_or(0, |(_, longest)| longest);
    let facts = config.rules.facts();
    hop * (1 + 2 + 2 + 2 * u64::from(facts.phases) + 1)
}

/// Who may let a view fail for ever: liars, who is down, and replicas that abstain as they lost
/// their data.
fn spoilers(cluster: &Cluster) -> Vec<bool> {
    let mut spoilt = vec![false; cluster.config.replicas];
    for slot in &cluster.slots {
        spoilt[slot.id] |= slot.faulty || slot.lost_data || slot.core.is_none();
    }
    spoilt
}

/// Views that may pass from the healing of the network, in view `healed`, to the next commit.
pub fn views(cluster: &Cluster, healed: View) -> u64 {
    let config = &cluster.config;
    let spoilt = spoilers(cluster);
    let any_spoilt = spoilt.contains(&true);
    let facts = config.rules.facts();
    let n = config.replicas as u64;
    if n == 1 {
        return u64::MAX;
    }
    let skips = config.pacemaker == Kind::Linear && !config.election.needs_signers();
    let together = if skips { n } else { 1 };
    let faults = ((n - 1) / 3).min(4);
    let mut wait = config.base_timeout;
    let mut steps = 0;
    while wait < SHORTENED * view_micros(config) {
        wait = wait * LONGER_PERCENT / 100;
        steps += 1;
    }
    let slack = if steps > 0 { facts.chain_length + 4 * faults } else { 0 };
    let patience = match config.election {
        Election::Reputation if any_spoilt => PATIENCE,
        _ => 0,
    };
    let runs = 1 + u64::from(skips && any_spoilt);
    let mut views = together + slack + steps + patience;
    for _ in 0..runs {
        views += views_of_a_run(config, healed.plus(views), &spoilt);
    }
    // What the last one's votes make is shown in the view behind it.
    views + 1
}

fn views_of_a_run(config: &Config, from: View, spoilt: &[bool]) -> u64 {
    let committee = keys::committee(config.replicas);
    let genesis = Arc::new(Block::genesis(keys::CHAIN, Epoch(0)));
    let head = genesis.id();
    let tree = BlockTree::new(genesis, Height(0), Vec::new());
    let history = History { tree: &tree, head: &head, committed: Height(0) };
    let needed = config.rules.facts().chain_length;
    let mut run = 0;
    let views = (1..).find(|views| {
        let view = from.plus(*views);
        let leader = config.election.leader(view, &committee, needed, &history);
        run = if spoilt[leader.index()] { 0 } else { run + 1 };
        run == needed
    });
    views.expect("a leader that is not spoilt")
}

/// Whether all correct replicas hold the block of the highest certificate that any of them has, so
/// that each can vote and lead.
pub fn found_together(cluster: &Cluster) -> bool {
    let high_qcs = cluster.correct().map(|core| core.protocol().high_qc());
    let Some(highest) = high_qcs.max_by_key(|qc| qc.rank()) else { return false };
    let holds = |core: &Core| {
        let root = core.protocol().tree().root().view;
        root >= highest.view() || core.protocol().tree().find(&highest.block()).is_some()
    };
    cluster.correct().all(|core| !core.is_rejoining() && holds(core))
}
