//! Commands in one order, and their execution: frames of commands, blocks of frames, the mempool
//! before a block, and behind it the session table, the state machine and its snapshots.

pub mod approvals;
pub mod block;
pub mod change;
pub mod clients;
pub mod directive;
pub mod execution;
pub mod frame;
pub mod generation;
pub mod mempool;
pub mod message;
pub mod outcome;
pub mod packed;
pub mod program;
pub mod progress;
pub mod sessions;
pub mod state_machine;
