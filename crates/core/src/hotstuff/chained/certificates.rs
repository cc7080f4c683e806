//! What a certificate leads to: a newer high QC, a lock, a commit, the next view.

use std::sync::Arc;

use super::{Chained, Fx};
use crate::block::{BlockId, SharedBlock};
use crate::certificate::{Qc, Tc};
use crate::hotstuff::rules::{Outcome, Rules};
use crate::protocol::{Event, Output, Record};
use crate::tree::Misfit;
use crate::types::{Time, View};

impl<R: Rules> Chained<R> {
    /// Takes in certificates that were verified.
    pub(super) fn on_certificates(&mut self, now: Time, qc: Qc, tc: Option<Tc>, fx: &mut Fx) {
        self.on_qc(now, qc, fx);
        if let Some(tc) = tc {
            self.on_tc(now, tc, fx);
        }
    }

    pub(super) fn on_qc(&mut self, now: Time, qc: Qc, fx: &mut Fx) {
        if qc.view() > self.safety.high_qc.view() {
            // A certificate counts even if its block is missing: keep the one, fetch the other.
            self.safety.high_qc = qc.clone();
            self.pacemaker.judge(qc.view(), true);
            if self.safety.high_tc.as_ref().is_some_and(|tc| tc.view() <= qc.view()) {
                self.safety.high_tc = None;
            }
        }
        self.apply_rules(&qc, fx);
        self.enter_behind(now, qc.view(), fx);
    }

    /// Enters the view behind a certificate of `certified`, if that is a step forward.
    fn enter_behind(&mut self, now: Time, certified: View, fx: &mut Fx) -> bool {
        let entered = self.pacemaker.certified(now, certified);
        if entered {
            fx.event(Event::Entered(self.pacemaker.view()));
            self.votes.forget_below(certified);
        }
        entered
    }

    pub(super) fn on_tc(&mut self, now: Time, tc: Tc, fx: &mut Fx) {
        self.on_qc(now, tc.high_qc().clone(), fx);
        let highest =
            self.safety.high_tc.as_ref().map(Tc::view).max(Some(self.safety.high_qc.view()));
        if Some(tc.view()) <= highest {
            return;
        }
        let view = tc.view();
        self.safety.high_tc = Some(tc);
        self.pacemaker.judge(view, false);
        fx.event(Event::GaveUp(view));
        if self.enter_behind(now, view, fx) {
            // Forwarded once: were it held by one replica alone, the next leader could not enter.
            let next = self.leader(view.next());
            if next != self.me {
                fx.output(Output::Send { to: next, message: self.advance() });
            }
        }
    }

    /// Lock and commit, by the variant's rules.
    pub(super) fn apply_rules(&mut self, qc: &Qc, fx: &mut Fx) {
        let Outcome { lock, commit } = R::on_qc(&self.tree, qc);
        if let Some(lock) = lock
            && lock.view() > self.safety.lock.view()
        {
            self.safety.lock = lock;
        }
        let Some(head) = commit else { return };
        let (committed, pruned) = self.tree.commit(&head);
        let Some(head) = committed.last() else { return };
        self.pacemaker.committed(head.view);
        fx.event(Event::Committed { height: head.height, view: head.view, block: head.id() });
        if !pruned.is_empty() {
            fx.event(Event::Pruned(pruned.len()));
        }
        self.drop_old_orphans();
        fx.output(Output::Commit(committed));
    }

    /// Orphans whose parent can only be at or below the committed head will find none.
    pub(super) fn drop_old_orphans(&mut self) {
        let root = self.tree.root().view;
        for last in &mut self.proposals {
            last.orphan.take_if(|orphan| {
                orphan.justify.view() <= root && orphan.parent() != self.tree.root().id()
            });
        }
    }

    /// Enters a block whose justify was verified into the tree, with all that its justify and the
    /// certificates waiting for it lead to.
    pub(super) fn enter_block(
        &mut self,
        now: Time,
        block: &SharedBlock,
        fx: &mut Fx,
    ) -> Result<(), Misfit> {
        self.tree.insert(block, |tree, qc| {
            let commit = R::on_qc(tree, qc).commit?;
            tree.find(&commit).map(|head| head.height)
        })?;
        self.on_qc(now, block.justify.clone(), fx);
        if self.safety.high_qc.block() == block.id() {
            let high_qc = self.safety.high_qc.clone();
            self.apply_rules(&high_qc, fx);
        }
        Ok(())
    }

    /// Enters a new block, to be recorded, and then those that waited for it.
    pub(super) fn admit_block(
        &mut self,
        now: Time,
        block: &SharedBlock,
        fx: &mut Fx,
    ) -> Result<(), Misfit> {
        self.admit_one(now, block, fx)?;
        let mut parents = vec![block.id()];
        while let Some(parent) = parents.pop() {
            while let Some(child) = self.take_child_of(&parent) {
                if self.admit_one(now, &child, fx).is_ok() {
                    parents.push(child.id());
                    if child.view == self.pacemaker.view() {
                        self.vote_waits = Some(child.id());
                    }
                }
            }
        }
        Ok(())
    }

    fn admit_one(&mut self, now: Time, block: &SharedBlock, fx: &mut Fx) -> Result<(), Misfit> {
        self.enter_block(now, block, fx)?;
        fx.record(Record::Block(Arc::clone(block)));
        Ok(())
    }

    fn take_child_of(&mut self, parent: &BlockId) -> Option<SharedBlock> {
        let is_child = |orphan: &mut SharedBlock| orphan.parent() == *parent;
        self.proposals.iter_mut().find_map(|last| last.orphan.take_if(is_child))
    }
}
