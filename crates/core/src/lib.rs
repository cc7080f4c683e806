//! The pure part of Quorate: what a replica decides, without saying how the world is reached.
//!
//! Nothing in this crate reads a clock, opens a socket or a file, starts a thread, draws OS
//! randomness, or depends on the iteration order of a hash map. Time and seeds are arguments;
//! costly cryptography is asked for; what must be durable is a type ([`protocol::Effects`]).
//! The same code therefore runs in production (`quorate-node`), in a simulator, and under
//! transcript tests.
//!
//! Where to look first: [`replica`] for the life of one replica, [`hotstuff`] for the protocol,
//! [`execution`] for what happens to a committed command, [`client`] for the other side.
#![forbid(unsafe_code)]

#[macro_use]
pub mod mutant;

pub mod block;
pub mod certificate;
pub mod client;
pub mod committee;
pub mod crypto;
pub mod execution;
pub mod frame;
pub mod hashes;
pub mod hotstuff;
pub mod leader;
pub mod limits;
pub mod mempool;
pub mod merkle;
pub mod pacemaker;
pub mod protocol;
pub mod replica;
pub mod sessions;
pub mod state_machine;
pub mod tree;
pub mod types;
pub mod votes;
pub mod wire;

pub use committee::Committee;
pub use types::{Digest, Duration, Epoch, Height, ReplicaId, Sequence, SessionId, Time, View};
