//! How replicas agree: [the trait](protocol) that the replica drives, and the protocols.

pub mod checkpoint;
pub mod hotstuff;
pub mod pbft;
pub mod protocol;
pub mod sequencer;
pub mod snow;
pub mod two_delay;
