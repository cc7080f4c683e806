//! What surrounds a replica in one turn of its loop.

use quorate_core::base::crypto::{Check, Form, Share, ShareKeys, Signature, Signer, Statement};
use quorate_core::replica::Action;
use quorate_core::replica::drive::{Stage, World};
use quorate_core::replica::message::PeerMessage;

use super::family::Family;
use super::keys::{Keys, combined};
use super::oracles::Oracles;

/// The world of one turn: it signs, verifies, and keeps what is to be done.
pub struct Outside<'a, F: Family> {
    pub id: usize,
    pub keys: Keys,
    pub watched: Option<&'a mut Oracles>,
    pub at_once: bool,
    pub verify: fn(usize, &[Check]) -> Vec<bool>,
    /// What need not wait for the records of this turn.
    pub early: Vec<Action<F::Types>>,
    pub is_early: bool,
    /// What rests on them.
    pub actions: Vec<Action<F::Types>>,
}

impl<F: Family> World<F::Types> for Outside<'_, F> {
    fn perform(&mut self, action: Action<F::Types>) {
        if let Action::Broadcast(PeerMessage::Protocol { epoch, message, .. }) = &action
            && let Some(oracles) = &mut self.watched
        {
            F::tells(oracles, self.id, *epoch, message);
        }
        if self.is_early {
            self.early.push(action);
        } else {
            self.actions.push(action);
        }
    }

    fn enter(&mut self, stage: Stage, _: usize) {
        // Behind a sync nothing is early: it would overtake.
        self.is_early = stage != Stage::Release && self.actions.is_empty();
    }

    fn sign(&mut self, statement: &Statement) -> Signature {
        if let Some(oracles) = &mut self.watched {
            F::signs(oracles, self.id, statement);
        }
        self.keys.sign(statement)
    }

    fn verify(&mut self, _ask: u64, checks: &[Check]) -> Option<Vec<bool>> {
        self.at_once.then(|| (self.verify)(self.id, checks))
    }

    fn combine(
        &mut self,
        _ask: u64,
        form: Form,
        shares: &[Share],
        keys: Option<&ShareKeys>,
    ) -> Option<Option<Signature>> {
        self.at_once.then(|| combined(form, shares, keys))
    }
}
