//! Real processes, killed and cut short: what was acknowledged stays, what is refused says why.

#[path = "../cluster/mod.rs"]
mod cluster;
#[path = "../../../netem/tests/needs/mod.rs"]
mod needs;

mod alerts;
mod backups;
mod committees;
mod crashes;
mod descriptors;
mod dissemination;
mod feed;
mod generations;
mod linearizability;
mod members;
mod owners;
mod payments;
mod pbft;
mod processor;
mod proofs;
mod recovery;
mod redis;
mod rights;
mod sequencer;
mod services;
mod snowman;
mod stall;
mod state;
mod storage;
mod traces;
mod transport_keys;
mod transports;
mod upgrade;
mod watching;
