//! The parts of a replica, each for itself.

mod doorbell;
mod requests;
mod routes;
