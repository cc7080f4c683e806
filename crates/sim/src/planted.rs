//! The rules, committees and drive loop of a cluster: those of production, or, in builds with
//! `--cfg quorate_mutants`, with the bugs of [`quorate_core::mutant`] around them.

#[cfg(quorate_mutants)]
mod bugs;

#[cfg(quorate_mutants)]
pub(crate) use bugs::{committee, rules, turn};
#[cfg(not(quorate_mutants))]
pub(crate) use quorate_core::replica::drive::turn;

#[cfg(not(quorate_mutants))]
use quorate_core::{Committee, protocols::hotstuff::rules::Rules};

#[cfg(not(quorate_mutants))]
pub(crate) fn rules(rules: &'static dyn Rules) -> &'static dyn Rules {
    rules
}

#[cfg(not(quorate_mutants))]
pub(crate) fn committee(committee: Committee) -> Committee {
    committee
}
