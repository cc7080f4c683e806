//! The real world around a replica: configuration, transports, clients, threads, clocks.
#![forbid(unsafe_code)]

#[cfg(quorate_mutants)]
compile_error!("known bugs are for the simulator: build without `--cfg quorate_mutants`");

pub mod begin;
pub mod client;
pub mod config;
pub mod descriptors;
pub mod gateway;
pub mod http;
pub mod launch;
pub mod protocol;
pub mod replica;
pub mod testnet;
pub mod transport;
