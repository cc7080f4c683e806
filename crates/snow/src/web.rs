//! What the demonstration page calls: the networks of this crate, compiled to WebAssembly, behind
//! functions that take and give numbers.
//!
//! The page reads results from linear memory, at the address and of the length that a function
//! says; both hold until the next call. There is one network of colours and one of payments, since
//! a module is one page's. The same functions are called by tests, without WebAssembly.
//!
//! Nothing that a visitor chooses is believed: numbers are clamped, or refused with a sentence
//! ([`message_address`]).
#![cfg_attr(
    target_arch = "wasm32",
    allow(unsafe_code, reason = "a name that the page finds; no two of them are alike")
)]

mod grid;
mod numbers;
mod spends;

use std::cell::RefCell;

pub use grid::*;
pub use numbers::*;
pub use spends::*;

use crate::setting::World;

thread_local! {
    static MESSAGE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// The most nodes of either network.
const MAX_NODES: u32 = 4096;
/// The places that nodes are in.
const PLACES: usize = 20;

/// Twenty places on a ring, 10 to 100 ms from each other.
fn world(lost_ppm: u32) -> World {
    let away = |one: usize, other: usize| {
        let steps = one.abs_diff(other);
        10_000_000 + 9_000_000 * steps.min(PLACES - steps) as u64
    };
    let row = |one| (0..PLACES).map(|other| away(one, other)).collect();
    World {
        delays: (0..PLACES).map(row).collect(),
        lost_ppm: u64::from(lost_ppm),
        timeout_ns: 400_000_000,
        ..World::uniform(0)
    }
}

/// Keeps a sentence for the page.
fn tell(text: impl ToString) {
    MESSAGE.with_borrow_mut(|message| *message = text.to_string());
}

fn nanos(ms: f64) -> u64 {
    (ms.clamp(0.0, 1e9) * 1e6) as u64
}

/// Where the last sentence is, in UTF-8.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn message_address() -> *const u8 {
    MESSAGE.with_borrow(|message| message.as_ptr())
}

/// How many bytes it has.
#[cfg_attr(target_arch = "wasm32", unsafe(no_mangle))]
pub extern "C" fn message_length() -> u32 {
    MESSAGE.with_borrow(|message| message.len() as u32)
}

#[cfg(test)]
mod tests;
