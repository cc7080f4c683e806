//! Members that change in a storm.

use quorate_core::ReplicaId;
use quorate_core::protocols::protocol::Protocol as _;

use super::{PATIENCE, Trouble};
use crate::administrator::{Administrator, drawn, members_are_level, newest};
use crate::cluster::{Cluster, Core, Slot};
use crate::family::Family;
use crate::rng::Rng;

/// An administrator that wants changes in a storm, once it has a session; and a replica that loses
/// its data, in half of the worlds in which nobody may lie.
#[derive(Debug)]
pub(super) struct Changes {
    administrator: Option<Administrator>,
    victim: Option<usize>,
    has_lost: bool,
    /// Those of the loss: the seeds before it are the same runs still, as far as they can be.
    numbers: Rng,
}

impl Changes {
    /// None was wanted yet.
    pub(super) fn of(seed: u64, replicas: usize, trouble: Trouble) -> Self {
        let mut numbers = Rng::new(seed.rotate_left(16));
        let loses = trouble == Trouble::Changes && numbers.percent(50);
        let victim = loses.then(|| numbers.below(replicas as u64) as usize);
        Self { administrator: None, victim, has_lost: false, numbers }
    }

    /// A replica loses its data, perhaps. One of four or more may.
    pub(super) fn lose_data<F: Family>(&mut self, cluster: &mut Cluster<F>) {
        let Some(victim) = self.victim.filter(|_| !self.has_lost) else { return };
        if !self.numbers.percent(5) {
            return;
        }
        self.has_lost = true;
        if cluster.slots[victim].core.is_some() {
            cluster.crash(victim);
        }
        cluster.faults.fired("data lost");
        let nonce = self.numbers.number() as u8;
        cluster.rejoin(victim, nonce);
    }

    /// Wants the members to be others now. Who is down is not ready, nor is who lost its data and
    /// does not speak again.
    pub(super) fn draw<F: Family>(&mut self, cluster: &mut Cluster<F>, rng: &mut Rng) {
        if cluster.correct().next().is_none() {
            return;
        }
        if self.administrator.is_none() {
            self.administrator = Administrator::of(cluster, 500_000);
        }
        let Some(administrator) = &mut self.administrator else { return };
        let before = newest(cluster);
        let mut weights = drawn(rng, cluster.config.replicas, &before);
        for faulty in cluster.config.twins.iter().chain(&self.victim) {
            // One of four or more may lie, or lose its data.
            weights[*faulty] = weights[*faulty].map(|weight| weight.min(1));
        }
        let is_ready = |core: &Core<F>| {
            let status = core.protocol().status();
            !core.is_rejoining() && status.abstain_until < status.view
        };
        let ready = |slot: &Slot<F>| slot.core.as_ref().is_some_and(|core| is_ready(core));
        let ready: Vec<bool> = cluster.slots.iter().map(ready).collect();
        let change = administrator.change(before.epoch(), &weights, |id| ready[id]);
        administrator.submit(cluster, &change);
        cluster.faults.fired("members changed");
    }
}

/// Every command must be answered, and the members of the newest epoch come level. Who is none any
/// more may stay behind.
pub(super) fn must_recover<F: Family>(cluster: &mut Cluster<F>) {
    super::request_all(cluster);
    // Channels break when something is lost, and open again.
    let slots = cluster.slots.len();
    for (one, two) in (0..slots).flat_map(|one| (0..one).map(move |two| (one, two))) {
        cluster.reconnect(one, two);
    }
    assert!(
        cluster.run_until_answered(PATIENCE),
        "liveness: not everything is answered after the network healed"
    );
    assert!(
        cluster.run_until(PATIENCE, members_are_level),
        "liveness: a member of {} does not catch up",
        newest(cluster).epoch()
    );
    let rejoins = |cluster: &Cluster<F>, id: ReplicaId| {
        cluster.slots[id.index()].core.as_ref().is_some_and(|core| core.is_rejoining())
    };
    let none_rejoins =
        |cluster: &Cluster<F>| !newest(cluster).replicas().any(|id| rejoins(cluster, id));
    assert!(
        cluster.run_until(PATIENCE, none_rejoins),
        "liveness: a member that lost its data is not taken in again"
    );
}
