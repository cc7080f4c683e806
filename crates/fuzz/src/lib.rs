//! Fuzz targets: functions of an input that panic when something does not hold.
//!
//! `cargo test -p quorate-fuzz` runs each on its files in `corpus/` and on inputs from seeds, on
//! the stable toolchain. `make fuzz` runs them under libFuzzer, from the workspace in `/fuzz`.
//!
//! A target that is new goes into [`TARGETS`], with a file or two into `corpus/NAME`.

pub mod allocation;
mod api;
mod client;
mod configuration;
mod damage;
mod decoders;
mod gateway;
mod input;
mod journal;
mod key_generation;
mod kv;
mod payments;
mod peers;
#[path = "../../store/tests/lazy_trie/random.rs"]
#[allow(dead_code, missing_docs)] // The tests of the store use the rest.
mod random;
mod signatures;
mod store_log;
mod store_operations;
mod store_pages;
mod twins;

/// A fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and its folder in `corpus/`.
    pub name: &'static str,
    /// Runs one input. Panics when something does not hold.
    pub run: fn(&[u8]),
    /// How many inputs from seeds a test runs.
    pub seeds: u64,
    /// The longest of those, in bytes.
    pub longest: u64,
}

const fn target(name: &'static str, run: fn(&[u8]), seeds: u64, longest: u64) -> Target {
    Target { name, run, seeds, longest }
}

/// All targets.
pub const TARGETS: &[Target] = &[
    target("client-blocks", client::blocks, 400, 400),
    target("client-proofs", client::proofs, 400, 400),
    target("client-session", client::session, 400, 300),
    target("configuration", configuration::run, 60, 60),
    target("decoders", decoders::run, 3000, 300),
    target("gateway", gateway::dispatch, 1000, 400),
    target("gateway-resp", gateway::resp, 2000, 300),
    target("journal", journal::run, 150, 200),
    target("key-generation", key_generation::run, 60, 40),
    target("kv-requests", kv::requests, 600, 300),
    target("kv-snapshot", kv::snapshot, 300, 100),
    target("payments", payments::run, 2000, 400),
    target("peer-hello", quorate_transport::fuzz::hello, 2000, 80),
    target("peer-messages", peers::run, 30, 60),
    target("signatures", signatures::run, 120, 60),
    target("store-c", api::run, 100, 300),
    target("store-log", store_log::run, 600, 60),
    target("store-operations", store_operations::run, 150, 600),
    target("store-pages", store_pages::run, 1500, 60),
    target("transport-frames", quorate_transport::fuzz::frames, 2000, 4000),
    target("twins-files", twins::run, 1000, 200),
    target("udp-channel", quorate_transport::fuzz::channel, 60, 120),
    target("udp-door", quorate_transport::fuzz::door, 150, 300),
    target("udp-exchange", quorate_transport::fuzz::exchange, 400, 400),
];

/// The target of a name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
