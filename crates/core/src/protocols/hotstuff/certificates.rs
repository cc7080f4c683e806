//! What a certificate leads to: a newer high QC, a lock, a commit, the next view.

use std::sync::Arc;

use super::state::Untold;
use super::{Fx, HotStuff, Message};
use crate::base::types::{Duration, ReplicaId, Time, View};
use crate::ledger::block::BlockId;
use crate::protocols::hotstuff::block::SharedBlock;
use crate::protocols::hotstuff::certificate::{Qc, Tc};
use crate::protocols::hotstuff::pacemaker::End;
use crate::protocols::hotstuff::rules::Outcome;
use crate::protocols::hotstuff::tree::Misfit;
use crate::protocols::protocol::{Attested, Decision, Event, Output, Record};

impl HotStuff {
    /// The highest view that `qc` puts an end to: its own, if it is of the last phase.
    pub(super) fn ended_by(&self, qc: &Qc) -> View {
        match qc.view() {
            view if view == View(0) || qc.phase() >= self.facts().phases => view,
            view => View(view.0 - 1),
        }
    }

    /// The highest view that the certificates of this replica put an end to.
    pub(super) fn best_ended(&self) -> View {
        let by_tc = self.safety.high_tc.as_ref().map(Tc::view).unwrap_or_default();
        by_tc.max(self.ended_by(&self.safety.high_qc))
    }

    /// Takes in certificates that were verified, from a peer.
    pub(super) fn on_certificates(
        &mut self,
        now: Time,
        from: ReplicaId,
        qc: Qc,
        tc: Option<Tc>,
        fx: &mut Fx,
    ) {
        self.on_qc(now, qc, fx);
        if let Some(tc) = tc {
            self.on_tc(now, Some(from), tc, fx);
        }
    }

    /// q votes made a certificate here.
    pub(super) fn on_certified(&mut self, now: Time, qc: Qc, fx: &mut Fx) {
        fx.event(Event::Certified(qc.ballot()));
        // Others that make one, of votes in time-outs, tell of it when they tell of the time-outs.
        if self.facts().phases > 1 && self.proposer_of(&qc.ballot()) == self.me {
            fx.output(Output::Broadcast(Message::Certificate(qc.clone())));
        }
        let next = qc.view().next();
        let told = self.facts().phases > 1 || self.settings.broadcast_votes;
        self.on_qc(now, qc, fx);
        // No proposal of its own will tell the others of this certificate.
        if !told
            && next == self.pacemaker.view()
            && (self.abstains(next) || self.proposals.proposed >= next)
        {
            fx.output(Output::Broadcast(self.advance()));
        }
    }

    pub(super) fn on_qc(&mut self, now: Time, qc: Qc, fx: &mut Fx) {
        if self.decides(&qc) {
            self.decisions.certify(&qc);
        }
        let ended = self.ended_by(&qc);
        let (rank, known) = (qc.rank(), self.safety.high_qc.rank());
        if mutant!("high-qc-reversed", rank < known, rank > known) {
            // A certificate counts even if its block is missing: keep the one, fetch the other.
            self.safety.high_qc = qc.clone();
            if let Some(proposer) = self.tree.get(&qc.block()).map(|block| block.proposer) {
                self.pacemaker.praise(proposer);
            }
            self.safety.high_tc.take_if(|tc| tc.view() <= ended);
            self.vote_again(&qc, fx);
        }
        self.apply_rules(&qc, fx);
        if !self.enter_behind(now, ended, End::Certified, fx) && !self.entered_by_tc() {
            self.pacemaker.allow(now, Duration::ZERO);
        }
    }

    /// Whether a certificate commits its block by itself: one of the last of several phases.
    pub(super) fn decides(&self, qc: &Qc) -> bool {
        self.facts().phases > 1 && qc.phase() == self.facts().phases
    }

    /// Enters the view behind a certificate of `ended`, if that is a step forward.
    pub(super) fn enter_behind(&mut self, now: Time, ended: View, how: End, fx: &mut Fx) -> bool {
        let view = ended.next();
        if view <= self.pacemaker.view() {
            return false;
        }
        self.blame_for(ended, how);
        let high_qc = self.safety.high_qc.clone();
        self.hold_election(&high_qc, view);
        self.hold_election(&high_qc, view.next());
        let leader = self.leader(view);
        let collector = if self.collects_next() { self.leader(view.next()) } else { leader };
        let entered = self.pacemaker.certified(now, ended, how, [leader, collector]);
        if entered {
            fx.event(Event::Entered(view));
            self.collecting.votes.forget_below(ended);
            self.wait_for_new_views(now);
        }
        entered
    }

    /// Takes in a time-out certificate, from a peer or (`None`) made here.
    pub(super) fn on_tc(&mut self, now: Time, from: Option<ReplicaId>, tc: Tc, fx: &mut Fx) {
        self.on_qc(now, tc.high_qc().clone(), fx);
        if tc.view() <= self.best_ended() {
            return;
        }
        let view = tc.view();
        self.safety.high_tc = Some(tc);
        fx.event(Event::GaveUp(view));
        self.enter_behind(now, view, End::GivenUp, fx);
        self.new_views.tell_later(Untold { ended: view, tc_from: from });
    }

    /// Blames whom this replica waited for in vain in its view: the leader, or, if that had its
    /// vote, who was to collect it. (A certificate of votes that came in time-outs is not the
    /// collector's.)
    fn blame_for(&mut self, view: View, how: End) {
        if view != self.pacemaker.view() || how == End::Certified && !self.pacemaker.gave_up() {
            return;
        }
        let voted = self.safety.voted.filter(|ballot| ballot.view == view);
        let collector = voted.and_then(|ballot| self.collector(&ballot));
        let leader = (how == End::GivenUp).then(|| self.leader(view));
        if let Some(blamed) = collector.or(leader) {
            self.pacemaker.blame(blamed);
        }
    }

    /// Lock and commit, by the variant's rules.
    pub(super) fn apply_rules(&mut self, qc: &Qc, fx: &mut Fx) {
        let Outcome { lock, commit } = self.settings.rules.on_qc(&self.tree, qc);
        if let Some(lock) = lock
            && mutant!("lock-never-updated", false, lock.rank() > self.safety.lock.rank())
        {
            self.safety.lock = lock;
        }
        if let Some(head) = commit {
            self.commit(&head, fx);
        }
    }

    /// Commits `head` and its ancestors, if it is in the tree above the root.
    pub(super) fn commit(&mut self, head: &BlockId, fx: &mut Fx) {
        let mut parent = Arc::clone(self.tree.root());
        let (committed, pruned) = self.tree.commit(head);
        let Some(head) = committed.last() else { return };
        self.pacemaker.committed(head.view);
        fx.event(Event::Committed { height: head.height, view: head.view, block: head.id() });
        if !pruned.is_empty() {
            fx.event(Event::Pruned(pruned.len()));
        }
        self.proposals.drop_old_orphans(self.tree.root());
        let mut decisions = Vec::with_capacity(3 * committed.len());
        for block in committed {
            // A block's justify certifies its parent, and with it the state root in the parent.
            let (root, evidence) = (parent.state_root, Some(block.justify.clone()));
            decisions.push(Decision::Root(Attested { root, state: None, block: parent, evidence }));
            let (root, evidence) = (block.state_root, None);
            let attested = Attested { root, state: None, block: Arc::clone(&block), evidence };
            decisions.extend([Decision::Root(attested), Decision::Block(Arc::clone(&block))]);
            parent = block;
        }
        fx.output(Output::Commit(decisions));
    }

    /// Enters a block whose justify was verified into the tree, with all that its justify and the
    /// certificates waiting for it lead to.
    pub(super) fn enter_block(
        &mut self,
        now: Time,
        block: &SharedBlock,
        fx: &mut Fx,
    ) -> Result<(), Misfit> {
        let rules = self.settings.rules;
        self.tree.insert(block, |tree, qc| {
            let commit = rules.on_qc(tree, qc).commit?;
            tree.find(&commit).map(|head| head.height)
        })?;
        self.on_qc(now, block.justify.clone(), fx);
        if self.safety.high_qc.block() == block.id() {
            let high_qc = self.safety.high_qc.clone();
            self.apply_rules(&high_qc, fx);
        }
        let decided = self.decisions.certificate().filter(|qc| qc.block() == block.id());
        if let Some(decided) = decided.cloned() {
            self.apply_rules(&decided, fx);
        }
        self.commit_if_told(&block.id(), fx);
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
            while let Some((child, tc)) = self.proposals.take_child_of(&parent) {
                if self.admit_one(now, &child, fx).is_ok() {
                    parents.push(child.id());
                    if child.view == self.pacemaker.view() {
                        self.proposals.wait_for_root(child.id(), tc);
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
}
