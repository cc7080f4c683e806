//! Executing what was committed, and keeping snapshots of it.

use std::sync::Arc;

use super::message::Offer;
use super::{Action, Fx, Halt, Replica, SnapshotMeta};
use crate::base::types::{Height, Time};
use crate::client::message::Response;
use crate::ledger::block::{BlockId, SharedBlock};
use crate::ledger::execution::ExecutionError;
use crate::ledger::frame::SharedFrame;
use crate::ledger::state_machine::StateMachine;
use crate::limits::MAX_ROOTS;
use crate::protocols::protocol::{self, Protocol};

impl<P: Protocol, S: StateMachine> Replica<P, S> {
    /// Whether committed blocks wait to be executed.
    #[must_use]
    pub fn has_to_execute(&self) -> bool {
        !self.to_execute.is_empty() && !self.halted
    }

    /// Executes the committed blocks. Called by the drive loop after votes and proposals have
    /// left: execution overlaps with the other replicas' work on the next views.
    pub fn execute(&mut self, now: Time) -> Fx<P::Message> {
        let mut fx = Fx::default();
        while let Some(block) = self.to_execute.pop_front() {
            if self.halted {
                break;
            }
            self.execute_block(&block, &mut fx);
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

    fn execute_block(&mut self, block: &SharedBlock, fx: &mut Fx<P::Message>) {
        let Some(frames) = self.bodies.remove(&block.id()) else {
            return self.halt(Halt::MissingFrames(block.id()), fx);
        };
        if !self.computed_root_of(block) {
            let (height, id, theirs) = (block.height, block.id(), block.state_root);
            return self.halt(Halt::StateRoot { height, block: id, theirs }, fx);
        }
        self.note_attestation(block, fx);
        match self.execution.execute(block.height, block.view, block.id(), &frames) {
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
    pub(super) fn answer(&self, settled: &[SharedFrame], fx: &mut Fx<P::Message>) {
        for frame in settled {
            if let Some(outcome) = self.execution.sessions().answer(frame) {
                let response = Response::Outcome(outcome);
                fx.output(Action::Respond { client: frame.key(), response });
            }
        }
    }

    /// Whether the root that a committed block carries is one that this replica computed. Along a
    /// chain the roots carried are of ever later states, so only those from the last one found on
    /// count. A replica that took over a snapshot lately may not know the state it is of.
    fn computed_root_of(&mut self, block: &SharedBlock) -> bool {
        let lowest = self.execution.lowest_root();
        let from = self.root_shown.max(lowest).0;
        let mut heights = (from..block.height.0).rev().map(Height);
        match heights.find(|height| self.execution.root_at(*height) == Some(block.state_root)) {
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
                && (self.root_shown > meta.block.height || self.is_attested(meta.block.id()))
        })
    }

    fn is_written(&self, snapshot: &SnapshotMeta) -> bool {
        self.snapshot_written >= snapshot.block.height
    }

    /// Begins a snapshot whether blocks have shown the last one or not; if that is still being written, behind a later block.
    pub(super) fn want_snapshot(&mut self, fx: &mut Fx<P::Message>) {
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
    pub(super) fn take_snapshot(&mut self, fx: &mut Fx<P::Message>) {
        let id = self.execution.block_id();
        let tree = self.protocol.tree();
        let Some(block) = tree.get(&id).cloned() else { return };
        let Some(committed) = tree.committed_by(&id) else {
            // Not the head: more is about to be executed, and the snapshot taken then.
            return;
        };
        let look_back = self.protocol.look_back();
        let mut recent = Vec::new();
        let mut below = tree.find(&block.parent());
        while let Some(ancestor) = below.filter(|_| recent.len() < look_back) {
            recent.push(ancestor.clone());
            below = tree.find(&ancestor.parent());
        }
        recent.reverse();
        let roots = self.execution.latest_roots(MAX_ROOTS);
        let handle = match self.execution.freeze() {
            Ok(handle) => handle,
            Err(source) => {
                let height = block.height;
                return self.halt(Halt::Execution(ExecutionError::Kept { height, source }), fx);
            }
        };
        self.snapshot_at = block.height;
        (self.attesting, self.snapshot_wanted) = (None, false);
        let meta = SnapshotMeta { block, committed, recent, roots };
        self.snapshot = Some(meta.clone());
        fx.output(Action::WriteSnapshot(Box::new(meta), handle));
    }

    /// If a committed block carries the root of the newest snapshot, that may be offered to peers:
    /// the block's certificate is in the one committed above it.
    fn note_attestation(&mut self, block: &SharedBlock, fx: &mut Fx<P::Message>) {
        let Some(meta) = &self.snapshot else { return };
        match self.attesting.take() {
            Some(attesting) if block.parent() == attesting.id() => {
                self.attested = Some(Offer {
                    block: Arc::clone(&meta.block),
                    recent: meta.recent.clone(),
                    attesting,
                    certificate: block.justify.clone(),
                });
                self.make_offer(fx);
            }
            _ => {
                if !self.is_attested(meta.block.id())
                    && meta.roots.last() == Some(&block.state_root)
                {
                    self.attesting = Some(Arc::clone(block));
                }
            }
        }
    }

    pub(super) fn on_snapshot_written(&mut self, height: Height, fx: &mut Fx<P::Message>) {
        self.snapshot_written = self.snapshot_written.max(height);
        self.make_offer(fx);
    }

    /// Offers the newest attested snapshot once it is on disk.
    fn make_offer(&mut self, fx: &mut Fx<P::Message>) {
        if let Some(offer) = self.attested.take_if(|o| o.block.height <= self.snapshot_written) {
            self.offer = Some(offer.clone());
            fx.output(Action::Offered(Box::new(offer)));
        }
    }
}
