//! The protocol without agreement: one leader orders.

use quorate_core::protocols::protocol::Origin;
use quorate_core::protocols::sequencer::{self, Message, Nothing, Sequencer};
use quorate_core::{ReplicaId, View};

use super::{Family, Make};
use crate::cluster::Cluster;
use crate::config::Config;
use crate::keys;
use crate::trace::Trace;

/// Replicas that believe the first of them.
#[derive(Clone, Copy, Debug)]
pub enum Sequencers {}

impl Family for Sequencers {
    type Types = sequencer::Types;
    type Protocol = Sequencer;

    fn origin(config: &Config) -> Origin<sequencer::Types> {
        sequencer::origin(&keys::committee(config.replicas))
    }

    fn protocol(cluster: &Cluster<Self>, slot: usize) -> Make<Sequencer> {
        let me = ReplicaId(cluster.slots[slot].id as u16);
        Box::new(move |committee| Sequencer::new(committee.clone(), me))
    }

    fn words(_: &mut Trace, message: &Message) -> String {
        match message {
            Message::Order(block) => {
                format!("orders block {}, {} frames", block.height.0, block.frames.len())
            }
            Message::Head(_, height) => format!("says that block {} is the last", height.0),
            Message::Have(height) => format!("has the blocks up to {}", height.0),
        }
    }

    fn views(_: &Cluster<Self>, _: View) -> u64 {
        0
    }

    fn testimony(_: &mut Trace, _: &Nothing) -> String {
        "has nothing to testify".into()
    }
}
