//! What a replica may forget of the blocks that it pre-prepared.
//!
//! The set Q grows with each view that orders another block at a height, and nothing bounds the
//! views. So a replica remembers [`MAX_PRE_PREPARED`](super::words::MAX_PRE_PREPARED) blocks of a
//! height, the latest ones. But Q entries are what the choice rests on (condition A2): say that a
//! correct replica A prepared b in view v, and was away since. The f + 1 correct replicas that
//! pre-prepared b have to vouch for it. If one of them forgot b, and no faulty replica speaks, b
//! can neither be chosen nor be left out, in no later view.
//!
//! No count of entries that is fixed beforehand is enough, and neither is the word of who forgot: a
//! liar would say the same of a block that is committed. So who forgets keeps a proof.
//!
//! # The rule
//! A replica forgets a block only in a view k > v that it entered, and it writes down the NEW-VIEW
//! that it entered with ([`Forgotten`]). It lets the earliest block of the height go. That one it
//! pre-prepared before k, and k began without it, for the block accepted in k is another one.
//! - **A new view rules blocks out.** What k did not choose above its stable checkpoint was not
//!   committed before k, else any q view changes would have led to it. So who sees the NEW-VIEW may
//!   drop such blocks of earlier views from P: no commit rests on them. A checks q view changes and
//!   the choice, as if it entered.
//! - **It is shown to whoever prepared such a block**, as soon as the view change says so. A drops
//!   the block and says its view change again. It is asked again as long as it waits, as view
//!   changes are repeated.
//! - **The last proof is enough.** A replica that gives up on a view that began remembers all that
//!   the view began with as pre-prepared, for the NEW-VIEW is the pre-prepare of that. So each
//!   forgotten block is ruled out by the last proof as well, or it is in Q again.
//! - **Without proof, nothing is forgotten.** A replica that starts again within a view has no
//!   NEW-VIEW of that. It accepts no block there that would make it forget another one. It waits
//!   for the next view.
//! - The proof goes when a stable checkpoint covers the heights.
//!
//! # Why no view is stuck
//! Let all n − f correct replicas give up for one view, and hear each other. Take the block b that
//! any of them prepared in the highest view v. Condition A1 holds for it. Of the q replicas that
//! pre-prepared it in v, f + 1 are correct. Either all of these have it in Q, and b may be chosen.
//! Or one has a proof that rules b out, shows it, and b is dropped from P; and so on with the next
//! one, of which there are finitely many. If none is left, all n − f ≥ q prepared nothing.
//!
//! # Size
//! Q has four entries for each height of the window, and there is one NEW-VIEW at most. It is there
//! only after the fifth block of a height.

use super::choice::Chosen;
use super::words::{Entry, Forgotten, Message, NewView, SignedChange};
use super::{Fx, Pbft};
use crate::base::types::{Duration, Height, Time, View};
use crate::ledger::block::BlockId;
use crate::protocols::protocol::Output;

/// How often a peer is shown the proof at most: it may be long, and a liar may ask for it by
/// repeating its view change.
const SHOWN_EVERY: Duration = Duration::from_millis(200);

impl Pbft {
    /// Whether a block, or any, may be pre-prepared at this height in the current view: the set Q
    /// has room, or there is proof that what gives way was not committed.
    pub(super) fn may_remember(&self, height: Height, block: Option<&BlockId>) -> bool {
        self.known.has_room(height, block) || self.changes.began(self.view).is_some()
    }

    /// A block was pre-prepared.
    pub(super) fn remember(&mut self, entry: Entry) {
        self.must_write = true;
        let gave_way = self.known.pre_prepare(entry);
        let Some((new_view, signature)) = self.changes.began(self.view).filter(|_| gave_way) else {
            return;
        };
        let (new_view, signature) = (new_view.clone(), *signature);
        let before = self.forgotten.as_ref().map(|forgotten| forgotten.up_to);
        let up_to = before.unwrap_or_default().max(entry.height);
        if let Some(chosen) = self.choose(&new_view.changes) {
            self.rule_out(new_view.view, &chosen);
        }
        self.forgotten = Some(Forgotten { up_to, new_view, signature });
    }

    /// The view is given up: its primary ordered what it began with, whether or not that was
    /// accepted here.
    pub(super) fn remember_chosen(&mut self) {
        let began = self.changes.began(self.view).filter(|_| !self.is_changing);
        let Some(changes) = began.map(|(new_view, _)| new_view.changes.clone()) else { return };
        let blocks = self.choose(&changes).map_or(Vec::new(), |chosen| chosen.blocks);
        let (view, low) = (self.view, self.checkpoints.low());
        for entry in blocks.into_iter().filter(|entry| entry.height > low) {
            if self.awaits.is_none() && !self.known.has_pre_prepared(view, &entry) {
                self.remember(Entry { view, ..entry });
            }
        }
    }

    /// Drops from P what did not become part of a view. Says whether there was such a thing.
    fn rule_out(&mut self, view: View, chosen: &Chosen) -> bool {
        let is_less = self.known.drop_prepared(|entry| chosen.rules_out(view, entry));
        self.must_write |= is_less;
        is_less
    }

    /// Shows the last proof to a replica that prepared what it rules out.
    pub(super) fn show_forgotten(&mut self, now: Time, signed: &SignedChange, fx: &mut Fx) {
        let (to, change) = (signed.from, &signed.change);
        let Some(Forgotten { new_view, signature, .. }) = &self.forgotten else { return };
        let Some(shown) = self.shown.get(to) else { return };
        let is_older = |entry: &Entry| entry.view < new_view.view;
        if shown.is_some_and(|shown| now.since(shown) < SHOWN_EVERY)
            || change.view <= new_view.view
            || !change.prepared.iter().any(is_older)
        {
            return;
        }
        let Some(chosen) = self.choose(&new_view.changes) else { return };
        if change.prepared.iter().any(|entry| chosen.rules_out(new_view.view, entry)) {
            let (new_view, signature) = (Box::new(new_view.clone()), *signature);
            fx.output(Output::Send { to, message: Message::NewView { new_view, signature } });
            if let Some(shown) = self.shown.get_mut(to) {
                *shown = Some(now);
            }
        }
    }

    /// Whether a new view that is too old to be entered may rule out what was prepared here.
    pub(super) fn may_rule_out(&self, new_view: &NewView) -> bool {
        let is_out =
            |entry: &Entry| entry.view < new_view.view && !new_view.chosen.contains(&entry.block);
        self.is_changing && new_view.view < self.view && self.known.has_prepared(is_out)
    }

    /// A new view that is too old to be entered: what it did not choose was not committed before.
    pub(super) fn on_old_view(&mut self, new_view: &NewView, fx: &mut Fx) {
        if !self.may_rule_out(new_view) {
            return;
        }
        let Some(chosen) = self.choose(&new_view.changes) else { return };
        let follows = chosen.blocks.iter().map(|entry| &entry.block).eq(new_view.chosen.iter());
        if follows && self.rule_out(new_view.view, &chosen) {
            self.say_change(fx);
        }
    }
}
