//! The parts of a replica, each for itself.

mod archive;
mod doorbell;
mod inbox;
mod requests;
mod routes;
