//! A block that is executed before it is committed.
//!
//! *Practical Byzantine Fault Tolerance* (Castro and Liskov, OSDI 1999), section 5.1.2. All blocks
//! below it are committed, so there is one at most. The application [marks](StateMachine::mark) its
//! state first. When the block is committed, what it led to stays. When another block is committed
//! at its height, or a view ends, the state comes back to the mark.
//!
//! Everything that leaves the replica but the answers themselves is of the committed state: session
//! table, height, roots, snapshots, proofs, answers to questions.

use super::{Execution, ExecutionError};
use crate::base::crypto::PublicKey;
use crate::base::types::{Digest, Height, View};
use crate::ledger::frame::SharedFrame;
use crate::ledger::outcome::Outcome;
use crate::ledger::sessions::Sessions;
use crate::ledger::state_machine::StateMachine;

/// What a block led to, and the way back.
#[derive(Debug)]
pub(super) struct Tentative {
    block_id: Digest,
    outcomes: Vec<(PublicKey, Outcome)>,
    commands: u64,
    /// As committed blocks left it.
    sessions: Sessions,
}

impl Tentative {
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }
}

impl<S: StateMachine> Execution<S> {
    /// Whether a block is executed that is not committed, for checkers.
    #[must_use]
    pub fn is_tentative(&self) -> bool {
        self.tentative.is_some()
    }

    /// Executes the block at the next height, which may never be committed, and says what became
    /// of its frames. `None` if the block is not the next one, if members may change, or if the
    /// application cannot come back.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    pub fn execute_tentatively(
        &mut self,
        height: Height,
        view: View,
        block_id: Digest,
        frames: &[SharedFrame],
    ) -> Result<Option<Vec<(PublicKey, Outcome)>>, ExecutionError> {
        if let Some(error) = &self.halted {
            return Err(error.clone());
        }
        if let Some(tentative) = self.tentative.as_ref().filter(|it| it.block_id == block_id) {
            return Ok(Some(tentative.outcomes.clone()));
        }
        self.roll_back();
        // A change of the members is not undone.
        let is_governed = self.members.committee().is_some();
        if height != self.height.next() || is_governed || !self.application.mark() {
            return Ok(None);
        }
        let sessions = self.sessions.clone();
        let (outcomes, commands) = self.carry_out(height, view, block_id, frames)?;
        let told = outcomes.clone();
        self.tentative = Some(Tentative { block_id, outcomes, commands, sessions });
        Ok(Some(told))
    }

    /// Comes back to the state that committed blocks led to.
    pub fn roll_back(&mut self) {
        let Some(tentative) = self.tentative.take() else { return };
        if planted!("tentative-not-rolled-back", false, true) {
            self.sessions = tentative.sessions;
            self.application.undo();
        }
    }

    /// A block is committed: keeps what it led to, if it was executed, and otherwise comes back.
    pub(super) fn keep_tentative(
        &mut self,
        block_id: &Digest,
    ) -> Option<(Vec<(PublicKey, Outcome)>, u64)> {
        match self.tentative.take_if(|tentative| tentative.block_id == *block_id) {
            Some(Tentative { outcomes, commands, .. }) => {
                self.application.keep();
                Some((outcomes, commands))
            }
            None => {
                self.roll_back();
                None
            }
        }
    }
}
