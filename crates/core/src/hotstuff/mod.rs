//! The HotStuff family.
//!
//! [`chained`] is the driver that all chained variants share: proposals, votes, certificates, the
//! pacemaker and the safety record. What tells the variants apart is in [`rules`].

pub mod chained;
pub mod message;
pub mod rules;

pub use chained::Chained;
pub use message::Message;
