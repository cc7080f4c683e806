//! The laboratory's protocol of two delays.

pub(crate) mod said;

use quorate_core::protocols::protocol::Origin;
use quorate_core::protocols::two_delay::certificate::Phase;
use quorate_core::protocols::two_delay::words::{Nothing, Standing, Vote};
use quorate_core::protocols::two_delay::{self, Message, Patience, TwoDelay};
use quorate_core::{Duration, Epoch, ReplicaId, Time, View};

use super::{Family, Make};
use crate::cluster::Cluster;
use crate::config::Config;
use crate::keys;
use crate::oracles::Oracles;
use crate::trace::Trace;

/// Replicas of the protocol of two delays.
#[derive(Clone, Copy, Debug)]
pub enum TwoDelays {}

fn vote(trace: &Trace, vote: &Vote) -> String {
    let Vote { phase, view, block, .. } = vote;
    let name = block.map_or("nothing".to_owned(), |(block, _)| trace.name(&block));
    let verb = match phase {
        Phase::First => "first vote",
        Phase::Fallback => "fallback vote",
        Phase::Second => "second vote",
    };
    format!("{verb} for {name} (view {view})")
}

impl Family for TwoDelays {
    type Types = two_delay::Types;
    type Protocol = TwoDelay;

    fn origin(config: &Config) -> Origin<two_delay::Types> {
        two_delay::origin(&keys::committee(config.replicas))
    }

    fn protocol(cluster: &Cluster<Self>, slot: usize) -> Make<TwoDelay> {
        let me = ReplicaId(cluster.slots[slot].id as u16);
        let base = Duration::from_micros(cluster.config.base_timeout);
        let patience = Patience { base, max: base * 64 };
        Box::new(move |committee| TwoDelay::new(committee.clone(), me, patience))
    }

    fn words(trace: &mut Trace, message: &Message) -> String {
        match message {
            Message::Proposal { block, .. } => {
                trace.learn_as(block.id(), block.view.0);
                let (name, on) = (trace.name(&block.id()), trace.name(&block.justify.block));
                let behind = match &block.tc {
                    Some(tc) => format!(", TC {}", tc.view),
                    None => String::new(),
                };
                format!("proposal {name} on {on}{behind} ({} frames)", block.frames.len())
            }
            Message::Vote(word) => vote(trace, word),
            Message::TimeOut { view, high_qc, .. } => {
                format!("time-out {view} (QC of {})", trace.name(&high_qc.block))
            }
            Message::Standing(standing) => {
                let Standing { high_qc, decided, asks, .. } = &**standing;
                let verb = if *asks { "asks" } else { "tells" };
                let decided = decided.as_ref().map_or(View(0), |commit| commit.view);
                let certified = trace.name(&high_qc.block);
                format!(
                    "{verb} in view {}: QC of {certified}, commit of view {decided}",
                    standing.view()
                )
            }
        }
    }

    fn set_up(trace: &mut Trace, _: &Config) {
        // Fallback votes are told by their messages.
        trace.phases = 1;
    }

    fn sends(oracles: &mut Oracles, replica: usize, (epoch, _): (Epoch, Time), message: &Message) {
        oracles.sends_of_two_delays(replica, epoch, message);
    }

    fn draw(config: &mut Config) {
        // Without it a leader fills its blocks with the same frames.
        config.filtering = true;
    }

    /// The view that is under way may be given up, and f leaders may be faulty; a block that too
    /// few heard of is committed with the next one.
    fn views(cluster: &Cluster<Self>, _: View) -> u64 {
        2 * cluster.config.replicas as u64 + 4
    }

    fn testimony(_: &mut Trace, _: &Nothing) -> String {
        "has nothing to testify".into()
    }
}
