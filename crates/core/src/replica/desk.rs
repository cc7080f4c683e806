//! What the protocol may read of the replica around it.

use std::cell::Cell;
use std::collections::BTreeSet;

use super::ahead::Ahead;
use super::interface::{Dissemination, Settings};
use super::proofs::{UNFIT, proofs_of};
use crate::base::membership::Committee;
use crate::base::types::{Digest, Height, Time};
use crate::ledger::execution::Execution;
use crate::ledger::frame::{Frame, FrameId, SharedFrame};
use crate::ledger::mempool::Mempool;
use crate::ledger::state_machine::StateMachine;
use crate::protocols::protocol::Ledger;

/// What the protocol may read of the replica around it.
pub(super) struct Desk<'a, S> {
    pub(super) now: Time,
    pub(super) mempool: &'a Mempool,
    pub(super) ahead: &'a Ahead,
    pub(super) committee: &'a Committee,
    pub(super) execution: &'a Execution<S>,
    pub(super) settings: &'a Settings,
    /// The height of the sealed state, if the epoch is sealed.
    pub(super) sealed: Option<Height>,
    /// Nothing is proposed, but the protocol goes on as if there were something to order.
    pub(super) is_mute: bool,
    pub(super) root_wanted: Option<Height>,
    /// The frames handed out for a block.
    pub(super) batch: Vec<SharedFrame>,
    /// Until when the first of the frames waits that a block was made without, since no quorum is
    /// known to hold them.
    pub(super) put_off: Option<Option<Time>>,
}

impl<S> Desk<'_, S> {
    /// Until when a frame is put off. It travels ahead, and no quorum is known to hold it yet.
    fn waits_until(&self, id: &FrameId) -> Option<Time> {
        if self.settings.dissemination == Dissemination::Direct {
            return None;
        }
        let until = self.mempool.passed_on_at_once(id)?.after(self.settings.relay_after);
        let is_ready =
            self.now >= until || self.ahead.is_spread(id, self.settings.me, self.committee, true);
        (!is_ready).then_some(until)
    }
}

impl<S: StateMachine> Ledger for Desk<'_, S> {
    fn has_pending(&self) -> bool {
        self.is_mute || !self.mempool.is_empty() && self.sealed.is_none()
    }

    fn payload(&mut self, ancestors: &mut dyn Iterator<Item = FrameId>) -> Vec<FrameId> {
        if self.is_mute {
            return Vec::new();
        }
        let filters = mutant!("frames-proposed-twice", false, self.settings.filtering);
        let governed = self.execution.members().committee();
        let ancestors: BTreeSet<_> = ancestors.filter(|_| filters || governed.is_some()).collect();
        if let Some(current) = governed {
            let frames = ancestors.iter().filter_map(|id| self.mempool.get(id));
            if self.sealed.is_some() || frames.into_iter().any(|frame| frame.may_seal(current)) {
                // What stands above a sealing block never enters the log.
                return Vec::new();
            }
        }
        let taken = if filters { ancestors } else { BTreeSet::new() };
        let Settings { batch_commands, batch_bytes, .. } = *self.settings;
        let (is_taken, put_off) = (|id: &FrameId| taken.contains(id), Cell::new(None));
        let proofs_of = |frame: &Frame| {
            let waits_until = self.waits_until(&frame.id());
            put_off.set(put_off.get().into_iter().chain(waits_until).min());
            // No unfit one gets into an honest mempool; others would refuse the block.
            let proofs = waits_until.is_none().then(|| proofs_of(frame, self.committee));
            proofs.filter(|proofs| *proofs != UNFIT)
        };
        let most = (batch_commands, batch_bytes);
        let batch = self.mempool.ready_batch(&is_taken, &proofs_of, most.0, most.1);
        (self.batch, self.put_off) = (batch, Some(put_off.get()));
        self.batch.truncate(crate::ledger::block::MAX_FRAMES);
        self.batch.iter().map(|frame| frame.id()).collect()
    }

    fn executed(&self) -> Height {
        self.execution.height()
    }

    fn state_root(&self, height: Height) -> Option<Digest> {
        // Void blocks change nothing.
        self.execution.root_at(self.sealed.map_or(height, |sealed| sealed.min(height)))
    }

    fn root_wanted(&self) -> Option<Height> {
        self.root_wanted
    }
}
