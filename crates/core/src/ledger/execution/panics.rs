//! Applications that panic.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::base::types::{Digest, Sequence, SessionId};

/// The command at which an application panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poison {
    /// The session it came in.
    pub session: SessionId,
    /// Its number there.
    pub number: Sequence,
    /// Its [digest](command_digest).
    pub digest: Digest,
}

impl Poison {
    pub(super) fn new((session, number): (SessionId, Sequence), command: &[u8]) -> Self {
        Self { session, number, digest: command_digest(command) }
    }
}

impl fmt::Display for Poison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { session, number, digest } = self;
        write!(f, "command {} of session {}, digest {digest}", number.0, session.0)
    }
}

/// By what a command to [skip](super::Execution::skip) is named.
#[must_use]
pub fn command_digest(command: &[u8]) -> Digest {
    Digest::of("quorate command", command)
}

/// Runs `work`. If it panics: what the panic said. What it was at must not be used any more.
pub(super) fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| panic_message(&*payload))
}

/// What a panic said.
#[must_use]
pub fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
    text.unwrap_or("it did not say why").to_owned()
}
