//! The laboratory: what puts a cluster under load and measures it, and what draws its transcripts.
#![forbid(unsafe_code)]

pub mod attacks;
pub mod bench;
pub mod counting;
pub mod experiment;
pub mod load;
pub mod local;
pub mod plot;
pub mod profile;
pub mod random;
pub mod sequence;
pub mod snow;
