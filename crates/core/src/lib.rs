//! The pure part of Quorate: what a replica decides, without saying how the world is reached.
//!
//! Nothing in this crate reads a clock, opens a socket or a file, starts a thread, draws OS
//! randomness, or depends on the iteration order of a hash map. Time and seeds are arguments;
//! costly cryptography is asked for; what must be durable is a type
//! ([`protocol::Effects`](protocols::protocol::Effects)). The same code therefore runs in
//! production (`quorate-node`), in a simulator, and under transcript tests.
//!
//! Where to look first: [`replica`] for the life of one replica, [`hotstuff`](protocols::hotstuff)
//! for the protocol, [`execution`](ledger::execution) for what happens to a committed command,
//! [`client`] for the other side.
#![forbid(unsafe_code)]

#[macro_use]
pub mod mutant;

pub mod base;
pub mod client;
pub mod ledger;
pub mod limits;
pub mod protocols;
pub mod replica;

pub use base::membership::Committee;
pub use base::types::{
    Digest, Duration, Epoch, Height, ReplicaId, Sequence, SessionId, Time, View,
};
