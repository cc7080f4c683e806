//! The numbers that the deciding thread publishes.

use quorate_core::ledger::state_machine::{StateMachine, Usage};
use quorate_core::protocols::protocol::Protocol;

use super::Decider;

impl<P: Protocol, S: StateMachine> Decider<P, S> {
    /// Publishes them as they are now.
    pub(super) fn publish(&mut self) {
        self.turns.unpublished = false;
        let metrics = &self.reach.metrics;
        let status = self.replica.protocol().status();
        metrics.view.set(status.view.0);
        metrics.leader.set(status.leader.map_or(0, |leader| u64::from(leader.0)));
        metrics.committed_height.set(status.committed.0);
        metrics.executed_height.set(self.replica.execution().height().0);
        metrics.uncommitted_blocks.set(status.uncommitted as u64);
        let abstains = status.abstain_until >= status.view;
        metrics.abstain_until_view.set(if abstains { status.abstain_until.0 } else { 0 });
        metrics.set_details(status.details);
        metrics.rejoining.set(u64::from(self.replica.is_rejoining()));
        metrics.mempool_frames.set(self.replica.mempool().len() as u64);
        metrics.mempool_bytes.set(self.replica.mempool().bytes() as u64);
        let log = self.journal.log();
        let statistics = log.statistics();
        metrics.log_bytes.set(log.bytes());
        metrics.log_commits_total.set(statistics.commits);
        metrics.log_syncs_total.set(statistics.syncs);
        metrics.log_sync_nanoseconds_total.set(statistics.sync_ns);
        metrics.client_connections.set(self.reach.listener.connections() as u64);
        metrics.client_held_bytes.set(self.reach.listener.held_bytes() as u64);
        if let Some(Usage { used_bytes, limit_bytes }) = self.replica.execution().usage() {
            metrics.state_bytes.set(used_bytes);
            metrics.state_limit_bytes.set(if limit_bytes == u64::MAX { 0 } else { limit_bytes });
        }
    }
}
