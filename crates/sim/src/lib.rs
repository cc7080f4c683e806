//! A whole cluster in one thread: replicas, disks, links, clients and clocks, all from one seed.
//!
//! It drives each replica by `replica::drive::turn`, as production does, and each client by the
//! session of production. After every step the [oracles] look at what was signed, sent, committed,
//! executed and answered; they share no predicate with production. A violation is a panic whose
//! text begins with the oracle's name; what drives many clusters catches it.
#![forbid(unsafe_code)]

pub mod administrator;
pub mod adversary;
pub mod app;
mod boot;
pub mod campaign;
pub mod client;
pub mod clock;
mod cluster;
pub mod config;
pub mod diagram;
pub mod disk;
mod events;
pub mod family;
pub mod faults;
pub mod keys;
pub mod lines;
pub mod liveness;
pub mod mutant;
pub mod network;
pub mod oracles;
mod planted;
pub mod reads;
pub mod rng;
mod serve;
pub mod service;
pub mod steps;
pub mod strict;
pub mod swarm;
pub mod trace;
mod turns;
pub mod twins;
mod world;

pub use cluster::{Cluster, Core, Peer, Slot, status_of};
pub use config::Config;
