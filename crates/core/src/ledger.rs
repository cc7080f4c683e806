//! What is ordered, and what executing it means: frames of commands, blocks of frames, the mempool
//! before a block and the session table, the state machine and its snapshots behind it.

pub mod block;
pub mod execution;
pub mod frame;
pub mod mempool;
pub mod message;
pub mod outcome;
pub mod packed;
pub mod sessions;
pub mod state_machine;
