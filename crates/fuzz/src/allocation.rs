//! How much a thread allocates: no decoder may take many times what it was sent.
#![expect(unsafe_code, reason = "an allocator is unsafe")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATED: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, counting.
#[derive(Debug)]
struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

fn count(bytes: usize) {
    // While a thread ends its counter may be gone.
    let _ = ALLOCATED.try_with(|sum| sum.set(sum.get() + bytes as u64));
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `GlobalAlloc::dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count(bytes);
        // SAFETY: the caller keeps the contract of `GlobalAlloc::realloc`.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}

/// The bytes that `work` allocates on this thread, freed ones too, beside its result.
pub fn of<T>(work: impl FnOnce() -> T) -> (u64, T) {
    let before = ALLOCATED.with(Cell::get);
    let result = work();
    (ALLOCATED.with(Cell::get) - before, result)
}

/// Runs `work`, which may allocate `factor` bytes for each of `input`, and 64 KiB.
///
/// # Panics
/// If it allocates more.
pub fn within<T>(factor: u64, input: &[u8], work: impl FnOnce() -> T) -> T {
    let (allocated, result) = of(work);
    let allowed = factor * input.len() as u64 + (64 << 10);
    assert!(allocated <= allowed, "{allocated} bytes allocated for {} of input", input.len());
    result
}
