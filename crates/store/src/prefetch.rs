//! Prefetch hints: requests for memory that is about to be read.
#![allow(unsafe_code)]

/// The length of a cache line.
const LINE_BYTES: usize = 64;

/// Prefetches a value.
#[inline]
pub(crate) fn ask_for<T>(it: &T) {
    ask_for_bytes(std::ptr::from_ref(it).cast(), size_of::<T>());
}

/// Prefetches `bytes` from `start` on. Does nothing on processors without an instruction for it
/// that is stable in Rust.
#[inline]
pub(crate) fn ask_for_bytes(start: *const u8, bytes: usize) {
    let within = start.addr() % LINE_BYTES;
    for line in (0..within + bytes).step_by(LINE_BYTES) {
        let at = start.wrapping_sub(within).wrapping_add(line);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a hint that does not read in the sense of the program, and accepts any address.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(at.cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = at;
    }
}
