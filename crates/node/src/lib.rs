//! The real world around a replica: sockets, threads, clocks.
#![forbid(unsafe_code)]

pub mod client;
pub mod transport;
