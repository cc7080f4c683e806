//! Which command of a block an application is at, for messages that name it: when it has panicked,
//! or does not return.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::base::types::{Digest, Sequence, SessionId};
use crate::ledger::frame::SharedFrame;

/// One command of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poison {
    /// The session it came in.
    pub session: SessionId,
    /// Its number there.
    pub number: Sequence,
    /// Its [digest](command_digest).
    pub digest: Digest,
}

impl fmt::Display for Poison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { session, number, digest } = self;
        write!(f, "command {} of session {}, digest {digest}", number.0, session.0)
    }
}

/// By what a command to [skip](crate::ledger::execution::Execution::skip) is named.
#[must_use]
pub fn command_digest(command: &[u8]) -> Digest {
    Digest::of("quorate command", command)
}

/// How far an application is with a block. Another thread may read it meanwhile.
#[derive(Debug)]
pub struct Progress {
    /// The frames that execute, each with how many of its commands were executed before.
    runs: Vec<(SharedFrame, u32)>,
    /// The places of commands that the application is not given, ascending.
    left_out: Vec<usize>,
    /// Replies given.
    given: AtomicUsize,
}

impl Progress {
    pub(super) fn new(runs: Vec<(SharedFrame, u32)>, left_out: Vec<usize>) -> Self {
        Self { runs, left_out, given: AtomicUsize::new(0) }
    }

    pub(super) fn note(&self, given: usize) {
        self.given.store(given, Ordering::Relaxed);
    }

    /// The first command that has no reply yet: the one at work, if the application gives each
    /// reply when it has it. `None`: all have one.
    #[must_use]
    pub fn at_work(&self) -> Option<Poison> {
        self.command(self.given.load(Ordering::Relaxed))
    }

    /// The command at a place among those that the application is given.
    pub(super) fn command(&self, given: usize) -> Option<Poison> {
        let ahead = |place: usize, left_out: &usize| place + usize::from(*left_out <= place);
        let mut at = self.left_out.iter().fold(given, ahead);
        for (frame, skip) in &self.runs {
            let count = (frame.count() - skip) as usize;
            if at < count {
                let nth = *skip as usize + at;
                let (session, number) = (frame.session(), frame.first().plus(nth as u64));
                let digest = command_digest(frame.commands().nth(nth)?);
                return Some(Poison { session, number, digest });
            }
            at -= count;
        }
        None
    }
}
