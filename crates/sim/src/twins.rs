//! Twins testing: copies of a replica that share its key, and a script of who may hear whom.
//!
//! Bano, Sonnino, Chursin, Perelman, Li, Ching, Malkhi, *Twins: BFT systems made robust*, 2021. A
//! replica that runs twice with one key and hears different messages in each copy equivocates,
//! votes twice and forgets, by correct code alone. A [`Scenario`] says for each of a few views who
//! leads it and into which groups the copies are split; everything else is decided by it, so that
//! all scenarios of a kind can be counted, numbered, run, and run again.
//!
//! - [`scenario`]: what a scenario is;
//! - [`space`]: all scenarios of a kind: how many, which one a number names, samples of them;
//! - [`world`]: one run of the real protocol through a scenario;
//! - [`watch`]: what must hold in it;
//! - [`mod@run`]: a run and what came of it; [`campaign`]: many of them, over all cores;
//! - [`mod@shrink`]: a smaller scenario that fails as well;
//! - [`pbft`]: the same for PBFT, sampled;
//! - [`two_delay`]: the same for the protocol of two delays, sampled;
//! - [`edges`]: the same over the edges of epochs, sampled;
//! - [`report`]: what happened, in words and as a picture of the block tree;
//! - `format` (with the feature `json`): files of scenarios.
//!
//! Numbers and measurements: `docs/twins.md`.

pub mod campaign;
pub mod edges;
#[cfg(feature = "json")]
pub mod format;
pub mod pbft;
pub mod report;
pub mod run;
pub mod scenario;
pub mod shrink;
pub mod signatures;
pub mod space;
pub mod two_delay;
pub mod variant;
pub mod watch;
pub mod world;

pub use campaign::{Campaign, Totals};
pub use run::{Outcome, Plan, run};
pub use scenario::{Groups, Phase, Scenario, Shape, ShapeError, ViewScript};
pub use shrink::shrink;
pub use signatures::Signatures;
pub use space::{Numbers, Space, SpaceError};
pub use variant::Variant;
pub use watch::Violation;
