//! Executing what was committed, and keeping snapshots of it.

use std::sync::Arc;

use super::message::Offer;
use super::{Action, Fx, Halt, MAX_ROOTS, Replica, SnapshotMeta};
use crate::base::types::{Digest, Height, Time};
use crate::ledger::block::BlockId;
use crate::ledger::execution::ExecutionError;
use crate::ledger::frame::SharedFrame;
use crate::ledger::message::Response;
use crate::ledger::state_machine::StateMachine;
use crate::protocols::protocol::{
    self, Attested, BlockOf, Decision, Protocol, Shown, SnapshotBase,
};

impl<P: Protocol, S: StateMachine> Replica<P, S> {
    /// Whether committed blocks wait to be executed.
    #[must_use]
    pub fn has_to_execute(&self) -> bool {
        !self.to_execute.is_empty() && !self.halted
    }

    /// Executes the committed blocks. Called by the drive loop after votes and proposals have
    /// left: execution overlaps with the other replicas' work on the next views.
    pub fn execute(&mut self, now: Time) -> Fx<P::Types> {
        let mut fx = Fx::default();
        while let Some(decision) = self.to_execute.pop_front() {
            if self.halted {
                break;
            }
            match decision {
                Decision::Block(block) => self.execute_block(&block, &mut fx),
                Decision::Root(attested) => self.on_attested(attested, &mut fx),
            }
        }
        if !self.halted {
            let head = self.execution.height();
            let due = head.0 >= self.snapshot_at.0.saturating_add(self.settings.snapshot_blocks)
                || self.snapshot_wanted
                || self.execution.checkpoint_is_due();
            if due && self.may_replace_snapshot() {
                self.take_snapshot(&mut fx);
            }
            self.drop_unheld_bodies();
            self.consult(now, protocol::Input::Wake, &mut fx);
            self.follow_up(now, &mut fx);
        }
        fx
    }

    fn execute_block(&mut self, block: &BlockOf<P::Types>, fx: &mut Fx<P::Types>) {
        let Some(frames) = self.bodies.remove(&block.id()) else {
            return self.halt(Halt::MissingFrames(block.id()), fx);
        };
        match self.execution.execute(block.height(), block.view(), block.id(), &frames) {
            Ok(executed) => {
                fx.output(Action::Executed { commands: executed.commands });
                for (client, outcome) in executed.outcomes {
                    let response = Response::Outcome(outcome);
                    fx.output(Action::Respond { client, response });
                }
                let settled = self.mempool.committed(&frames, self.execution.sessions());
                self.answer(&settled, fx);
            }
            Err(error) => self.halt(Halt::Execution(error), fx),
        }
    }

    /// Tells the clients of frames that were settled besides.
    pub(super) fn answer(&self, settled: &[SharedFrame], fx: &mut Fx<P::Types>) {
        for frame in settled {
            if let Some(outcome) = self.execution.sessions().answer(frame) {
                let response = Response::Outcome(outcome);
                fx.output(Action::Respond { client: frame.key(), response });
            }
        }
    }

    /// A quorum stands for a state root. If this replica did not compute it, it must stop; if it is
    /// that of the newest snapshot, others can be convinced of the snapshot.
    fn on_attested(&mut self, attested: Attested<P::Types>, fx: &mut Fx<P::Types>) {
        let Attested { root, block, evidence } = attested;
        let Some(evidence) = evidence else {
            if !self.computed(root, block.height()) {
                let (height, id) = (block.height(), block.id());
                self.halt(Halt::StateRoot { height, block: id, theirs: root }, fx);
            }
            return;
        };
        let Some(meta) = &self.snapshot else { return };
        if !self.is_attested(meta.block.id())
            && self.snapshot_at < block.height()
            && meta.roots.last() == Some(&root)
        {
            self.attested = Some(Offer {
                block: Arc::clone(&meta.block),
                recent: meta.recent.clone(),
                shown: Shown { block, evidence },
            });
            self.make_offer(fx);
        }
    }

    /// Whether a root that is attested at a height is one that this replica computed. Along a chain
    /// the roots attested are of ever later states, so only those from the last one found on count. A
    /// replica that took over a snapshot lately may not know the state it is of.
    fn computed(&mut self, root: Digest, below: Height) -> bool {
        let lowest = self.execution.lowest_root();
        let from = self.root_shown.max(lowest).0;
        let mut heights = (from..below.0).rev().map(Height);
        match heights.find(|height| self.execution.root_at(*height) == Some(root)) {
            Some(height) => {
                self.root_shown = height;
                true
            }
            None => lowest > self.root_shown,
        }
    }

    /// Whether the newest snapshot is written, and was attested or never will be: later states are shown already.
    /// Were each replaced before blocks could show it, none would ever be offered, and no log cut.
    pub(super) fn may_replace_snapshot(&self) -> bool {
        self.snapshot.as_ref().is_none_or(|meta| {
            self.is_written(meta)
                && (self.root_shown > meta.block.height() || self.is_attested(meta.block.id()))
        })
    }

    fn is_written(&self, snapshot: &SnapshotMeta<P::Types>) -> bool {
        self.snapshot_written >= snapshot.block.height()
    }

    /// Begins a snapshot whether blocks have shown the last one or not; if that is still being written, behind a later block.
    pub(super) fn want_snapshot(&mut self, fx: &mut Fx<P::Types>) {
        self.snapshot_wanted = true;
        if self.snapshot.as_ref().is_none_or(|meta| self.is_written(meta)) {
            self.take_snapshot(fx);
        }
    }

    fn is_attested(&self, snapshot: BlockId) -> bool {
        let mut offers = self.attested.iter().chain(&self.offer);
        offers.any(|offer| offer.block.id() == snapshot)
    }

    /// Begins a snapshot of the state as it is.
    pub(super) fn take_snapshot(&mut self, fx: &mut Fx<P::Types>) {
        let id = self.execution.block_id();
        let Some(SnapshotBase { block, committed, recent }) = self.protocol.snapshot_base(&id)
        else {
            // Not the head: more is about to be executed, and the snapshot taken then.
            return;
        };
        let roots = self.execution.latest_roots(MAX_ROOTS);
        let handle = match self.execution.freeze() {
            Ok(handle) => handle,
            Err(source) => {
                let height = block.height();
                return self.halt(Halt::Execution(ExecutionError::Kept { height, source }), fx);
            }
        };
        self.snapshot_at = block.height();
        self.snapshot_wanted = false;
        let meta = SnapshotMeta { block, committed, recent, roots };
        self.snapshot = Some(meta.clone());
        fx.output(Action::WriteSnapshot(Box::new(meta), handle));
    }

    pub(super) fn on_snapshot_written(&mut self, height: Height, fx: &mut Fx<P::Types>) {
        self.snapshot_written = self.snapshot_written.max(height);
        self.make_offer(fx);
    }

    /// Offers the newest attested snapshot once it is on disk.
    fn make_offer(&mut self, fx: &mut Fx<P::Types>) {
        if let Some(offer) = self.attested.take_if(|o| o.block.height() <= self.snapshot_written) {
            self.offer = Some(offer.clone());
            fx.output(Action::Offered(Box::new(offer)));
        }
    }
}
