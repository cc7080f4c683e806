//! Liveness, measured in views: how many may pass from the healing of the network to the next
//! commit.

use std::sync::Arc;

use quorate_core::base::membership::faults;
use quorate_core::protocols::hotstuff::block::Block;
use quorate_core::protocols::hotstuff::leader::reputation::PATIENCE;
use quorate_core::protocols::hotstuff::leader::{Election, History};
use quorate_core::protocols::hotstuff::pacemaker::Kind;
use quorate_core::protocols::hotstuff::tree::BlockTree;
use quorate_core::{Epoch, Height, View};

use super::cluster::{Cluster, Core};
use super::config::Config;
use super::keys;

/// By how much the pacemaker shortens the wait for a leader that failed before.
pub const SHORTENED: u64 = 5;

/// The longest that a view of a correct leader takes, from where the first replica enters it to
/// where the last one leaves it with a certificate, while no message is lost. In hops, each a
/// message and the verdict on its signatures:
///
/// - 1 until the last replica has entered it: certificates reach one a delay later than another;
/// - 2 until the leader may propose: it is told of the time-out certificate, then of locks;
/// - 2 for bodies that the proposal names and a replica lacks;
/// - 1 for the proposal, and 2 a phase: votes, and what is made of them.
///
/// On a slow disk a message may find its receiver waiting for a sync, and then waits for two more.
pub fn view_micros(config: &Config) -> u64 {
    let verdict = config.verify_delay.map_or(0, |(_, longest)| longest);
    let hop = config.link.delay.1 + verdict + 3 * config.sync_micros.1;
    let hops = 1 + 2 + 2 + 1 + 2 * u64::from(config.rules.facts().phases);
    // The clock of who waits may run one in a hundred too fast.
    hop * hops * 102 / 100
}

/// Who may let any of its views fail: liars, those who are down, and those who abstain as they lost
/// their data.
fn spoilers(cluster: &Cluster) -> Vec<bool> {
    let mut spoilers = vec![false; cluster.config.replicas];
    for slot in &cluster.slots {
        spoilers[slot.id] |= slot.faulty || slot.lost_data || slot.core.is_none();
    }
    spoilers
}

/// Views that may pass until the next commit, from view `healed` on, where all correct replicas
/// run, no message is lost, and nobody lacks a block or all that is to be ordered
/// ([`found_together`]). What can cost views:
///
/// 1. **What was done before.** A replica does not vote in a view that it gave up, nor propose in
///    one that it had reserved when it was stopped: no later one than that behind `healed`.
/// 2. **Waits that are too short** for a leader that failed before and is back, or for the views
///    whose votes a dead one is to collect: a fifth of the base, or twice what views took before
///    the network healed. None is shortened any more once no commit came for a rotation of leaders
///    and a chain's length. Full waits are never too short in these runs.
/// 3. **The election.** Round-robin and fixed leaders need nothing. Carousel is round-robin
///    wherever the last view did not bring a commit, but for who is passed over: each spoiler may
///    lose one view more than its turns until it is listed, and one in a second chance. Reputation
///    may draw a spoiler in any view as long as it weighs 1000 and the others, who had an outage, 1
///    or 10: without commits the window does not move, so that ends only when all weigh the same,
///    `PATIENCE` views after the last commit. With either, a liar may show the last certificate to
///    a single replica, which then sees another leader in the next view than the others do, until
///    time-outs tell all of it.
/// 4. **A run of good leaders**, as long as the chain that commits (`views_of_a_run`). With the
///    linear pacemaker a liar that collects the complaints about a view may tell some of the
///    certificate, and the leader behind it does not hear a quorum: it is the second run.
/// 5. **One more** view, whose proposal shows the last certificate.
pub fn views(cluster: &Cluster, healed: View) -> u64 {
    let config = &cluster.config;
    if config.replicas == 1 {
        // Alone, a replica goes through any number of views in one instant.
        return u64::MAX;
    }
    let spoilers = spoilers(cluster);
    let spoilt = spoilers.contains(&true);
    let replicas = config.replicas as u64;
    let shortened = match config.base_timeout < SHORTENED * view_micros(config) {
        true => replicas + config.rules.facts().chain_length,
        false => 0,
    };
    let elected = match config.election {
        Election::Reputation if spoilt => PATIENCE + 1,
        Election::Carousel if spoilt => 2 + faults(config.replicas) as u64,
        _ => 0,
    };
    let collected = config.pacemaker == Kind::Linear && spoilt;
    let mut views = 1 + shortened + elected;
    for _ in 0..1 + u64::from(collected) {
        views += views_of_a_run(config, healed.plus(views), &spoilers);
    }
    views + 1
}

/// How many views after `view` the first run of leaders that are no spoilers is complete.
///
/// That follows the very draws: without a commit each election is a function of the view alone,
/// which is what it is on the genesis block. (For round-robin a run ends within n + 3 views.
/// Uniform draws, good with a probability p > 2/3, need (1 − p³) / ((1 − p) p³) views on average
/// for three in a row, 7 or less, and more than 40 once in 1800 times: a bound for all draws would
/// be a loose one.)
fn views_of_a_run(config: &Config, view: View, spoilers: &[bool]) -> u64 {
    let committee = keys::committee(config.replicas);
    let genesis = Arc::new(Block::genesis(keys::CHAIN, Epoch(0)));
    let head = genesis.id();
    let tree = BlockTree::new(genesis, Height(0), Vec::new());
    let history = History { tree: &tree, head: &head, committed: Height(0) };
    let needed = config.rules.facts().chain_length;
    let mut run = 0;
    let complete = (1..10_000).find(|views| {
        let leader = config.election.leader(view.plus(*views), &committee, needed, &history);
        run = if spoilers[leader.index()] { 0 } else { run + 1 };
        run == needed
    });
    complete.expect("there are leaders that are no spoilers")
}

/// Whether all correct replicas hold the block of the highest certificate that any of them has, so
/// that each can vote and lead, and a frame to be ordered, so that each has a reason to. (Where
/// what was passed on to a leader was lost, it hears of the frame when its client asks again.)
pub fn found_together(cluster: &Cluster) -> bool {
    let high_qcs = cluster.correct().map(|core| core.protocol().high_qc());
    let Some(highest) = high_qcs.max_by_key(|qc| qc.rank()) else { return false };
    let holds = |core: &Core| {
        let root = core.protocol().tree().root().view;
        root >= highest.view() || core.protocol().tree().find(&highest.block()).is_some()
    };
    let knows = |core: &Core| !core.is_rejoining() && holds(core) && !core.mempool().is_empty();
    cluster.correct().all(knows)
}
