//! The real world around a replica: configuration, transports, clients, threads, clocks.
// Denied and not forbidden: `replica::giving_way` calls the system.
#![deny(unsafe_code)]

pub mod accelerator;
pub mod adversary;
pub mod backup;
pub mod begin;
pub mod ceremony;
pub mod client;
pub mod config;
pub mod descriptors;
pub mod family;
pub mod formats;
mod generation;
pub mod http;
pub mod launch;
pub mod newcomer;
pub mod replica;
mod scout;
pub mod testnet;
pub mod tls;
pub mod traces;
pub mod watching;
pub mod written;
