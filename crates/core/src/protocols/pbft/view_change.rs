//! View changes (section 4.4 of the paper; sets P and Q of its successor, section 4.5).

use super::choice::Chosen;
use super::order::Order;
use super::words::{Entry, NewView, SignedChange, ViewChange};
use super::{Fx, Pbft, Unsigned};
use crate::base::crypto::Signature;
use crate::base::types::{Time, View};
use crate::protocols::checkpoint::Stable;
use crate::protocols::protocol::{Event, Ledger};

/// A view is left for a single replica after so many first waits.
const MERCY: u32 = 16;

impl Pbft {
    /// Gives up on the current view: accepts, prepares and proposes nothing until the later one
    /// begins.
    pub(super) fn give_up(&mut self, to: View, fx: &mut Fx) {
        fx.event(Event::TimedOut(self.view));
        self.roll_back(fx);
        self.remember_chosen();
        (self.view, self.is_changing) = (to, true);
        self.order.chosen.clear();
        self.order.held.clear();
        self.behind = None;
        self.clock.failed();
        self.rate.ends();
        self.must_write = true;
        self.say_change(fx);
    }

    /// Says its view change: as it is now, what it rests on was written down before.
    pub(super) fn say_change(&mut self, fx: &mut Fx) {
        if self.abstains() {
            return;
        }
        let (prepared, pre_prepared) = self.known.sets();
        let stable = self.checkpoints.stable().cloned();
        let change = ViewChange { view: self.view, stable, prepared, pre_prepared };
        self.say(Unsigned::ViewChange(change), None, fx);
    }

    pub(super) fn on_change(&mut self, now: Time, signed: SignedChange, fx: &mut Fx) {
        if signed.change.view >= self.view {
            self.show_forgotten(now, &signed, fx);
            if let Some(stable) = signed.change.stable.clone() {
                self.raise_stable(stable);
            }
            self.changes.add(signed);
        }
    }

    /// Gives up, joins others who did, or begins a view, if it is time.
    pub(super) fn change_view(&mut self, now: Time, ledger: &mut dyn Ledger, fx: &mut Fx) {
        let joined = self.changes.joined(self.view, self.me);
        if let Some(view) = mutant!("pbft-no-join", None, joined) {
            self.give_up(view, fx);
        }
        let abstains = self.abstains();
        let forgot = self.awaits.is_some();
        let waits = self.is_changing || ledger.has_pending() || self.has_uncommitted() || forgot;
        let is_timed = !abstains
            && (!self.is_changing && waits
                || self.is_changing && self.changes.has_quorum(self.view));
        let lacks = self.behind.is_some() || !waits && self.others_committed_more();
        self.clock.set(now, waits || lacks, is_timed);
        self.watch_rate(now, ledger, fx);
        if self.clock.has_run_out(now) {
            self.give_up(self.view.next(), fx);
            self.clock.set(now, true, false);
        }
        if self.is_changing && !abstains && self.domain.primary(self.view) == self.me {
            self.begin_view(fx);
        }
    }

    /// What view changes lead to; `None` as long as they do not suffice.
    pub(super) fn choose(&self, changes: &[SignedChange]) -> Option<Chosen> {
        let chosen = Chosen::from(self.domain.committee(), self.genesis, changes);
        #[cfg(quorate_mutants)]
        let chosen = super::planted::choose(chosen, self.domain.committee(), self.genesis, changes);
        chosen
    }

    fn has_uncommitted(&self) -> bool {
        self.order.tip.0 > self.chain.head().height() || !self.order.held.is_empty()
    }

    /// The new primary begins its view, once q view changes say what with, and it has that.
    fn begin_view(&mut self, fx: &mut Fx) {
        let changes = self.changes.to(self.view);
        let Some(chosen) = self.choose(&changes) else { return };
        if let Some(stable) = chosen.stable.clone() {
            self.raise_stable(stable);
        }
        let lacks = |entry: &&Entry| self.lacks(entry);
        if let Some(last) = chosen.blocks.iter().rev().find(lacks) {
            return self.fetch(last.height, last.block, Vec::new());
        }
        let chosen = chosen.blocks.iter().map(|entry| entry.block).collect();
        self.say(Unsigned::NewView(NewView { view: self.view, changes, chosen }), None, fx);
    }

    /// The primary says what a view begins with: it must follow from the view changes.
    pub(super) fn on_new_view(
        &mut self,
        now: Time,
        new_view: NewView,
        signature: Signature,
        fx: &mut Fx,
    ) {
        let is_next = new_view.view > self.view || new_view.view == self.view && self.is_changing;
        if !is_next {
            return self.on_old_view(&new_view, fx);
        }
        let chosen = self.choose(&new_view.changes);
        let follows = |chosen: &Chosen| {
            chosen.blocks.iter().map(|entry| &entry.block).eq(new_view.chosen.iter())
        };
        let chosen = mutant!(
            "pbft-new-view-unchecked",
            chosen.map(|chosen| super::planted::believe(chosen, &new_view)),
            chosen.filter(follows),
        );
        match chosen {
            Some(chosen) => {
                self.enter(new_view, signature, chosen, fx);
                self.entered = Some(now);
            }
            // Only its primary can have signed this: another view is needed.
            None => self.give_up(new_view.view.next(), fx),
        }
    }

    /// Begins a view with what was chosen.
    fn enter(&mut self, new_view: NewView, signature: Signature, chosen: Chosen, fx: &mut Fx) {
        self.roll_back(fx);
        let Chosen { stable, blocks } = chosen;
        let (height, block) = match &stable {
            Some(Stable { checkpoint, .. }) => (checkpoint.height, checkpoint.block),
            None => (self.domain.committee().opening().height, self.genesis),
        };
        if let Some(stable) = stable {
            self.raise_stable(stable);
        }
        (self.view, self.is_changing) = (new_view.view, false);
        self.awaits.take_if(|awaited| *awaited <= new_view.view);
        let mut held = std::mem::take(&mut self.order.held);
        held.retain(|_, block| block.view() == self.view);
        let began_with = blocks.last().map_or(height, |entry| entry.height);
        self.order = Order { chosen: blocks.into(), began_with, held, ..Order::new(height, block) };
        self.behind = None;
        let Self { chain, known, order, .. } = self;
        chain.keep_above(|id| {
            known.contains(id) || order.chosen.iter().any(|entry| entry.block == *id)
        });
        self.changes.begin(new_view, signature);
        self.clock.entered();
        self.rate.ends();
        self.must_write = true;
        fx.event(Event::Entered(self.view));
    }

    /// This replica's view change was signed.
    pub(super) fn signed_change(&mut self, change: ViewChange, signature: Signature) {
        self.changes.add(SignedChange { from: self.me, change, signature });
    }

    /// The new view that this replica begins was signed. Says whether it still is to begin.
    pub(super) fn signed_new_view(
        &mut self,
        now: Time,
        new_view: &NewView,
        signature: Signature,
        fx: &mut Fx,
    ) -> bool {
        let is_next = new_view.view == self.view && self.is_changing;
        if is_next {
            self.on_new_view(now, new_view.clone(), signature, fx);
        }
        is_next
    }

    /// A replica that gave up alone, or lost its memory, cannot speak in the view that the others
    /// are in. They leave an old view for it, seldom enough that a liar gains nothing by it, and
    /// for the next one: no correct replica gives up on more than one view that did not begin, nor
    /// without a quorum.
    pub(super) fn have_mercy(&mut self, now: Time, view: View, fx: &mut Fx) {
        let most = self.view.plus(self.domain.committee().rotation() as u64);
        let is_old = self
            .entered
            .is_none_or(|entered| now.since(entered) >= self.settings.patience.base * MERCY);
        if !self.is_changing && view > self.view && view <= most && is_old {
            self.give_up(self.view.next(), fx);
        }
    }
}
