//! PBFT.

use quorate_adversary::Schedule;
use quorate_adversary::pbft::ALL;
use quorate_core::protocols::pbft::words::{Phase, Testimony};
use quorate_core::protocols::pbft::{
    self, Authentication, Domain, Message, Patience, Pbft, Settings,
};
use quorate_core::protocols::protocol::Origin;
use quorate_core::{Duration, ReplicaId, View};

use super::Family;
use crate::cluster::{Cluster, Peer};
use crate::config::Config;
use crate::keys;
use crate::rng::Rng;
use crate::trace::Trace;

/// What signatures are bound to.
pub(crate) fn domain(config: &Config) -> Domain {
    Domain::new(keys::committee(config.replicas), config.pbft.authentication)
}

/// Replicas of PBFT.
#[derive(Clone, Copy, Debug)]
pub enum Pbfts {}

impl Family for Pbfts {
    type Types = pbft::Types;
    type Protocol = Pbft;

    fn origin(config: &Config) -> Origin<pbft::Types> {
        pbft::origin(&keys::committee(config.replicas), config.pbft.window)
    }

    fn protocol(cluster: &Cluster<Self>, slot: usize) -> Pbft {
        let committee = keys::committee(cluster.config.replicas);
        let me = ReplicaId(cluster.slots[slot].id as u16);
        Pbft::new(committee, me, cluster.config.pbft)
    }

    fn words(_: &mut Trace, message: &Message) -> String {
        match message {
            Message::PrePrepare { block, .. } => format!(
                "pre-prepares block {} of view {}, {} frames",
                block.height.0,
                block.view.0,
                block.frames.len()
            ),
            Message::Vote { vote, .. } => {
                let verb = match vote.phase {
                    Phase::Prepare => "prepares",
                    Phase::Commit => "commits",
                };
                format!("{verb} block {} in view {}", vote.height.0, vote.view.0)
            }
            Message::Checkpoint { checkpoint, .. } => {
                format!("signs the checkpoint at {}", checkpoint.height.0)
            }
            Message::ViewChange(signed) => {
                let change = &signed.change;
                let low = change.stable.as_ref().map_or(0, |stable| stable.checkpoint.height.0);
                let prepared = change
                    .prepared
                    .iter()
                    .map(|entry| format!("{} in view {}", entry.height.0, entry.view.0));
                let prepared = Vec::from_iter(prepared).join(", ");
                format!(
                    "gives up for view {}: stable {low}, prepared [{prepared}], pre-prepared {}",
                    change.view.0,
                    change.pre_prepared.len()
                )
            }
            Message::NewView { new_view, .. } => {
                let from = new_view.changes.iter().map(|signed| signed.from.to_string());
                let from = Vec::from_iter(from).join(" ");
                let blocks = new_view.chosen.len();
                format!("begins view {} of [{from}] with {blocks} blocks", new_view.view.0)
            }
            Message::Stable(stable) => {
                format!("shows the stable checkpoint {}", stable.checkpoint.height.0)
            }
            Message::Standing(standing) => format!(
                "stands at view {}{}, committed {}, stable {}{}",
                standing.view.0,
                if standing.is_changing { " to come" } else { "" },
                standing.committed.0,
                standing.stable.0,
                standing
                    .awaits
                    .map_or(String::new(), |view| format!(", abstains until view {}", view.0))
            ),
        }
    }

    fn draw(config: &mut Config) {
        let mut rng = Rng::new(config.seed ^ 0x9BF7);
        // Without it a primary fills its window with the same frames.
        config.filtering = true;
        let authentication = rng.pick(&[Authentication::Signatures, Authentication::Macs]);
        let checkpoint_every = rng.pick(&[1, 4, 32]);
        let window = 2 * checkpoint_every + rng.pick(&[0, 3, 60]);
        let base = Duration::from_micros(2 * config.base_timeout);
        let patience = Patience { base, max: base * 64 };
        let under_way = rng.pick(&[1, 2, 8, 64]);
        config.pbft = Settings { authentication, window, checkpoint_every, under_way, patience };
    }

    fn overhear(cluster: &mut Cluster<Self>, to: usize, _: usize, message: &Peer<Self>) {
        cluster.overhear(to, message);
    }

    fn post_bent(cluster: &mut Cluster<Self>, from: usize, to: usize, message: &Peer<Self>) {
        cluster.post_bent(from, to, message);
    }

    fn tick(cluster: &mut Cluster<Self>, slot: usize) {
        cluster.tick(slot);
    }

    fn lies(cluster: &mut Cluster<Self>, _: &mut Rng, _: Option<&Schedule>) {
        let mut rng = Rng::new(cluster.config.seed ^ 0x11A5);
        for slot in 0..cluster.slots.len() {
            let (name, make) = rng.pick(&ALL);
            if cluster.slots[slot].faulty {
                cluster.faults.fired(name);
                cluster.make_liar(slot, make(rng.number()));
            }
        }
    }

    /// The view that is under way may be given up, and f primaries may be faulty.
    fn views(cluster: &Cluster<Self>, _: View) -> u64 {
        2 * cluster.config.replicas as u64 + 4
    }

    fn testimony(_: &mut Trace, testimony: &Testimony) -> String {
        format!("testifies view {}", testimony.view.0)
    }
}
