//! The status of a call, and its error message.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use quorate_store::lazy_trie::Error;

/// The result of a call. The numbers never change; others may be added.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuorateStoreStatus {
    /// Success.
    Ok = 0,
    /// There is no such item, or no further one.
    NotFound = 1,
    /// An invalid argument: NULL, an unknown number, or a name that is not UTF-8.
    Argument = 2,
    /// Another process uses the folder; the message names that process.
    Locked = 3,
    /// Data on disk is damaged; the message names file, offset and remedy.
    Damaged = 4,
    /// The files belong to another tool, another store, or another version of this one.
    Foreign = 5,
    /// The system refused an operation; the message names it and the remedy.
    System = 6,
    /// A limit was exceeded.
    Limit = 7,
    /// An earlier error ended writing. Close the store and open it again.
    Stopped = 8,
    /// A bug in this library. Close the store and open it again.
    Panicked = 9,
}

/// The reason why a call failed.
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
    // The thread ends, so nobody can read the message.
    let _ = MESSAGE.try_with(|place| {
        if let Ok(mut place) = place.try_borrow_mut() {
            *place = CString::new(text).unwrap_or_default();
        }
    });
}

/// Runs the body of a function. Turns its error, or a panic, into status and message.
pub(crate) fn outcome(
    body: impl FnOnce() -> Result<QuorateStoreStatus, Fault>,
) -> QuorateStoreStatus {
    // A panic within the store marks it: see `Shared::with`.
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

/// The message of the last call on this thread that failed: UTF-8 text that names the place and the
/// remedy, empty if no call failed. It belongs to the library. It is valid until the next call on
/// this thread fails or the thread ends.
#[unsafe(no_mangle)]
pub extern "C" fn quorate_store_error_message() -> *const c_char {
    MESSAGE
        .try_with(|place| place.try_borrow().map_or(c"".as_ptr(), |text| text.as_ptr()))
        .unwrap_or(c"".as_ptr())
}
