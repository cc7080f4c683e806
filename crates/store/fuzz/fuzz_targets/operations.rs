//! Operations, crashes and restarts against a model.
#![no_main]

#[path = "../../tests/fuzz/input.rs"]
#[allow(dead_code)] // Not every target reads everything.
mod input;
#[path = "../../tests/fuzz/operations.rs"]
mod operations;
#[path = "../../tests/lazy_trie/random.rs"]
#[allow(dead_code)] // The tests use the rest.
mod random;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| operations::run(bytes));
