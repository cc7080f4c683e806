//! Durable storage, usable on its own: it knows nothing of votes or blocks.
//!
//! - [`disk`]: a folder of files behind a small trait, with a real, an in-memory and a
//!   crash-recording backend;
//! - [`wal`]: the write-ahead log, which also keeps the newest small record of its owner in
//!   redundant slots;
//! - [`snapshot`]: large states written once, read in verified chunks;
//! - [`lazy_trie`]: a persistent key-value store, memory-mapped, on that log;
//! - [`merkle`]: the root of such a store's content, and proofs of what is in it;
//! - [`atomic_file`]: atomic replacement of small files;
//! - [`lock`]: one process per data folder.
//!
//! Two rules hold everywhere. Content of a file is believed only after its checksum and its bounds
//! were checked. And an error of a write or a sync is final: the kernel may have dropped the dirty
//! pages, so a later successful fsync proves nothing (Rebello et al., "Can Applications Recover
//! from fsync Failures?", ATC 2020).
//!
//! Unsafe code is denied except in the modules for mapped memory (`disk/map.rs`,
//! `disk/bus_error.rs` and `lazy_trie/memory.rs`) and in `prefetch.rs`.
#![deny(unsafe_code)]

pub mod atomic_file;
pub mod disk;
pub mod lazy_trie;
pub mod lock;
pub mod merkle;
mod prefetch;
pub mod snapshot;
pub mod wal;

mod bytes;
