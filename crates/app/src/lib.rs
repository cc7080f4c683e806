//! Applications that Quorate replicates.
//!
//! [`kv`] is a key-value store with Redis's data model; [`ordering`] executes nothing and only
//! orders what it is given. Both are pure: what they answer depends on the blocks they were given
//! and on nothing else.
#![forbid(unsafe_code)]

pub mod kv;
pub mod ordering;
