//! Members that change in a storm.

use super::PATIENCE;
use crate::administrator::{Administrator, drawn, members_are_level, newest};
use crate::cluster::Cluster;
use crate::family::Family;
use crate::rng::Rng;

/// An administrator that wants changes in a storm, once it has a session.
#[derive(Debug, Default)]
pub(super) struct Changes {
    administrator: Option<Administrator>,
}

impl Changes {
    /// Wants the members to be others now. Who is down is not ready.
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
        for liar in &cluster.config.twins {
            // One of four or more may lie.
            weights[*liar] = weights[*liar].map(|weight| weight.min(1));
        }
        let up: Vec<bool> = cluster.slots.iter().map(|slot| slot.core.is_some()).collect();
        let change = administrator.change(before.epoch(), &weights, |id| up[id]);
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
}
