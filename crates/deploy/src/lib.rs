//! Clusters on many hosts, over the operator's own `ssh`.
//!
//! An [inventory](inventory::Inventory) names the hosts. What is to be done on a host is a few
//! steps (`steps.rs`); each looks first whether it is done. So whatever was interrupted is run
//! again, and goes on where it was. Hosts are worked on side by side. One that fails is named, and
//! the others go on. Secret keys are made on their host and never leave it.

pub mod connection;
mod fleet;
pub mod inventory;
mod restart;
mod steps;
mod study;
mod up;

pub use fleet::{Fleet, Outcome};
pub use steps::Program;
pub use study::Wanted;

/// What is wrong at one host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} (remedy: {remedy})")]
pub struct Trouble {
    /// What.
    pub what: String,
    /// What to do.
    pub remedy: String,
}
