//! Which frames of clients were executed lately: they are not verified again.
//!
//! Decided frames are there for everybody to pull, and so to be sent again without end; a signature
//! costs more than all else that such a frame asks for. The deciding thread notes here what it
//! executed, in tables of fixed size, and the clients' stage looks there first:
//!
//! - A frame that was executed lately, to the byte, needs no verification. (A client's own frame
//!   often comes behind the block that holds it.)
//! - A frame below what its session has executed by now, and no longer known to the byte, is *old*.
//!   All connections together have a small allowance of these ([`Allowance`]): a client that lost
//!   an answer for so long asks again.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use quorate_core::ledger::frame::{Frame, SharedFrame};
use quorate_core::{Digest, Sequence, SessionId};

/// Frames that are remembered: those of some seconds under load; 1 MiB.
const FRAMES: usize = 1 << 15;
/// Sessions of which it is remembered how far they are.
const SESSIONS: usize = 1 << 14;
/// Old frames that are verified a second.
pub(super) const OLD_A_SECOND: u32 = 256;

/// What is known of a frame before its signature is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Nothing.
    New,
    /// It was executed.
    Executed,
    /// Its session has executed what comes behind it.
    Old,
}

/// The tables. A newer entry takes the place of an older one that would stand there.
pub struct Settled {
    tables: Mutex<Tables>,
}

struct Tables {
    frames: Box<[Digest]>,
    sessions: Box<[(SessionId, Sequence)]>,
}

/// A frame with its signature, which is no part of its identity.
fn print_of(frame: &Frame) -> Digest {
    Digest::of("quorate settled frame", &[&frame.id().0, frame.signature().as_bytes()].concat())
}

fn place_of(print: &Digest) -> usize {
    let Digest([a, b, ..]) = *print;
    usize::from(u16::from_le_bytes([a, b])) % FRAMES
}

fn place_of_session(session: SessionId) -> usize {
    session.0 as usize % SESSIONS
}

impl Default for Settled {
    fn default() -> Self {
        let frames = vec![Digest([0; 32]); FRAMES].into();
        let sessions = vec![(SessionId(0), Sequence(0)); SESSIONS].into();
        Self { tables: Mutex::new(Tables { frames, sessions }) }
    }
}

impl Settled {
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks with these frames were executed; `next` is the number that each session goes on with
    /// after them.
    pub fn note(&self, frames: &[SharedFrame], next: impl Fn(SessionId) -> Option<Sequence>) {
        let settled: Vec<(&SharedFrame, Sequence, Digest)> = frames
            .iter()
            .filter_map(|frame| Some((frame, next(frame.session())?)))
            // Others wait for one before them, or were rejected.
            .filter(|(frame, next)| frame.end() <= *next)
            .map(|(frame, next)| (frame, next, print_of(frame)))
            .collect();
        if settled.is_empty() {
            return;
        }
        let mut tables = self.tables();
        for (frame, next, print) in settled {
            tables.frames[place_of(&print)] = print;
            tables.sessions[place_of_session(frame.session())] = (frame.session(), next);
        }
    }

    /// What is known of each of `frames`.
    pub fn known<'a>(&self, frames: impl Iterator<Item = &'a Frame>) -> Vec<Known> {
        let prints: Vec<_> = frames.map(|frame| (frame, print_of(frame))).collect();
        let tables = self.tables();
        let known = |(frame, print): (&Frame, Digest)| {
            let (session, next) = tables.sessions[place_of_session(frame.session())];
            if tables.frames[place_of(&print)] == print {
                Known::Executed
            } else if !frame.is_open() && session == frame.session() && frame.end() <= next {
                Known::Old
            } else {
                Known::New
            }
        };
        prints.into_iter().map(known).collect()
    }
}

/// How many of something may be done now.
#[derive(Debug)]
pub struct Allowance {
    a_second: u32,
    most: u32,
    left: u32,
    since: Instant,
}

impl Allowance {
    /// So many a second. What is not used is kept, up to `most`, with which it begins.
    #[must_use]
    pub fn of(a_second: u32, most: u32, now: Instant) -> Self {
        Self { a_second, most, left: most, since: now }
    }

    /// That of old frames.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self::of(OLD_A_SECOND, OLD_A_SECOND, now)
    }

    /// Whether so many may be.
    pub fn has(&mut self, wanted: usize, now: Instant) -> bool {
        self.take(0, now);
        self.left as usize >= wanted
    }

    /// Of `wanted`, as many as may be.
    pub fn take(&mut self, wanted: usize, now: Instant) -> usize {
        let each = Duration::from_secs(1) / self.a_second;
        let passed = now.saturating_duration_since(self.since).as_nanos() / each.as_nanos();
        let more = u32::try_from(passed).unwrap_or(u32::MAX).min(self.most);
        if more > 0 {
            self.left = (self.left + more).min(self.most);
            self.since = now;
        }
        let taken = u32::try_from(wanted).unwrap_or(u32::MAX).min(self.left);
        self.left -= taken;
        taken as usize
    }
}
