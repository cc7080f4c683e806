//! The HotStuff family, with mutants, adversaries and oracles of its own.

use quorate_adversary::Schedule;
use quorate_core::base::crypto::Statement;
use quorate_core::client::message::Response;
use quorate_core::protocols::hotstuff::testimony::Testimony;
use quorate_core::protocols::hotstuff::{self, HotStuff, Message};
use quorate_core::protocols::protocol::{Event, Origin};
use quorate_core::{Epoch, ReplicaId, Time, View};

use super::{Family, Make};
use crate::cluster::{Cluster, Core, Peer};
use crate::config::Config;
use crate::liveness;
use crate::mutant::Driver;
use crate::oracles::Oracles;
use crate::planted;
use crate::rng::Rng;
use crate::swarm::draw;
use crate::trace::Trace;

/// Replicas of HotStuff, or of a mutant of it.
#[derive(Clone, Copy, Debug)]
pub enum HotStuffs {}

impl Family for HotStuffs {
    type Types = hotstuff::Types;
    type Protocol = Driver;

    const CHANGES_MEMBERS: bool = true;

    fn origin(config: &Config) -> Origin<hotstuff::Types> {
        hotstuff::origin(&config.domain())
    }

    fn protocol(cluster: &Cluster, slot: usize) -> Make<Driver> {
        let place = &cluster.slots[slot];
        let (id, settings, mutation) =
            (place.id, cluster.config.protocol(), cluster.config.mutation);
        let steps = cluster.trace.steps.as_ref().filter(|_| !place.faulty);
        let steps = steps.map(|steps| steps.of(id));
        Box::new(move |committee| {
            let me = ReplicaId(id as u16);
            let committee = planted::committee(committee.clone());
            let driver = HotStuff::new(committee, me, settings.clone());
            Driver::new(driver, mutation(id)).watched(steps.clone())
        })
    }

    fn words(trace: &mut Trace, message: &Message) -> String {
        trace.protocol_words(message)
    }

    fn testimony(trace: &mut Trace, testimony: &Testimony) -> String {
        format!("testifies view {}, {}", testimony.view, trace.qc(&testimony.high_qc))
    }

    fn set_up(trace: &mut Trace, config: &Config) {
        let facts = config.rules.facts();
        (trace.phases, trace.carries_all_qcs) = (facts.phases, facts.carries_all_qcs);
        trace.tells_signers = config.election.needs_signers();
    }

    fn signs(oracles: &mut Oracles, replica: usize, statement: &Statement) {
        oracles.signs(replica, statement);
    }

    fn tells(oracles: &mut Oracles, replica: usize, epoch: Epoch, message: &Message) {
        if let Message::Vote(vote) = message {
            oracles.votes(replica, epoch, vote);
        }
    }

    fn sends(oracles: &mut Oracles, replica: usize, (_, now): (Epoch, Time), message: &Message) {
        oracles.sends(replica, now, message);
    }

    fn delivered(oracles: &mut Oracles, from: usize, to: usize, message: &Message) {
        if let Some(strict) = &mut oracles.strict {
            strict.delivered(from, to, message);
        }
    }

    fn happened(oracles: &mut Oracles, replica: usize, event: &Event, now: Time) {
        if let Event::Entered(view) = event
            && let Some(strict) = &mut oracles.strict
        {
            strict.entered(replica, *view, now);
        }
    }

    fn holds(oracles: &mut Oracles, replica: usize, core: &Core) {
        if let Some(strict) = &mut oracles.strict {
            strict.holds(replica, core);
        }
    }

    fn epoch_began(cluster: &Cluster, slot: usize, epoch: Epoch) {
        let ends = cluster.core(slot).handovers();
        let Some(ended) = usize::try_from(epoch.0).ok().and_then(|epoch| epoch.checked_sub(1))
        else {
            return;
        };
        let first = cluster.config.committee();
        let before = ended.checked_sub(1).and_then(|before| ends.get(before));
        let old = before.map_or(&first, |before| &before.next);
        let is_faulty = |id: usize| cluster.slots.iter().any(|slot| slot.id == id && slot.faulty);
        if let Some(handover) = ends.get(ended) {
            cluster.oracles.handed_over(cluster.slots[slot].id, old, handover, is_faulty);
        }
    }

    fn turned(cluster: &mut Cluster, slot: usize, line: usize) {
        if cluster.trace.is_used()
            && let Some(core) = &cluster.slots[slot].core
        {
            cluster.trace.locked(cluster.now, slot, &core.protocol().safety().lock, line);
        }
    }

    fn overhear(cluster: &mut Cluster, to: usize, from: usize, message: &Peer) {
        cluster.overhear(to, from, message);
    }

    fn post_bent(cluster: &mut Cluster, from: usize, to: usize, message: &Peer) {
        cluster.post_bent(from, to, message);
    }

    fn answers(cluster: &mut Cluster, from: usize, response: Response) -> Vec<Response> {
        cluster.answered_instead(from, response)
    }

    fn watch_strictly(cluster: &mut Cluster) {
        cluster.watch_strictly();
    }

    fn lies(cluster: &mut Cluster, rng: &mut Rng, wanted: Option<&Schedule>) {
        draw::lies(cluster, rng, wanted);
    }

    fn found_together(cluster: &Cluster) -> bool {
        liveness::found_together(cluster)
    }

    fn views(cluster: &Cluster, healed: View) -> u64 {
        liveness::views(cluster, healed)
    }

    fn tick(cluster: &mut Cluster, slot: usize) {
        cluster.tick(slot);
    }
}
