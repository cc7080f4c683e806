//! Memory that is about to be read, asked for while there is something else to do.
#![allow(unsafe_code)]

/// Bytes of a line of the processor's cache.
const LINE_BYTES: usize = 64;

/// Asks for something.
#[inline]
pub(crate) fn ask_for<T>(it: &T) {
    ask_for_bytes(std::ptr::from_ref(it).cast(), size_of::<T>());
}

/// Asks for the `bytes` from `start` on. Where the processor has no instruction for it that is stable in Rust, nothing happens.
#[inline]
pub(crate) fn ask_for_bytes(start: *const u8, bytes: usize) {
    let within = start.addr() % LINE_BYTES;
    for line in (0..within + bytes).step_by(LINE_BYTES) {
        let at = start.wrapping_sub(within).wrapping_add(line);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a hint, which reads nothing as far as the program goes, and takes any address.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(at.cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = at;
    }
}
