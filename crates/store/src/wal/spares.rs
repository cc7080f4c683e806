//! Spares: files that wait to become segments.
//!
//! No commit pays for a new file. With [`Preparation::Ahead`] a thread does these chores beside the
//! log, one at a time:
//! - It renames retired segments to spares, or removes them.
//! - If no spare is ready, it makes one. The file grows by pieces while the log fills the active
//!   segment, twice as fast as the log. A file that is written at once would fill the disk's queue,
//!   and commits would wait behind it.
//!
//! With [`Preparation::Inline`] the caller's thread does the same chores, at the same places of the
//! log.

use super::error::Error;
use super::format::PAGE_BYTES;
use super::options::{Options, Preparation};
use super::segment::Segment;
use crate::disk::{Disk, DiskFile};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// The most bytes by which a spare grows at a time.
const PIECE_BYTES: u64 = 1 << 20;
/// The least number of pieces of a spare.
const PIECES: u64 = 8;

/// A file of the right size whose content has no meaning.
pub(super) struct Spare {
    pub(super) name: String,
    pub(super) file: Arc<dyn DiskFile>,
}

/// The log's side.
pub(super) struct Spares {
    shared: Arc<Shared>,
    /// `None`: the caller's thread does the chores.
    thread: Option<JoinHandle<()>>,
    /// The wanted length of the growing spare when the chores were last looked at.
    told: u64,
}

struct Shared {
    disk: Arc<dyn Disk>,
    segment_bytes: u64,
    piece_bytes: u64,
    filled: bool,
    most_ready: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    ready: Vec<Spare>,
    /// A spare that is being made, and its length so far.
    growing: Option<(Spare, u64)>,
    /// The length that it is to have by now.
    wanted: u64,
    /// The log waits for a spare.
    awaited: bool,
    /// Segments to retire, oldest first.
    retired: VecDeque<Segment>,
    next_number: u64,
    /// The reason why the last spare was not made. None is tried until the log needs one.
    unmade: Option<Error>,
    /// The reason why a segment was not retired, or a spare not synced. It ends the log.
    failed: Option<Error>,
    /// There was such a reason: nothing more is done to the folder. Segments go oldest first, and
    /// one that stays keeps all later ones.
    stopped: bool,
    /// The log is closed: only retired segments are left to do.
    closed: bool,
    /// The thread has ended.
    ended: bool,
}

/// Work that no commit waits for.
enum Chore {
    /// Rename a segment to this spare, or remove it.
    Retire(Segment, Option<String>),
    /// Create a spare.
    Begin(String),
    /// Grow a spare of this length to that one.
    Grow(Spare, u64, u64),
}

/// The result of a chore.
enum Done {
    Ready(Spare),
    Growing(Spare, u64),
    Removed,
    Unmade(Error),
    Failed(Error),
}

/// The name of spare `number`.
fn spare_name(number: u64) -> String {
    format!("{number:020}.spare")
}

/// The number of the spare, if `name` is a spare's.
fn spare_number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".spare")?;
    (digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit()))
        .then(|| digits.parse().ok())?
}

impl Spares {
    /// Takes over the spares among `names` that an earlier run left. Those of another size are
    /// removed, and so are those that an earlier run did not finish.
    pub(super) fn open(
        disk: Arc<dyn Disk>,
        options: &Options,
        names: &[String],
    ) -> Result<Spares, Error> {
        let mut state = State::default();
        for name in names.iter().filter(|name| name.ends_with(".spare")) {
            let number = spare_number(name).ok_or_else(|| Error::Foreign { file: name.clone() })?;
            state.next_number = state.next_number.max(number.saturating_add(1));
            let file = disk.open(name).map_err(Error::io(name, "open"))?;
            let size = file.size().map_err(Error::io(name, "measure"))?;
            if size == options.segment_bytes && state.ready.len() < options.most_spares {
                state.ready.push(Spare { name: name.clone(), file });
            } else {
                disk.remove(name).map_err(Error::io(name, "remove"))?;
            }
        }
        let piece_bytes = (options.segment_bytes / PIECES).next_multiple_of(PAGE_BYTES);
        let shared = Arc::new(Shared {
            disk,
            segment_bytes: options.segment_bytes,
            piece_bytes: piece_bytes.min(PIECE_BYTES),
            filled: options.filled,
            most_ready: options.most_spares,
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let thread = match options.preparation {
            Preparation::Inline => None,
            Preparation::Ahead => {
                let (shared, work) = (Arc::clone(&shared), thread::Builder::new());
                let spawned = work.name("wal-spares".to_string()).spawn(move || shared.run());
                Some(spawned.map_err(Error::io("the spares", "start a thread for"))?)
            }
        };
        Ok(Spares { shared, thread, told: 0 })
    }

    /// Notes that the active segment is written up to this offset: a spare is to be half as far
    /// from its end.
    pub(super) fn written(&mut self, offset: u64) {
        let wanted = offset.saturating_mul(2).saturating_add(self.shared.piece_bytes);
        if (self.told..self.told.saturating_add(self.shared.piece_bytes)).contains(&wanted) {
            return;
        }
        self.told = wanted;
        self.shared.lock().wanted = wanted;
        self.work();
    }

    /// A file for the next segment: a ready one, or one that is finished now.
    pub(super) fn take(&mut self) -> Result<Spare, Error> {
        let mut state = self.shared.lock();
        // There may be room again.
        state.unmade = None;
        loop {
            state.awaited = state.ready.is_empty();
            if let Some(spare) = state.ready.pop() {
                return Ok(spare);
            }
            if let Some(error) = state.failed.take().or_else(|| state.unmade.take()) {
                state.awaited = false;
                return Err(error);
            }
            if state.ended || state.stopped {
                let reason = match state.stopped {
                    true => "a segment was not retired, or a spare not synced".to_string(),
                    false => "the thread that prepares segments panicked".to_string(),
                };
                return Err(Error::Poisoned { reason });
            }
            state = match &self.thread {
                None => self.shared.do_next(state).0,
                Some(_) => {
                    self.shared.changed.notify_all();
                    self.shared.wait(state)
                }
            };
        }
    }

    /// Retires a segment: its file becomes a spare or is removed. Segments are retired oldest
    /// first. Returns the number of syncs that the caller's thread made.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub(super) fn retire(&mut self, segment: Segment) -> Result<u64, Error> {
        self.shared.lock().retired.push_back(segment);
        self.work();
        self.check()?;
        Ok(u64::from(self.thread.is_none()))
    }

    /// Whether the log may go on.
    ///
    /// # Errors
    /// The disk's error beside the log, once.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.shared.lock().failed.take().map_or(Ok(()), Err)
    }

    /// The size of the spares that are ready, and of the segments that are being retired.
    pub(super) fn bytes(&self) -> u64 {
        let state = self.shared.lock();
        let retired = state.retired.iter().map(|segment| segment.geometry.segment_bytes);
        state.ready.len() as u64 * self.shared.segment_bytes + retired.sum::<u64>()
    }

    /// Has the chores done that are due, or does them.
    fn work(&self) {
        if self.thread.is_some() {
            self.shared.changed.notify_all();
            return;
        }
        let mut state = self.shared.lock();
        let mut more = true;
        while more {
            (state, more) = self.shared.do_next(state);
        }
    }
}

impl Drop for Spares {
    /// Waits for the thread: nothing may write to the folder after its lock is released.
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.shared.lock().closed = true;
            self.shared.changed.notify_all();
            // If it panicked, the next run examines the files itself.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread: does chores until the log is closed.
    fn run(&self) {
        /// Tells the log that the thread has ended, even by a panic.
        struct End<'a>(&'a Shared);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.lock().ended = true;
                self.0.changed.notify_all();
            }
        }
        let _end = End(self);
        let mut state = self.lock();
        loop {
            let did;
            (state, did) = self.do_next(state);
            if !did && state.closed {
                return;
            }
            if !did {
                state = self.wait(state);
            }
        }
    }

    /// Does the next chore, without the lock. Returns whether there was one.
    fn do_next<'a>(&'a self, mut state: MutexGuard<'a, State>) -> (MutexGuard<'a, State>, bool) {
        let Some(chore) = state.next(self) else { return (state, false) };
        drop(state);
        let done = self.carry_out(chore);
        let mut state = self.lock();
        match done {
            Done::Ready(spare) => state.ready.push(spare),
            Done::Growing(spare, bytes) => state.growing = Some((spare, bytes)),
            Done::Removed => {}
            Done::Unmade(error) => state.unmade = Some(error),
            Done::Failed(error) => (state.stopped, state.failed) = (true, Some(error)),
        }
        self.changed.notify_all();
        (state, true)
    }

    fn carry_out(&self, chore: Chore) -> Done {
        match chore {
            Chore::Retire(segment, spare) => match self.retire(segment, spare) {
                Ok(Some(spare)) => Done::Ready(spare),
                Ok(None) => Done::Removed,
                Err(error) => Done::Failed(error),
            },
            Chore::Begin(name) => self.begin(name),
            Chore::Grow(spare, from, to) => self.grow(spare, from, to),
        }
    }

    /// Removes the name of a segment durably. Segments go oldest first and one by one: no crash may
    /// leave a gap between them, and no file may be reused before the removal of its old name is
    /// durable.
    fn retire(&self, segment: Segment, spare: Option<String>) -> Result<Option<Spare>, Error> {
        let Segment { name, file, .. } = segment;
        match &spare {
            Some(spare) => self.disk.rename(&name, spare).map_err(Error::io(&name, "rename"))?,
            None => self.disk.remove(&name).map_err(Error::io(&name, "remove"))?,
        }
        self.disk.sync_dir().map_err(Error::io("the folder", "sync"))?;
        Ok(spare.map(|name| Spare { name, file }))
    }

    /// Creates an empty file to be filled, or one with reserved blocks.
    fn begin(&self, name: String) -> Done {
        let created = match self.filled {
            true => self.disk.create(&name, 0),
            false => self.disk.reserve(&name, self.segment_bytes),
        };
        match created.map_err(Error::io(&name, "create")) {
            Ok(file) if self.filled => Done::Growing(Spare { name, file }, 0),
            Ok(file) => Done::Ready(Spare { name, file }),
            Err(error) => self.unmade(&name, error),
        }
    }

    /// Writes zeros. The sync at the end is only for speed: the first commit should not pay for the
    /// allocation.
    fn grow(&self, spare: Spare, from: u64, to: u64) -> Done {
        if let Err(error) = spare.file.extend(to).map_err(Error::io(&spare.name, "fill")) {
            return self.unmade(&spare.name, error);
        }
        spare.file.begin_to_write_out(from..to);
        if to < self.segment_bytes {
            return Done::Growing(spare, to);
        }
        match spare.file.sync_data().map_err(Error::io(&spare.name, "sync")) {
            Ok(()) => Done::Ready(spare),
            // A disk that loses writes is not to be written to.
            Err(error) => Done::Failed(error),
        }
    }

    /// Gives back the room of a spare that could not be made.
    fn unmade(&self, name: &str, error: Error) -> Done {
        // The next start removes it as well.
        let _ = self.disk.remove(name);
        Done::Unmade(error)
    }
}

impl State {
    /// The next chore that is due.
    fn next(&mut self, shared: &Shared) -> Option<Chore> {
        if self.stopped {
            return None;
        }
        if let Some(segment) = self.retired.pop_front() {
            let is_kept = segment.geometry.segment_bytes == shared.segment_bytes
                && self.ready.len() < shared.most_ready;
            let spare = is_kept.then(|| self.next_name());
            return Some(Chore::Retire(segment, spare));
        }
        if self.closed || !self.ready.is_empty() || self.unmade.is_some() {
            return None;
        }
        let Some((spare, from)) = self.growing.take() else {
            let is_due = self.awaited || self.wanted > 0;
            return is_due.then(|| Chore::Begin(self.next_name()));
        };
        let to = (from + shared.piece_bytes).min(shared.segment_bytes);
        if self.awaited || to <= self.wanted {
            return Some(Chore::Grow(spare, from, to));
        }
        self.growing = Some((spare, from));
        None
    }

    fn next_name(&mut self) -> String {
        let name = spare_name(self.next_number);
        self.next_number = self.next_number.saturating_add(1);
        name
    }
}
