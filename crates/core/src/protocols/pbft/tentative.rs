//! Tentative execution (section 5.1.2 of the paper).
//!
//! # The rule
//! A block is executed when it is prepared in the current view and its parent is committed. The
//! answers name the view. When the block is committed, the replica answers once more, as without
//! the option. When the replica gives up on the view, it comes back to the committed state.
//!
//! # Why the client may believe n - f equal answers of one view
//! A correct replica that answers has prepared the block in that view, and written that down before
//! it answered; it has committed all blocks below. n - f replicas of which f lie say no less by
//! that than n - f COMMITs do. So the block is committed, every later view begins with it, and its
//! outcome is the one that was told. Answers of different views prove nothing: the block may have
//! been prepared by few in each, and another one chosen in between.
//!
//! # What it does not change
//! Checkpoints, snapshots, proofs and answers to questions are of committed states
//! ([`execution`](crate::ledger::execution)). There is one tentative block at most, so the pipeline
//! goes on while it is there. What a replica writes down, and when, is the same.

use super::{Fx, Pbft};
use crate::protocols::protocol::Output;

impl Pbft {
    /// Has the next block executed tentatively, once it is prepared.
    pub(super) fn run_ahead(&mut self, fx: &mut Fx) {
        if !self.settings.tentative || self.is_changing {
            return;
        }
        let (head, view) = (self.chain.head(), self.view);
        let next = head.height().next();
        let prepared = self.known.prepared_in(view, next).and_then(|id| self.chain.get(&id));
        let Some(block) = prepared.filter(|block| block.parent() == head.id()) else { return };
        if self.order.prepared >= next && self.ahead != Some((view, block.id())) {
            self.ahead = Some((view, block.id()));
            fx.output(Output::Prepared { block: block.clone(), view });
        }
    }

    /// Nothing that was executed tentatively is to stay.
    pub(super) fn roll_back(&mut self, fx: &mut Fx) {
        if self.ahead.take().is_some() {
            fx.output(Output::RollBack);
        }
    }
}
