//! Snowman.

use quorate_core::protocols::protocol::Origin;
use quorate_core::protocols::snow::parameters::Parameters;
use quorate_core::protocols::snow::snowman::words::Testimony;
use quorate_core::protocols::snow::snowman::{self, Message, Settings, Snowman};
use quorate_core::{Duration, ReplicaId, View};

use super::Family;
use crate::cluster::Cluster;
use crate::config::Config;
use crate::keys;
use crate::rng::Rng;
use crate::trace::Trace;

/// Replicas of Snowman.
#[derive(Clone, Copy, Debug)]
pub enum Snowmans {}

impl Family for Snowmans {
    type Types = snowman::Types;
    type Protocol = Snowman;

    fn origin(config: &Config) -> Origin<snowman::Types> {
        snowman::origin(&keys::committee(config.replicas))
    }

    fn protocol(cluster: &Cluster<Self>, slot: usize) -> Snowman {
        let committee = keys::committee(cluster.config.replicas);
        let me = ReplicaId(cluster.slots[slot].id as u16);
        // Other samples after each start.
        let seed = cluster.config.seed ^ (slot as u64) << 48 ^ cluster.now.0.rotate_left(20);
        Snowman::new(committee, me, Settings { seed, ..cluster.config.snowman })
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
        }
    }

    /// Fewer than a fifth lie: what the analysis of Snowflake+ asks for (arXiv 2404.14250).
    fn draw(config: &mut Config) {
        let mut rng = Rng::new(config.seed ^ 0x50_0A);
        // Without it a proposer fills its blocks with the same frames.
        config.filtering = true;
        config.twins.truncate((config.replicas - 1) / 5);
        let parameters = rng.pick(&[
            Parameters::LATER_PRACTICE,
            Parameters::LATER_PRACTICE,
            Parameters { sample: 5, quorum: 4, early: 20, decision: 20 },
        ]);
        config.snowman = Settings {
            parameters,
            polls: rng.pick(&[1, 4, 8]),
            window: Duration::from_millis(rng.pick(&[5, 100, 400])),
            under_way: rng.pick(&[1, 2, 8]),
            checkpoint_every: rng.pick(&[1, 4, 32]),
            seed: 0,
        };
    }

    /// There are none.
    fn views(_: &Cluster<Self>, _: View) -> u64 {
        0
    }

    /// Each block costs β polls of everybody, and there are blocks that lose.
    fn events_a_round(config: &Config) -> u64 {
        10 + 8 * u64::from(config.snowman.parameters.decision)
    }

    fn testimony(_: &mut Trace, testimony: &Testimony) -> String {
        format!("testifies {}", testimony.accepted.0)
    }
}
