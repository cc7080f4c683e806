//! What is not executed: commands that all replicas agree to leave out, because the application
//! stops at them; and blocks of an epoch whose [rules](super::rules) this program does not know.

use std::collections::BTreeSet;

#[cfg(doc)]
use super::command_digest;
use super::{Execution, ExecutionError, rules};
use crate::base::membership::Rules;
use crate::base::types::Digest;
use crate::ledger::state_machine::StateMachine;

impl<S> Execution<S> {
    /// From now on, commands with these [digests](command_digest) are not given to the application.
    /// Their reply is empty. All replicas must do the same.
    pub fn skip(&mut self, commands: BTreeSet<Digest>) {
        self.skipped = commands;
    }

    /// The same state with the commands to [skip](Self::skip) of `other`.
    #[must_use]
    pub fn skipping_as(mut self, other: &Self) -> Self {
        self.skipped.clone_from(&other.skipped);
        self
    }
}

impl<S: StateMachine> Execution<S> {
    /// The newest rules that this program supports. Nobody knows what an application supports that
    /// cannot go on, so of that it is the first alone.
    #[must_use]
    pub fn supported_rules(&self) -> Rules {
        match self.application.fault() {
            None => Rules::supported(self.application.newest_rules()),
            Some(_) => Rules::supported(1),
        }
    }

    /// Whether this program knows the rules of the current epoch.
    ///
    /// # Errors
    /// [`ExecutionError::Rules`]. Every further call to execute a block fails in that way.
    pub fn check_rules(&mut self) -> Result<(), ExecutionError> {
        let committee = self.members.committee();
        let known =
            committee.map_or(Ok(()), |committee| rules::known(committee, &self.application));
        known.map_err(|unknown| {
            let error = ExecutionError::Rules(unknown);
            self.halted = Some(error.clone());
            error
        })
    }
}
