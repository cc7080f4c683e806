//! PBFT.

pub(crate) mod said;

use quorate_adversary::Schedule;
use quorate_adversary::pbft::ALL;
use quorate_core::protocols::checkpoint::Stable;
use quorate_core::protocols::pbft::words::{Entry, Phase, Standing, Testimony};
use quorate_core::protocols::pbft::{
    self, Authentication, Domain, Message, Patience, Pbft, Settings,
};
use quorate_core::protocols::protocol::Origin;
use quorate_core::replica::message::PeerMessage;
use quorate_core::{Duration, Epoch, Height, ReplicaId, Time, View};

use super::{Family, Make};
use crate::cluster::{Cluster, Peer};
use crate::config::Config;
use crate::oracles::Oracles;
use crate::rng::Rng;
use crate::trace::Trace;

/// What signatures are bound to.
pub(crate) fn domain(config: &Config) -> Domain {
    Domain::new(config.committee(), config.pbft.authentication)
}

/// A stable checkpoint's height.
fn stable(stable: Option<&Stable>) -> Height {
    stable.map_or(Height(0), |stable| stable.checkpoint.height)
}

/// Blocks, each with the view that it was ordered or prepared in.
fn entries(trace: &Trace, entries: &[Entry]) -> String {
    let one = |entry: &Entry| format!("{} in {}", trace.name(&entry.block), entry.view);
    let all: Vec<_> = entries.iter().map(one).collect();
    if all.is_empty() { "nothing".to_owned() } else { all.join(" and ") }
}

/// Replicas of PBFT.
#[derive(Clone, Copy, Debug)]
pub enum Pbfts {}

impl Family for Pbfts {
    type Types = pbft::Types;
    type Protocol = Pbft;

    const CHANGES_MEMBERS: bool = true;

    fn origin(config: &Config) -> Origin<pbft::Types> {
        pbft::origin(&config.committee(), config.pbft.window)
    }

    fn protocol(cluster: &Cluster<Self>, slot: usize) -> Make<Pbft> {
        let me = ReplicaId(cluster.slots[slot].id as u16);
        let settings = cluster.config.pbft;
        Box::new(move |committee| Pbft::new(committee.clone(), me, settings))
    }

    fn words(trace: &mut Trace, message: &Message) -> String {
        match message {
            Message::PrePrepare { block, .. } => {
                trace.learn_as(block.id(), block.height.0);
                let (name, view, frames) =
                    (trace.name(&block.id()), block.view, block.frames.len());
                format!("pre-prepare {name} (view {view}, {frames} frames)")
            }
            Message::Vote { vote, .. } => {
                let verb = match vote.phase {
                    Phase::Prepare => "prepare",
                    Phase::Commit => "commit",
                };
                format!("{verb} {} (view {})", trace.name(&vote.block), vote.view)
            }
            Message::Checkpoint { checkpoint, .. } => {
                format!("checkpoint {}", checkpoint.height)
            }
            Message::ViewChange(signed) => {
                let change = &signed.change;
                let (view, low) = (change.view, stable(change.stable.as_ref()));
                let prepared = entries(trace, &change.prepared);
                let pre_prepared = entries(trace, &change.pre_prepared);
                format!("view-change {view} (stable {low}, P: {prepared}, Q: {pre_prepared})")
            }
            Message::NewView { new_view, .. } => {
                let from = new_view.changes.iter().map(|signed| signed.from.to_string());
                let from = Vec::from_iter(from).join(" ");
                let blocks = new_view.chosen.iter().map(|block| trace.name(block));
                let blocks = Vec::from_iter(blocks).join(" ");
                let blocks = if blocks.is_empty() { "nothing".to_owned() } else { blocks };
                format!("new-view {} (of {from}, with {blocks})", new_view.view)
            }
            Message::Stable(shown) => {
                format!("shows that {} is stable", stable(Some(shown)))
            }
            Message::Standing(standing) => {
                let coming = if standing.is_changing { " to come" } else { "" };
                let Standing { view, stable, committed, .. } = standing;
                let awaits = standing
                    .awaits
                    .map_or(String::new(), |view| format!(", abstains until view {view}"));
                format!(
                    "stands at view {view}{coming}, height {committed}, stable {stable}{awaits}"
                )
            }
        }
    }

    fn set_up(trace: &mut Trace, _: &Config) {
        (trace.by_height, trace.phases) = (true, pbft::PHASES);
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
        let tentative = config.seed.is_multiple_of(3);
        config.pbft =
            Settings { authentication, window, checkpoint_every, under_way, tentative, patience };
    }

    fn sends(oracles: &mut Oracles, replica: usize, (epoch, _): (Epoch, Time), message: &Message) {
        oracles.sends_of_pbft(replica, epoch, message);
    }

    fn overhear(cluster: &mut Cluster<Self>, to: usize, from: usize, message: &Peer<Self>) {
        if let PeerMessage::Protocol { epoch, message: Message::NewView { new_view, .. }, .. } =
            message
            && cluster.slots[from].faulty
            && !cluster.slots[to].faulty
        {
            let Cluster { slots, oracles, config, .. } = cluster;
            let is_faulty = |id: usize| slots.iter().any(|slot| slot.id == id && slot.faulty);
            oracles.new_view_of_pbft(config, *epoch, new_view, is_faulty);
        }
        cluster.overhear(to, message);
    }

    fn post_bent(cluster: &mut Cluster<Self>, from: usize, to: usize, message: &Peer<Self>) {
        cluster.post_bent(from, to, message);
    }

    fn tick(cluster: &mut Cluster<Self>, slot: usize) {
        cluster.tick(slot);
    }

    fn lies(cluster: &mut Cluster<Self>, _: &mut Rng, wanted: Option<&Schedule>) {
        let mut rng = Rng::new(cluster.config.seed ^ 0x11A5);
        for slot in 0..cluster.slots.len() {
            let (name, make) = rng.pick(&ALL);
            if !cluster.slots[slot].faulty {
                continue;
            }
            let seed = rng.number();
            let adversary = match wanted.map(|schedule| schedule.build_for_pbft(seed)) {
                None => make(seed),
                Some(Ok(adversary)) => adversary,
                Some(Err(foreign)) => panic!("harness: {foreign}"),
            };
            match wanted {
                None => cluster.faults.fired(name),
                Some(schedule) => schedule.parts().for_each(|(name, _)| cluster.faults.fired(name)),
            }
            cluster.make_liar(slot, adversary);
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
