//! The drive loop: one body for production, the simulator and tests.
//!
//! Its duties, in this order (what must not be done otherwise is in the types):
//!
//! 1. **step** the replica with each input that is waiting, and merge the effects;
//! 2. **persist** their records with one sync (what rests on earlier records alone leaves before
//!    it: a proposal need not wait for the disk);
//! 3. **release** what rests on them: send, answer clients, sign, have signatures verified.
//!    Answers that come at once (a signature, a verdict) are stepped again, from 1;
//! 4. **execute** what was committed, and release what that leads to;
//! 5. re-arm the timer: call again with [`Input::Timeout`] when [`Replica::deadline`] has passed.

use super::{Action, Input, Record, Replica};
use crate::base::crypto::{Check, Form, Share, ShareKeys, Signature, Statement};
use crate::base::types::Time;
use crate::ledger::state_machine::StateMachine;
use crate::protocols::protocol::{Protocol, Types};

/// What the loop is busy with: where the time of a command goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Stage {
    /// Deciding: protocol, mempool, arrivals.
    Step,
    /// Writing and syncing records.
    Persist,
    /// Encoding and queueing messages, signing, verifying at once.
    Release,
    /// Executing committed blocks.
    Execute,
}

/// Where records become durable.
pub trait Journal<T: Types> {
    /// Why a record could not be written.
    type Error;

    /// Writes the records, in order, with one sync. Returns only when they are durable.
    ///
    /// # Errors
    /// Any error is final: the replica must stop, for it cannot know what the disk holds.
    fn write(&mut self, records: Vec<Record<T>>) -> Result<(), Self::Error>;
}

/// Everything else a replica reaches.
pub trait World<T: Types> {
    /// Does what is asked: sends, responds, serves, notes. [`Action::Sign`] never comes here, nor
    /// does an [`Action::Verify`] or [`Action::Combine`] that was answered at once.
    fn perform(&mut self, action: Action<T>);

    /// The loop turns to `stage`, with so many items for it: inputs, records, actions, decisions.
    /// For those who measure.
    fn enter(&mut self, stage: Stage, items: usize) {
        let _ = (stage, items);
    }

    /// Signs. At once: a vote waits for nothing else.
    fn sign(&mut self, statement: &Statement) -> Signature;

    /// Verifies: at once (`Some` verdicts), or elsewhere (`None`), with [`Input::Checked`] to
    /// come.
    fn verify(&mut self, ask: u64, checks: &[Check]) -> Option<Vec<bool>>;

    /// Joins signatures, by these shares of a threshold key if there are any: at once (`Some`, with
    /// what came of it), or elsewhere (`None`), with [`Input::Combined`] to come.
    fn combine(
        &mut self,
        ask: u64,
        form: Form,
        shares: &[Share],
        keys: Option<&ShareKeys>,
    ) -> Option<Option<Signature>>;
}

/// One turn of the loop: takes all of `inputs`, and returns when everything they lead to is
/// released and executed. The vector is the caller's, so that its room is used again.
///
/// # Errors
/// What the journal says; the replica must not be driven again then.
pub fn turn<P, S, J, W>(
    replica: &mut Replica<P, S>,
    journal: &mut J,
    world: &mut W,
    now: Time,
    inputs: &mut Vec<Input<P::Types>>,
) -> Result<(), J::Error>
where
    P: Protocol,
    S: StateMachine,
    J: Journal<P::Types>,
    W: World<P::Types>,
{
    loop {
        let mut effects = super::Fx::<P::Types>::default();
        if !inputs.is_empty() {
            world.enter(Stage::Step, inputs.len());
        }
        for input in inputs.drain(..) {
            effects.merge(replica.step(now, input));
        }
        if effects.is_empty() {
            let decisions = replica.to_execute();
            if decisions == 0 {
                return Ok(());
            }
            world.enter(Stage::Execute, decisions);
            effects = replica.execute(now);
        }
        for action in effects.take_early() {
            world.perform(action);
        }
        if effects.has_records() {
            world.enter(Stage::Persist, effects.records().len());
        }
        let actions = effects.persist(|records| journal.write(records))?;
        world.enter(Stage::Release, actions.len());
        for action in actions {
            match action {
                Action::Sign(statement) => {
                    let signature = world.sign(&statement);
                    inputs.push(Input::Signed { statement, signature });
                }
                Action::Verify { ask, checks } => match world.verify(ask, &checks) {
                    Some(verdicts) => inputs.push(Input::Checked { ask, verdicts }),
                    None => world.perform(Action::Verify { ask, checks }),
                },
                Action::Combine { ask, form, shares, keys } => {
                    match world.combine(ask, form, &shares, keys.as_deref()) {
                        Some(signature) => inputs.push(Input::Combined { ask, signature }),
                        None => world.perform(Action::Combine { ask, form, shares, keys }),
                    }
                }
                action => world.perform(action),
            }
        }
    }
}
