//! Quorate: core.

pub mod merkle;
