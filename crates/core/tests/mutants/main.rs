//! Known bugs of this family of protocols, put in on purpose: each does its harm in a schedule of
//! partitions and lost messages, and the real driver goes through the same schedule unharmed. The
//! schedules are scripts, in `tests/scripts/mutants` at the root of the workspace.
#![allow(
    clippy::disallowed_methods,
    reason = "the core is pure; scripts are files, and who runs the test says whether to write them"
)]

use quorate_sim as cluster;
mod early_fast;
mod mixed_views;
mod script;
mod second_vote;
mod skipped_ancestor;
mod stepping;
