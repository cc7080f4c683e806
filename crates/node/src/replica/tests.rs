//! The parts of a replica, each for itself.

mod admission;
mod archive;
mod changes;
mod channels;
mod desk;
mod doorbell;
mod epochs;
mod generating;
mod inbox;
mod keyring;
mod lines;
mod refusals;
mod requests;
mod routes;
mod spread;
mod watch;
