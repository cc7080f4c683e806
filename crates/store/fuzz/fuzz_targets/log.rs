//! Damaged and hostile logs.
#![no_main]

#[path = "../../tests/fuzz/damage.rs"]
#[allow(dead_code)] // Each target damages something else.
mod damage;
#[path = "../../tests/fuzz/input.rs"]
#[allow(dead_code)] // Not every target reads everything.
mod input;
#[path = "../../tests/fuzz/log.rs"]
mod log;
#[path = "../../tests/lazy_trie/random.rs"]
#[allow(dead_code)] // The tests use the rest.
mod random;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| log::run(bytes));
