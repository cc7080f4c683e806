//! What a function returns, and what it tells.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use quorate_store::lazy_trie::Error;

/// How a call ended. Numbers stay what they are; others may follow.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuorateStoreStatus {
    /// It was done.
    Ok = 0,
    /// There is no such item, or no further one.
    NotFound = 1,
    /// An argument that cannot be: NULL, an unknown number, a name that is no text.
    Argument = 2,
    /// Another process has the folder; the message names it.
    Locked = 3,
    /// Something on disk is not what was written; the message names file, offset and remedy.
    Damaged = 4,
    /// Files of another tool, another store, or another version of this one.
    Foreign = 5,
    /// The system refused something; the message says what, and what to do.
    System = 6,
    /// Something is longer, or more, than it may be.
    Limit = 7,
    /// An earlier error ended writing: close the store and open it again.
    Stopped = 8,
    /// A fault of this library: close the store and open it again.
    Panicked = 9,
}

/// Why a call failed.
pub(crate) struct Fault {
    status: QuorateStoreStatus,
    message: String,
}

impl Fault {
    pub(crate) fn argument(message: &str) -> Fault {
        Fault { status: QuorateStoreStatus::Argument, message: message.to_string() }
    }

    pub(crate) fn system(message: &str) -> Fault {
        Fault { status: QuorateStoreStatus::System, message: message.to_string() }
    }

    pub(crate) fn panicked_before() -> Fault {
        let message = "an earlier call panicked: close the store and open it again".to_string();
        Fault { status: QuorateStoreStatus::Panicked, message }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        use quorate_store::lock::LockError;
        use quorate_store::wal::Error as Log;
        let status = match &error {
            Error::Lock(LockError::Held { .. }) => QuorateStoreStatus::Locked,
            Error::Damaged { .. } | Error::Missing { .. } => QuorateStoreStatus::Damaged,
            Error::Foreign { .. } | Error::Version { .. } => QuorateStoreStatus::Foreign,
            Error::LimitReached { .. }
            | Error::TooLarge { .. }
            | Error::TooManySnapshots { .. } => QuorateStoreStatus::Limit,
            Error::Options { .. } => QuorateStoreStatus::Argument,
            Error::Stopped { .. } | Error::Log(Log::Poisoned { .. }) => QuorateStoreStatus::Stopped,
            Error::Log(
                Log::Damaged { .. }
                | Log::MissingSegment { .. }
                | Log::MissingSafetyRecord { .. }
                | Log::PastEnd { .. }
                | Log::Retired { .. },
            ) => QuorateStoreStatus::Damaged,
            Error::Log(Log::Foreign { .. } | Log::Version { .. } | Log::Identity { .. }) => {
                QuorateStoreStatus::Foreign
            }
            _ => QuorateStoreStatus::System,
        };
        Fault { status, message: error.to_string() }
    }
}

thread_local!(static MESSAGE: RefCell<CString> = RefCell::new(CString::default()));

fn tell(message: String) {
    let text: Vec<u8> = message.into_bytes().into_iter().filter(|byte| *byte != 0).collect();
    // A thread that ends has nobody to tell.
    let _ = MESSAGE.try_with(|place| {
        if let Ok(mut place) = place.try_borrow_mut() {
            *place = CString::new(text).unwrap_or_default();
        }
    });
}

/// Runs the body of a function: its fault becomes status and message, and so does a panic.
pub(crate) fn outcome(
    body: impl FnOnce() -> Result<QuorateStoreStatus, Fault>,
) -> QuorateStoreStatus {
    // Who panics within the store has marked it: see `Shared::with`.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(status)) => status,
        Ok(Err(fault)) => {
            tell(fault.message);
            fault.status
        }
        Err(panic) => {
            tell(format!("a fault of this library: {}", what_panicked(&*panic)));
            QuorateStoreStatus::Panicked
        }
    }
}

fn what_panicked(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic")
}

/// What went wrong in the last call on this thread that failed: text in UTF-8 that names the place and the remedy, empty if none did. It belongs
/// to the library, and is valid until a call on this thread fails or the thread ends.
#[unsafe(no_mangle)]
pub extern "C" fn quorate_store_error_message() -> *const c_char {
    MESSAGE
        .try_with(|place| place.try_borrow().map_or(c"".as_ptr(), |text| text.as_ptr()))
        .unwrap_or(c"".as_ptr())
}
