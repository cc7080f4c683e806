//! Quorate: node.
#![forbid(unsafe_code)]

pub mod gateway;
