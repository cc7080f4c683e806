//! The specification in `specs/`, and runs of the real core held against it.
//!
//! The simulator writes down the [steps](quorate_sim::steps) of a run, [`run::record`] makes a
//! [`file::Run`] of them, [`data`] writes that as a TLA+ module, and [`tlc`] asks TLC whether each
//! step is allowed. What [`mutations`] does to a run must be found, at its place. [`explore`] goes
//! through the specification itself.

pub mod campaign;
pub mod data;
pub mod explore;
pub mod file;
pub mod judge;
pub mod mutations;
pub mod run;
pub mod tlc;
