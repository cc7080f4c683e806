//! The real world around a replica: configuration, transports, clients.
#![forbid(unsafe_code)]

pub mod config;
pub mod testnet;
