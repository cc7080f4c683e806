//! Tests of panics in the store, which no caller can cause.

use std::ffi::{CStr, CString};
use std::ptr;

use crate::outcome::outcome;
use crate::{
    QuorateStore, QuorateStoreStatus, quorate_store_close, quorate_store_error_message,
    quorate_store_open, quorate_store_put,
};

fn open(folder: &CStr) -> *mut QuorateStore {
    let mut store = ptr::null_mut();
    // SAFETY: a text that ends with a zero byte, no options, and a place for the result.
    let status = unsafe { quorate_store_open(folder.as_ptr(), ptr::null(), &raw mut store) };
    assert_eq!(status, QuorateStoreStatus::Ok);
    store
}

fn message() -> String {
    // SAFETY: a text of this thread, which is copied before the next call.
    unsafe { CStr::from_ptr(quorate_store_error_message()) }.to_str().unwrap().to_string()
}

#[test]
fn a_panic_becomes_a_status_and_the_store_refuses_from_then_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = CString::new(folder.path().to_str().unwrap()).unwrap();
    let store = open(&path);
    // SAFETY: it is open, and the bytes are there.
    let put = || unsafe { quorate_store_put(store, b"k".as_ptr(), 1, b"v".as_ptr(), 1) };
    assert_eq!(put(), QuorateStoreStatus::Ok);

    // SAFETY: it is open.
    let shared = unsafe { &(*store).shared };
    let status = outcome(|| shared.with(|_| panic!("for {}", "a test")));
    assert_eq!(status, QuorateStoreStatus::Panicked);
    assert_eq!(message(), "a fault of this library: for a test");
    assert_eq!(put(), QuorateStoreStatus::Panicked);
    assert_eq!(message(), "an earlier call panicked: close the store and open it again");
    // SAFETY: it is open, and not used any more.
    unsafe { quorate_store_close(store) };

    let store = open(&path);
    // SAFETY: it is open, and the bytes are there.
    let put = unsafe { quorate_store_put(store, b"k".as_ptr(), 1, b"w".as_ptr(), 1) };
    assert_eq!(put, QuorateStoreStatus::Ok);
    // SAFETY: it is open, and not used any more.
    unsafe { quorate_store_close(store) };
}
