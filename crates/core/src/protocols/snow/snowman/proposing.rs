//! Proposing blocks, in turns.

use std::sync::Arc;

use super::pace::Turn;
use super::words::{Content, Message};
use super::{Fx, Snowman};
use crate::base::types::{Height, Time, View};
use crate::ledger::block::Block;
use crate::protocols::protocol::{Event, Ledger, Output};

impl Snowman {
    /// Extends the preferred chain by what waits, if it is this replica's turn.
    pub(super) fn propose(&mut self, now: Time, ledger: &mut dyn Ledger, fx: &mut Fx) {
        self.turn.due = None;
        if !ledger.has_pending() {
            self.turn = Turn::default();
            return;
        }
        let preferred = self.tree.preferred();
        let head = self.accepted.head();
        let (parent, height) = preferred
            .last()
            .map_or((head.id(), head.height().next()), |tip| (tip.id(), tip.height().next()));
        let since = match self.turn.of {
            Some((block, since)) if block == parent => since,
            _ => {
                self.turn = Turn { of: Some((parent, now)), due: None, is_open: true };
                now
            }
        };
        let may = preferred.len() < self.settings.under_way as usize
            && self.turn.is_open
            && self.tree.child_by(&parent, self.me).is_none()
            && !self.is_behind();
        if !may {
            return;
        }
        let due = since.after(self.settings.window * self.domain.turn(&parent, self.me));
        if now < due {
            self.turn.due = Some(due);
            return;
        }
        self.turn.is_open = false;
        let executed = ledger.executed();
        let above = executed.next().0..=head.height().0;
        let unexecuted = above.filter_map(|height| self.accepted.at(Height(height)));
        let ancestors: Vec<_> = unexecuted.chain(&preferred).cloned().collect();
        let taken = ancestors.iter().flat_map(|block| block.frames().iter().copied());
        let frames = ledger.payload(&mut taken.into_iter());
        if frames.is_empty() {
            return;
        }
        let stable = self.checkpoints.stable().filter(|stable| {
            let said = ancestors.iter().filter_map(|block| block.stable.as_ref());
            let said = said.map(|stable| stable.checkpoint.height).max().max(Some(self.said));
            Some(stable.checkpoint.height) > said
        });
        let (epoch, proposer) = (self.domain.committee().epoch(), self.me);
        let stable = stable.filter(|stable| stable.checkpoint.height < height).cloned();
        let content = Content { epoch, height, parent, proposer, stable, frames };
        let block = Arc::new(Block::new(content));
        if self.take(&block, fx) {
            let (view, frames) = (View(0), block.frames.len());
            fx.event(Event::Proposed { view, block: block.id(), frames });
            fx.output(Output::Broadcast(Message::Push(block)));
        }
    }
}
