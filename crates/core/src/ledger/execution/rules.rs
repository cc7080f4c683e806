//! A replica executes no block of an epoch whose rules its program does not know.
//!
//! It looks before it executes a block, so also at the first one of an epoch, whether it executes
//! along with the others or catches up; when it starts with a state that it kept or restored; and
//! when the first chunk of a peer's snapshot has told whose state that is, before the application
//! reads any of it.

use crate::base::membership::{Committee, Rules};
use crate::base::types::Epoch;
use crate::ledger::state_machine::StateMachine;

/// An epoch executes by rules that this program does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "epoch {epoch} executes by rules {rules}, and this program supports none newer than {supported} \
     (core.application): start this replica with a release that has them (`quorate version` names the \
     rules of a program); its data is as it was"
)]
pub struct UnknownRules {
    /// The epoch.
    pub epoch: Epoch,
    /// Its rules.
    pub rules: Rules,
    /// The newest that this program supports.
    pub supported: Rules,
}

/// Whether this program, with this application, knows the rules of a committee.
pub(super) fn known(
    committee: &Committee,
    application: &impl StateMachine,
) -> Result<(), UnknownRules> {
    let (epoch, rules) = (committee.epoch(), committee.rules());
    let supported = Rules::supported(application.newest_rules());
    if planted!("unknown-rules-executed", true, supported.cover(rules)) {
        return Ok(());
    }
    Err(UnknownRules { epoch, rules, supported })
}
