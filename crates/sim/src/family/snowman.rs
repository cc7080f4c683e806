//! Snowman, by sampling alone, and with Frosty's fallback on a quorum.

pub(crate) mod epochs;

use quorate_core::base::crypto::Statement;
use quorate_core::base::membership::faults_of_a_fifth;
use quorate_core::protocols::protocol::Origin;
use quorate_core::protocols::snow::parameters::Parameters;
use quorate_core::protocols::snow::snowman::frosty::words::Word;
use quorate_core::protocols::snow::snowman::words::Testimony;
use quorate_core::protocols::snow::snowman::{self, Fallback, Message, Settings, Snowman};
use quorate_core::{Duration, Epoch, ReplicaId, Time, View};

use super::{Family, Make};
use crate::cluster::Cluster;
use crate::config::Config;
use crate::keys;
use crate::oracles::Oracles;
use crate::rng::Rng;
use crate::trace::Trace;

/// What the beginning of an odd epoch is counted under.
pub const ODD_EPOCH: &str = "odd epoch";

/// Replicas of Snowman. In a swarm `FALLS_BACK` says whether they fall back on a quorum; elsewhere
/// [`Config::snowman`] does.
#[derive(Clone, Copy, Debug)]
pub enum Sampled<const FALLS_BACK: bool> {}

/// Replicas of Snowman that sample, whatever happens.
pub type Snowmans = Sampled<false>;
/// Replicas of Snowman that fall back on a quorum.
pub type Frosties = Sampled<true>;

impl<const FALLS_BACK: bool> Family for Sampled<FALLS_BACK> {
    type Types = snowman::Types;
    type Protocol = Snowman;

    fn origin(config: &Config) -> Origin<snowman::Types> {
        snowman::origin(&keys::committee(config.replicas), config.snowman.fallback)
    }

    fn protocol(cluster: &Cluster<Self>, slot: usize) -> Make<Snowman> {
        let me = ReplicaId(cluster.slots[slot].id as u16);
        // Other samples after each start.
        let seed = cluster.config.seed ^ (slot as u64) << 48 ^ cluster.now.0.rotate_left(20);
        let settings = Settings { seed, ..cluster.config.snowman };
        Box::new(move |committee| Snowman::new(committee.clone(), me, settings))
    }

    fn words(_: &mut Trace, message: &Message) -> String {
        match message {
            Message::Push(block) => {
                let (id, frames) = (block.id(), block.frames.len());
                format!("pushes {id:?} at {} with {frames} frames", block.height.0)
            }
            Message::Query { poll, tip, accepted } => format!(
                "asks in poll {poll}, prefers {:?} at {}, accepted {}",
                tip.block, tip.height.0, accepted.0
            ),
            Message::Answer { poll, tip, accepted, .. } => format!(
                "answers in poll {poll}, prefers {:?} at {}, accepted {}",
                tip.block, tip.height.0, accepted.0
            ),
            Message::Checkpoint { checkpoint, .. } => {
                format!("signs the checkpoint at {}", checkpoint.height.0)
            }
            Message::Stable(stable) => {
                format!("shows the stable checkpoint {}", stable.checkpoint.height.0)
            }
            Message::Accepted { tip, stable } => {
                format!("accepted up to {}, stable {}", tip.height.0, stable.0)
            }
            Message::Frosty(word) => about_epochs(word),
        }
    }

    fn signs(oracles: &mut Oracles, replica: usize, statement: &Statement) {
        oracles.epochs.signs(replica, statement);
    }

    fn sends(oracles: &mut Oracles, replica: usize, _: (Epoch, Time), message: &Message) {
        if let Message::Frosty(word) = message {
            oracles.epochs.sends(replica, word);
        }
    }

    fn turned(cluster: &mut Cluster<Self>, _: usize, _: usize) {
        for _ in 0..std::mem::take(&mut cluster.oracles.epochs.news) {
            cluster.faults.fired(ODD_EPOCH);
        }
    }

    /// Fewer than a fifth lie: what the analysis of Snowflake+ asks for (arXiv 2404.14250).
    fn draw(config: &mut Config) {
        let mut rng = Rng::new(config.seed ^ 0x50_0A);
        // Without it a proposer fills its blocks with the same frames.
        config.filtering = true;
        config.twins.truncate(faults_of_a_fifth(config.replicas));
        let parameters = rng.pick(&[
            Parameters::LATER_PRACTICE,
            Parameters::LATER_PRACTICE,
            Parameters { sample: 5, quorum: 4, early: 20, decision: 20 },
        ]);
        // The fallback wants larger samples: see `Parameters::for_fallback`.
        let parameters = if FALLS_BACK { parameters.for_fallback() } else { parameters };
        config.snowman = Settings {
            parameters,
            polls: rng.pick(&[1, 4, 8]),
            window: Duration::from_millis(rng.pick(&[5, 100, 400])),
            under_way: rng.pick(&[1, 2, 8]),
            checkpoint_every: rng.pick(&[1, 4, 32]),
            seed: 0,
            fallback: None,
        };
        if FALLS_BACK {
            let undecided = rng.pick(&[1, 3, 10, 40]);
            let round = Duration::from_millis(rng.pick(&[10, 50, 500]));
            config.snowman.fallback = Some(Fallback { undecided, round });
        }
    }

    /// There are none.
    fn views(_: &Cluster<Self>, _: View) -> u64 {
        0
    }

    /// Each block costs β polls of everybody, and there are blocks that lose.
    fn events_a_round(config: &Config) -> u64 {
        let epochs = if config.snowman.fallback.is_some() { 100 } else { 0 };
        10 + 8 * u64::from(config.snowman.parameters.decision) + epochs
    }

    fn testimony(_: &mut Trace, testimony: &Testimony) -> String {
        format!("testifies {}", testimony.accepted.0)
    }
}

fn about_epochs(word: &Word) -> String {
    match word {
        Word::Complaint { complaint, .. } => {
            format!("complains for epoch {} above {}", complaint.epoch, complaint.base.height)
        }
        Word::Report { signed, .. } => {
            let report = &signed.report;
            let (epoch, round, base) = (report.epoch, report.round, report.base.height);
            format!("reports {:?} above {base} in {epoch}/{round}", report.chain)
        }
        Word::Proposal(proposal) => {
            let (ballot, reports) = (proposal.ballot, proposal.reports.len());
            let (epoch, round, place) = (ballot.epoch, ballot.round, ballot.place);
            format!(
                "proposes {:?} at {} in {epoch}/{round} by {reports} reports",
                place.block, place.height
            )
        }
        Word::Vote { ballot, .. } => format!(
            "votes for {:?} at {} in {}/{}",
            ballot.place.block, ballot.place.height, ballot.epoch, ballot.round
        ),
        Word::Decided(decided) => format!(
            "shows that epoch {} decided {:?} at {}",
            decided.ballot.epoch, decided.ballot.place.block, decided.ballot.place.height
        ),
    }
}
