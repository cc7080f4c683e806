//! When a leader proposes, and what; and what becomes of others' proposals.

use std::sync::Arc;

use super::{Fx, HotStuff, Message};
use crate::base::types::{Duration, Time, View};
use crate::ledger::block::BlockId;
use crate::ledger::frame::FrameId;
use crate::protocols::hotstuff::block::{Block, Content, SharedBlock};
use crate::protocols::hotstuff::certificate::{Qc, Tc};
use crate::protocols::hotstuff::tree::Misfit;
use crate::protocols::protocol::{Event, Ledger, Output, Record};

/// With more blocks than this above the committed head (a long time without three consecutive
/// views) leaders propose empty blocks only, so that the tree holds no more payload.
const MAX_UNCOMMITTED: usize = 64;

/// For what part of the wait for its view an empty block is put off, while second votes tell all of
/// the commit that it would show ...
const PUT_OFF_PART: u32 = 32;
/// ... at the most, as other replicas may wait less.
const LONGEST_PUT_OFF: Duration = Duration::from_millis(10);

impl HotStuff {
    pub(super) fn on_proposal(
        &mut self,
        now: Time,
        block: &SharedBlock,
        tc: Option<Tc>,
        ledger: &mut dyn Ledger,
        fx: &mut Fx,
    ) {
        self.on_certificates(now, block.proposer, block.justify.clone(), tc.clone(), fx);
        let Some(last) = self.proposals.last_of(block.proposer) else { return };
        if mutant!("two-votes-in-view", false, last.contradicts(block)) {
            let (proposer, view) = (block.proposer, block.view);
            fx.event(Event::Equivocation { proposer, view });
            return;
        }
        // Its proposer could make such blocks without end. One that is needed is certified: it is
        // wanted, or will be fetched.
        if last.is_beyond(block) && !self.is_wanted(&block.id()) {
            return;
        }
        if let Some(last) = self.proposals.last_of(block.proposer) {
            last.note(block);
        }
        match self.admit_block(now, block, fx) {
            Ok(()) | Err(Misfit::Known) => self.consider_vote(block, tc, ledger, fx),
            Err(Misfit::Orphan) => self.proposals.keep_orphan(block, tc),
            Err(Misfit::BelowRoot | Misfit::Contradiction) => {}
        }
    }

    /// Whether this replica lacks the block and needs it, or has it.
    fn is_wanted(&self, block: &BlockId) -> bool {
        let is_missing = self.missing_of().is_some_and(|qc| qc.block() == *block);
        is_missing || self.tree.get(block).is_some()
    }

    pub(super) fn on_fetched(
        &mut self,
        now: Time,
        block: &SharedBlock,
        _ledger: &mut dyn Ledger,
        fx: &mut Fx,
    ) {
        // Fetched blocks are certified: a quorum got this one from its proposer, and this replica
        // another of the same view.
        let last = self.proposals.last_of(block.proposer);
        if last.is_some_and(|last| last.contradicts(block)) {
            let (proposer, view) = (block.proposer, block.view);
            fx.event(Event::Equivocation { proposer, view });
        }
        // What does not fit its parent is no help; if it is still missing, the next peer is asked.
        let _ = self.admit_block(now, block, fx);
    }

    /// The TC by which `view` may be entered with this high QC, if one is needed.
    pub(super) fn tc_to_enter(&self, view: View, high_qc: &Qc) -> Option<Tc> {
        if self.ended_by(high_qc).next() == view {
            return None;
        }
        self.safety.high_tc.clone().filter(|tc| tc.view().next() == view)
    }

    /// How this leader enters its view: the certificate to extend, and the TC if one is needed.
    /// `None` while it may not propose.
    fn entry(&self, view: View) -> Option<(Qc, Option<Tc>)> {
        let high_qc = &self.safety.high_qc;
        let tc = self.tc_to_enter(view, high_qc);
        let entered = match &tc {
            None => self.ended_by(high_qc).next() == view,
            // What time-outs carry may make a certificate that needs no TC.
            Some(_) => self.heard_enough() && !self.is_certifying(),
        };
        entered.then(|| (self.settings.rules.justify(high_qc, tc.as_ref()), tc))
    }

    /// Proposes, if this replica leads the view, has not done so in it, and there is something to
    /// say: commands to order, a commit that the others have not been told of, or a state root that
    /// somebody waits for.
    ///
    /// `reserved` is the highest view that the record on the disk has reserved for a proposal.
    pub(super) fn propose_if_due(
        &mut self,
        now: Time,
        reserved: View,
        ledger: &mut dyn Ledger,
        fx: &mut Fx,
    ) {
        let view = self.pacemaker.view();
        // What costs least is asked first: elections by history walk down the chain.
        if self.proposals.proposed >= view
            || self.safety.timed_out >= view
            || mutant!("abstention-ignored", false, self.abstains(view))
            || self.leader(view) != self.me
        {
            return;
        }
        let Some((justify, tc)) = self.entry(view) else { return };
        // A parent that is missing is being fetched.
        let Some(parent) = self.tree.get(&justify.block()).cloned() else { return };
        let Some(state_root) =
            self.tree.committed_by(&parent.id()).and_then(|height| ledger.state_root(height))
        else {
            return;
        };
        let is_deep = self.tree.uncommitted() > MAX_UNCOMMITTED;
        let frames = if is_deep { Vec::new() } else { self.payload_above(&parent.id(), ledger) };
        // Who waits for a root is told of its certificate by the block behind the one that carries
        // it.
        let told = self.tree.root_certified(&parent.id()) >= ledger.root_wanted();
        let can_wait = told && frames.is_empty();
        if can_wait && !self.has_news_of_commit(&parent, &justify) {
            return;
        }
        // The blocks behind one that was put off follow at once.
        let is_first = tc.is_none() && !parent.is_empty() && !is_deep;
        if can_wait && is_first && self.puts_off(now, view) {
            return;
        }
        let block = Arc::new(Block::new(Content {
            epoch: self.domain.committee().epoch(),
            view,
            height: parent.height.next(),
            proposer: self.me,
            justify,
            state_root,
            frames,
        }));
        if self.enter_block(now, &block, fx).is_err() {
            return;
        }
        self.proposals.proposed = view;
        fx.event(Event::Proposed { view, block: block.id(), frames: block.frames.len() });
        let proposal =
            Output::Broadcast(Message::Proposal { block: Arc::clone(&block), tc: tc.clone() });
        if mutant!("proposal-before-persist", true, reserved >= view) {
            fx.early(proposal);
        } else {
            self.safety.reserved = self.safety.reserved.max(view);
            self.said.write_first();
            fx.output(proposal);
        }
        fx.record(Record::Block(Arc::clone(&block)));
        self.consider_vote(&block, tc, ledger, fx);
    }

    /// The frames for a block on `parent`: none that a block below it holds. A block
    /// that was committed in this very step still has its frames in the mempool.
    fn payload_above(&self, parent: &BlockId, ledger: &mut dyn Ledger) -> Vec<FrameId> {
        let ancestors = self.tree.blocks_above(ledger.executed(), parent);
        ledger.payload(&mut ancestors.flat_map(|block| block.frames.iter().copied()))
    }

    /// Whether the empty block of `view` is put off, as second votes are telling all of what it
    /// would show. Most often commands come first and take its place; if not, it follows all the
    /// same: whoever got too few second votes learns of the commit by it, and a decision is proven
    /// by the chain behind it to those who were not there.
    fn puts_off(&mut self, now: Time, view: View) -> bool {
        if !self.settings.second_vote {
            return false;
        }
        let pause = LONGEST_PUT_OFF.min(self.pacemaker.wait() / PUT_OFF_PART);
        self.proposals.puts_off(view, now.after(pause))
    }

    /// Whether a child of `parent` would tell the others something: commands stand in its chain
    /// above what that chain shows to be committed. Where the leader of a view tells all of its
    /// last certificate, that has been told.
    fn has_news_of_commit(&self, parent: &SharedBlock, justify: &Qc) -> bool {
        if self.facts().phases > 1 && justify.phase() == self.facts().phases {
            return false;
        }
        let Some(shown) = self.tree.committed_by(&parent.id()) else { return false };
        self.tree.above(shown, &parent.id()).any(|block| !block.is_empty())
    }
}
