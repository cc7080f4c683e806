//! The laboratory: what puts a cluster under load and measures it.
#![forbid(unsafe_code)]

pub mod bench;
pub mod counting;
pub mod load;
pub mod local;
