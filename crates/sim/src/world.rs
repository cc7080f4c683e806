//! What surrounds a replica in one turn of its loop.

use quorate_core::crypto::{Check, Form, Scheme, Share, Signature, Signer, Statement};
use quorate_core::hotstuff::Message;
use quorate_core::replica::Action;
use quorate_core::replica::drive::World;

use super::keys::{Key, Mock};
use super::oracles::Oracles;

/// The world of one turn: it signs, verifies, and keeps what is to be done.
pub struct Outside<'a> {
    pub id: usize,
    pub watched: Option<&'a mut Oracles>,
    pub at_once: bool,
    pub verify: fn(&[Check]) -> Vec<bool>,
    pub actions: Vec<Action<Message>>,
}

impl World<Message> for Outside<'_> {
    fn perform(&mut self, action: Action<Message>) {
        self.actions.push(action);
    }

    fn sign(&mut self, statement: &Statement) -> Signature {
        if let Some(oracles) = &mut self.watched {
            oracles.signs(self.id, statement);
        }
        Key::of_replica(self.id).sign(statement)
    }

    fn verify(&mut self, _ask: u64, checks: &[Check]) -> Option<Vec<bool>> {
        self.at_once.then(|| (self.verify)(checks))
    }

    fn combine(&mut self, _ask: u64, form: Form, shares: &[Share]) -> Option<Option<Signature>> {
        self.at_once.then(|| Mock.combine(form, shares))
    }
}
