//! What a backup sees of its primary's [rate](super::rate).

use super::{Fx, Pbft};
use crate::base::types::Time;
use crate::protocols::protocol::{Event, Ledger, Output};

impl Pbft {
    /// Watches the rate of the primary, and gives it up if it is too slow.
    pub(super) fn watch_rate(&mut self, now: Time, ledger: &dyn Ledger, fx: &mut Fx) {
        let (head, tip) = (self.chain.head().height(), self.order.tip.0);
        let ordered = match self.is_changing {
            true => head,
            false if tip > head => tip,
            // Others may have what is not here.
            false => self.ordered().first().map_or(head, |vote| vote.height),
        };
        let (view, leader) = (self.view, self.domain.primary(self.view));
        let is_judged = !self.is_changing && self.awaits.is_none() && leader != self.me;
        let owes = is_judged
            && ordered <= head
            && head < self.high()
            && ledger.has_pending()
            && ledger.executed() == head
            && self.order.chosen.is_empty()
            && self.behind.is_none();
        self.rate.observe(now, ordered, head, owes);
        let passes_on = self.rate.passes_on(now);
        if planted!("frames-not-passed-on", false, passes_on) {
            fx.output(Output::PassOn { to: leader });
        }
        if is_judged && self.rate.is_too_slow() {
            fx.event(Event::TooSlow { view, leader });
            self.rate.blames();
            self.give_up(view.next(), fx);
            self.clock.set(now, true, false);
        }
    }
}
