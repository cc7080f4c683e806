//! Executing what was committed, and keeping snapshots of it.

use std::sync::Arc;

use super::{Action, Fx, Halt, MAX_ROOTS, Replica, SnapshotMeta};
use crate::base::crypto::Signature;
use crate::base::types::{Digest, Height, Time};
use crate::ledger::frame::SharedFrame;
use crate::ledger::message::Response;
use crate::ledger::state_machine::StateMachine;
use crate::protocols::protocol::{
    self, Attested, BlockOf, Decision, Protocol, Shown, SnapshotBase,
};

impl<P: Protocol, S: StateMachine> Replica<P, S> {
    /// How many decisions of committed blocks wait to be executed.
    #[must_use]
    pub fn to_execute(&self) -> usize {
        if self.halted { 0 } else { self.to_execute.len() + usize::from(self.tentative.is_some()) }
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
                Decision::Block(block) => {
                    self.execute_block(&block, &mut fx);
                    let every = self.protocol.roots_every();
                    if every > 1 && block.height().0.is_multiple_of(every) {
                        self.snapshot_if_due(&mut fx);
                    }
                }
                Decision::Root(attested) => self.on_attested(attested, &mut fx),
            }
        }
        self.execute_tentatively(&mut fx);
        if !self.halted {
            if self.protocol.roots_every() == 1 {
                self.snapshot_if_due(&mut fx);
            }
            self.drop_unheld_bodies();
            self.consult(now, protocol::Input::Wake, &mut fx);
            self.follow_up(now, &mut fx);
        }
        fx
    }

    fn snapshot_if_due(&mut self, fx: &mut Fx<P::Types>) {
        let head = self.execution.height();
        let due = self.epochs.sealed().is_none()
            && self.snapshots.is_due(head, self.settings.snapshot_blocks)
            || self.epochs.sealed().is_none() && self.execution.checkpoint_is_due();
        if due && !self.halted && self.snapshots.may_be_replaced() {
            self.take_snapshot(fx);
        }
    }

    pub(super) fn execute_block(&mut self, block: &BlockOf<P::Types>, fx: &mut Fx<P::Types>) {
        let Some(frames) = self.payload.take(&block.id()) else {
            return self.halt(Halt::MissingFrames(block.id()), fx);
        };
        if self.is_governed() {
            fx.output(Action::Committed(vec![Arc::clone(block)]));
        }
        let clients = Arc::clone(self.execution.sessions().clients());
        match self.execution.execute(block.height(), block.view(), block.id(), &frames) {
            Ok(executed) => {
                let commands = executed.commands;
                if executed.sealed {
                    self.seal();
                }
                fx.output(Action::Executed { commands, frames: frames.clone() });
                for (client, outcome) in executed.outcomes {
                    let response = Response::Outcome(outcome);
                    fx.output(Action::Respond { client, response });
                }
                self.ahead.settled(&frames);
                let sessions = self.execution.sessions();
                let mut settled = self.payload.mempool.committed(&frames, sessions);
                if !Arc::ptr_eq(&clients, sessions.clients()) {
                    // Frames of those who lost their rights need no ordering.
                    settled.extend(self.payload.mempool.taken_over(sessions));
                }
                self.answer(&settled, fx);
            }
            Err(error) => self.halt(Halt::Execution(error), fx),
        }
    }

    /// Executes a prepared block, and tells the clients so.
    fn execute_tentatively(&mut self, fx: &mut Fx<P::Types>) {
        let Some((block, view)) = self.tentative.take().filter(|_| !self.halted) else { return };
        let Some(frames) = self.payload.bodies(&block.id()).cloned() else { return };
        let (height, id) = (block.height(), block.id());
        match self.execution.execute_tentatively(height, block.view(), id, &frames) {
            Ok(outcomes) => {
                for (client, outcome) in outcomes.into_iter().flatten() {
                    let signature = Signature::NONE;
                    let response = Response::Tentative { view, outcome, signature };
                    fx.output(Action::Respond { client, response });
                }
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
        let Attested { root, state, block, evidence } = attested;
        let Some(evidence) = evidence else {
            let computed = match state {
                Some(height) => self.computed_at(root, height),
                None => self.computed(root, block.height()),
            };
            if !computed {
                let (height, id) = (block.height(), block.id());
                self.halt(Halt::StateRoot { height, block: id, theirs: root }, fx);
            }
            return;
        };
        let epoch = self.membership.latest().epoch();
        if let Some(offer) = self.snapshots.attest(epoch, root, Shown { block, evidence }) {
            fx.output(Action::Offered(Box::new(offer)));
        }
    }

    /// Whether a root that is attested at a height is one that this replica computed. Along a chain
    /// the roots attested are of ever later states, so only those from the last one found on count.
    /// A replica that took over a snapshot lately may not know the state it is of.
    fn computed(&mut self, root: Digest, below: Height) -> bool {
        let lowest = self.execution.lowest_root();
        let from = self.snapshots.shown().max(lowest).0;
        let mut heights = (from..below.0).rev().map(Height);
        match heights.find(|height| self.execution.root_at(*height) == Some(root)) {
            Some(height) => {
                self.snapshots.show(height);
                true
            }
            None => lowest > self.snapshots.shown(),
        }
    }

    /// Whether an attested root is the one that this replica computed at a height, as far as it
    /// remembers.
    fn computed_at(&mut self, root: Digest, height: Height) -> bool {
        self.snapshots.show(height);
        self.execution.root_at(height).is_none_or(|ours| ours == root)
    }

    /// Begins a snapshot whether blocks have shown the last one or not; if that is still being
    /// written, behind a later block.
    pub(super) fn want_snapshot(&mut self, fx: &mut Fx<P::Types>) {
        if self.snapshots.want() && self.protocol.roots_every() == 1 {
            self.take_snapshot(fx);
        }
    }

    /// Begins a snapshot of the state as it is.
    pub(super) fn take_snapshot(&mut self, fx: &mut Fx<P::Types>) {
        if self.epochs.sealed().is_some() {
            // The next epoch begins with one.
            return;
        }
        let id = self.execution.block_id();
        let Some(SnapshotBase { block, committed, recent }) = self.protocol.snapshot_base(&id)
        else {
            // Not the head: more is about to be executed, and the snapshot taken then.
            return;
        };
        let roots = self.execution.latest_roots(MAX_ROOTS);
        let handle = match self.execution.freeze() {
            Ok(handle) => handle,
            Err(error) => return self.halt(Halt::Execution(error), fx),
        };
        let meta = SnapshotMeta { block, committed, recent, roots };
        self.snapshots.begin(meta.clone());
        fx.output(Action::WriteSnapshot(Box::new(meta), Box::new(handle)));
    }

    pub(super) fn on_snapshot_written(&mut self, height: Height, fx: &mut Fx<P::Types>) {
        if let Some(offer) = self.snapshots.wrote(height) {
            fx.output(Action::Offered(Box::new(offer)));
        }
    }
}
