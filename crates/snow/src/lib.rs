//! The Snow family at size: thousands of nodes on virtual time, from one seed.
//!
//! A message takes the delay between two places, and the time that its bytes need on the sender's
//! link; a node handles one message at a time, each at a cost. A node acts when a message arrives,
//! and its answer leaves when its processor comes to it. The oracle: never do two correct nodes
//! decide differently ([`colours`]), never are two spends of one output accepted anywhere
//! ([`payments`]).
//!
//! Nothing is hashed or signed here beyond names: signatures are a cost. Nothing here reads a
//! clock, so that all of it runs in a browser as well ([`web`]).

pub mod chain;
pub mod colours;
mod heap;
#[cfg(not(target_arch = "wasm32"))]
pub mod page;
pub mod payments;
pub mod setting;
pub mod web;
