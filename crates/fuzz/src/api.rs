//! The store's C functions, in any order, with handles, NULLs and lengths as a program may pass
//! them: statuses agree with a map, and every value is the one that was put.
#![expect(unsafe_code, reason = "these are functions for C")]

use std::collections::BTreeMap;
use std::ffi::CString;
use std::ptr;

use quorate_store_c::{
    QuorateStore, QuorateStoreOptions, QuorateStoreStatus as Status, quorate_store_batch_delete,
    quorate_store_batch_free, quorate_store_batch_new, quorate_store_batch_put,
    quorate_store_close, quorate_store_delete, quorate_store_free, quorate_store_get,
    quorate_store_open, quorate_store_put, quorate_store_write,
};

use crate::input::Input;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn opened(folder: &CString) -> *mut QuorateStore {
    let options = QuorateStoreOptions { durability: 1, ..QuorateStoreOptions::default() };
    let mut store = ptr::null_mut();
    // SAFETY: a text, options and a place that live through the call.
    let status = unsafe { quorate_store_open(folder.as_ptr(), &options, &mut store) };
    assert_eq!(status, Status::Ok);
    store
}

/// Runs an input.
pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    let Ok(folder) = tempfile::tempdir() else { return };
    let path = folder.path().join("store").to_string_lossy().into_owned();
    let Ok(path) = CString::new(path) else { return };
    let (mut model, mut store) = (Model::new(), opened(&path));
    for _ in 0..100 {
        if input.is_empty() {
            break;
        }
        let choice = input.byte();
        match choice % 8 {
            0..3 => put(store, &mut model, &mut input),
            3 => get(store, &model, &mut input),
            4 => delete(store, &mut model, &mut input),
            5 => write(store, &mut model, &mut input),
            6 => misuse(store, &mut input),
            _ => {
                // SAFETY: opened above, and not used again.
                unsafe { quorate_store_close(store) };
                store = opened(&path);
            }
        }
    }
    for key in model.keys().cloned().collect::<Vec<_>>() {
        check(store, &model, &key);
    }
    // SAFETY: opened above, and not used again.
    unsafe { quorate_store_close(store) };
}

fn key(input: &mut Input<'_>) -> Vec<u8> {
    vec![b'k'; usize::from(input.byte() % 6)]
}

fn put(store: *mut QuorateStore, model: &mut Model, input: &mut Input<'_>) {
    let (key, value) = (key(input), vec![input.byte(); usize::from(input.byte())]);
    // SAFETY: an open store; pointers and lengths of vectors.
    let status =
        unsafe { quorate_store_put(store, key.as_ptr(), key.len(), value.as_ptr(), value.len()) };
    assert_eq!(status, Status::Ok);
    model.insert(key, value);
}

fn get(store: *mut QuorateStore, model: &Model, input: &mut Input<'_>) {
    check(store, model, &key(input));
}

fn check(store: *mut QuorateStore, model: &Model, key: &[u8]) {
    let (mut value, mut length) = (ptr::null_mut(), 0);
    // SAFETY: an open store; a slice; places that live through the call.
    let status =
        unsafe { quorate_store_get(store, key.as_ptr(), key.len(), &mut value, &mut length) };
    match model.get(key) {
        None => assert_eq!(status, Status::NotFound),
        Some(expected) => {
            assert_eq!(status, Status::Ok);
            // SAFETY: the value that was written there, which is freed once.
            unsafe {
                assert_eq!(std::slice::from_raw_parts(value, length), &expected[..]);
                quorate_store_free(value, length);
            }
        }
    }
}

fn delete(store: *mut QuorateStore, model: &mut Model, input: &mut Input<'_>) {
    let key = key(input);
    // SAFETY: an open store; pointer and length of a vector.
    let status = unsafe { quorate_store_delete(store, key.as_ptr(), key.len()) };
    let there = model.remove(&key).is_some();
    assert_eq!(status, if there { Status::Ok } else { Status::NotFound });
}

fn write(store: *mut QuorateStore, model: &mut Model, input: &mut Input<'_>) {
    let batch = quorate_store_batch_new();
    for _ in 0..input.byte() % 5 {
        let (deletes, key) = (input.byte() & 1 == 1, key(input));
        let value = [input.byte(); 3];
        // SAFETY: a batch of this thread's; pointers and lengths of vectors and arrays.
        let status = unsafe {
            match deletes {
                true => quorate_store_batch_delete(batch, key.as_ptr(), key.len()),
                false => quorate_store_batch_put(batch, key.as_ptr(), key.len(), value.as_ptr(), 3),
            }
        };
        assert_eq!(status, Status::Ok);
        match deletes {
            true => drop(model.remove(&key)),
            false => drop(model.insert(key, value.to_vec())),
        }
    }
    // SAFETY: an open store and a batch, which is freed once.
    unsafe {
        assert_eq!(quorate_store_write(store, batch), Status::Ok);
        quorate_store_batch_free(batch);
    }
}

/// Calls that the contract allows and that must be refused: NULL handles, NULL with a length, a
/// length beyond what memory can have.
fn misuse(store: *mut QuorateStore, input: &mut Input<'_>) {
    let (mut value, mut length) = (ptr::null_mut(), 0);
    // SAFETY: NULL is allowed for every pointer, and nothing is read where the length is refused.
    let status = unsafe {
        match input.byte() % 5 {
            0 => quorate_store_put(ptr::null(), ptr::null(), 0, ptr::null(), 0),
            1 => quorate_store_put(store, ptr::null(), 1, ptr::null(), 0),
            2 => quorate_store_get(store, ptr::null(), 3, &mut value, &mut length),
            3 => quorate_store_get(store, b"k".as_ptr(), 1, ptr::null_mut(), &mut length),
            _ => quorate_store_delete(store, b"k".as_ptr(), usize::MAX),
        }
    };
    assert_eq!(status, Status::Argument);
    assert!(value.is_null());
}
