//! Real processes, killed and cut short: what was acknowledged stays, what is refused says why.

#[path = "../cluster/mod.rs"]
mod cluster;

mod crashes;
mod linearizability;
mod processor;
mod proofs;
mod recovery;
mod redis;
mod stall;
mod state;
mod storage;
mod transports;
