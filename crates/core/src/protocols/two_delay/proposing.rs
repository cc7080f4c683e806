//! When a leader proposes, and what.

use std::sync::Arc;

use super::words::{Content, Types};
use super::{Fx, TwoDelay};
use crate::base::crypto::Signature;
use crate::ledger::block::Block;
use crate::protocols::protocol::{BlockOf, Event, Ledger, Record};

/// Above so many blocks that are not committed, leaders propose empty ones: commands would only
/// wait there.
const MAX_UNCOMMITTED: usize = 64;

impl TwoDelay {
    /// Whether somebody waits for a root that no committed block attests.
    fn owes_root(&self, ledger: &dyn Ledger) -> bool {
        ledger.root_wanted().is_some_and(|wanted| wanted > self.attested)
    }

    /// Whether there is something to wait for.
    pub(super) fn is_busy(&self, ledger: &dyn Ledger) -> bool {
        let firsts = self.heard.firsts(self.view);
        let others = firsts.iter().filter(|(voter, _)| *voter != self.me).count();
        ledger.has_pending()
            || self.owes_root(ledger)
            || self.has_commands()
            || others >= self.domain.committee().honest_witness()
    }

    /// Whether a block with commands is not known to be committed.
    fn has_commands(&self) -> bool {
        let certified = &self.memory.high_qc;
        certified.view > self.chain.head().view() && self.chain.has_commands(&certified.block)
            || self.proposal.as_ref().is_some_and(|block| !block.is_empty())
    }

    /// Proposes in its view, if it has reason to and has not said anything in it.
    pub(super) fn propose(&mut self, ledger: &mut dyn Ledger, fx: &mut Fx) {
        let leads = self.domain.leader(self.view) == self.me && self.speaks();
        if !leads || self.has_voted() {
            return;
        }
        let Some(parent) = self.parent() else { return };
        let executed = ledger.executed();
        if executed != self.chain.head().height() {
            return;
        }
        let Some(state_root) = ledger.state_root(executed) else { return };
        let Some(Ok(path)) = self.chain.path(&parent.id()) else { return };
        let mut held = path.iter().flat_map(|block| block.frames.iter().copied());
        let is_deep = self.chain.uncommitted() > MAX_UNCOMMITTED;
        let frames = if is_deep { Vec::new() } else { ledger.payload(&mut held) };
        let owes = self.owes_root(ledger) && executed > self.attested;
        let fills = self.clock.may_fill() && self.has_commands();
        if frames.is_empty() && !owes && !fills {
            return;
        }
        let block = Arc::new(Block::new(Content {
            epoch: self.domain.committee().epoch(),
            view: self.view,
            height: parent.height().next(),
            justify: self.memory.high_qc.clone(),
            tc: self.memory.tc.clone(),
            root_of: executed,
            state_root,
            frames,
        }));
        let (view, frames) = (self.view, block.frames.len());
        fx.event(Event::Proposed { view, block: block.id(), frames });
        fx.record(Record::Block(Arc::clone(&block)));
        self.chain.insert(&block);
        self.proposal = Some(Arc::clone(&block));
        self.say_first(Some((block.id(), Signature::NONE)), fx);
    }

    /// The block to extend: that of the highest QC, which its own view or the TC of the view before
    /// justifies.
    fn parent(&self) -> Option<BlockOf<Types>> {
        let high_qc = &self.memory.high_qc;
        let parent = self.chain.get(&high_qc.block).cloned()?;
        let is_justified = match &self.memory.tc {
            None => high_qc.view.next() == self.view,
            Some(tc) => tc.view.next() == self.view && high_qc.view >= tc.high(),
        };
        is_justified.then_some(parent)
    }
}
