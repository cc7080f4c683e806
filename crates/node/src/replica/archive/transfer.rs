//! What peers that are far behind are sent: the chunks of a snapshot, read from its file, or made of a checkpoint when somebody asks.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quorate_core::Height;
use quorate_core::execution::whole;
use quorate_core::state_machine::{Checkpoint, Snapshot};
use quorate_journal::States;

/// A chunk that is being made is waited for no longer than this: others wait meanwhile, ...
const PATIENCE: Duration = Duration::from_millis(300);
/// ... and not at all if so many chunks are still to come before it.
const CHUNKS_AHEAD: usize = 8;
/// What nobody asks for any more is let go of: a peer waits for a second, turns to another replica, and may come back.
const IDLE: Duration = Duration::from_secs(60);
/// Snapshots in memory at once. As many liars must ask for other ones at the same time to keep an honest peer from its.
const OPEN: usize = 3;

/// The checkpoints of a state that is on disk: files have but what is beside them.
pub struct Checkpoints {
    /// The newest: it can be read until another is finished.
    newest: Option<(Height, Box<dyn Checkpoint>)>,
    /// An older one that peers are offered while no newer one is.
    offered: Option<(Height, Frozen)>,
}

impl Checkpoints {
    /// With one that was finished by an earlier process.
    pub fn new(newest: Option<(Height, Box<dyn Checkpoint>)>) -> Self {
        Self { newest, offered: None }
    }

    /// Another is about to be finished. What peers are offered by now stays.
    pub fn will_change(&mut self) {
        if let (Some((height, newest)), None) = (&self.newest, &self.offered) {
            // If it cannot be read there is nothing to send, and peers ask others.
            self.offered = newest.snapshot().ok().map(|snapshot| (*height, frozen(snapshot)));
        }
    }

    /// Another was finished, if the state keeps any.
    pub fn finished(&mut self, height: Height, checkpoint: Option<Box<dyn Checkpoint>>) {
        self.newest = checkpoint.map(|checkpoint| (height, checkpoint));
    }

    /// From now on peers are offered what was at `height`.
    pub fn offered(&mut self, height: Height) {
        self.offered.take_if(|(older, _)| *older < height);
    }

    /// The application's part of the state at a height, if it can still be read.
    fn at(&self, height: Height) -> Option<Frozen> {
        match &self.newest {
            Some((newest, checkpoint)) if *newest == height => {
                checkpoint.snapshot().ok().map(frozen)
            }
            _ => self
                .offered
                .as_ref()
                .filter(|(offered, _)| *offered == height)
                .map(|(_, old)| Arc::clone(old)),
        }
    }
}

/// The application's part of a state, for one thread at a time.
type Frozen = Arc<Mutex<Box<dyn Snapshot>>>;

fn frozen(snapshot: Box<dyn Snapshot>) -> Frozen {
    Arc::new(Mutex::new(snapshot))
}

/// The snapshots being sent: in memory, each for all who ask for it.
pub struct Transfers {
    open: Vec<Transfer>,
    /// No peer takes more.
    max_bytes: u64,
}

impl Transfers {
    pub fn new(max_bytes: u64) -> Self {
        Self { open: Vec::new(), max_bytes }
    }

    /// Whether there is something to [let go of](Self::sweep) some time.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Lets go of what nobody asks for any more.
    pub fn sweep(&mut self) {
        self.open.retain(|transfer| transfer.asked.elapsed() < IDLE && !transfer.has_failed());
    }

    /// A chunk of the snapshot at a height, and whether it is the last; nothing if there is no such snapshot, or chunk, or not yet.
    pub fn chunk(
        &mut self,
        states: &States,
        checkpoints: &Checkpoints,
        height: Height,
        index: u32,
    ) -> Option<(Bytes, bool)> {
        self.sweep();
        if let Some(open) = self.open.iter_mut().find(|open| open.height == height) {
            return open.chunk(index);
        }
        if self.open.len() >= OPEN {
            let lowest = self.open.iter().map(|open| open.height).min();
            if lowest > Some(height) {
                return None;
            }
        }
        let mut begun = Transfer::begin(states, checkpoints, height, self.max_bytes)?;
        if self.open.len() >= OPEN {
            self.open.sort_unstable_by_key(|open| open.height);
            self.open.remove(0);
        }
        let chunk = begun.chunk(index);
        self.open.push(begun);
        chunk
    }
}

/// A snapshot being sent.
struct Transfer {
    height: Height,
    asked: Instant,
    /// How long a chunk may be waited for.
    patience: Duration,
    chunks: Arc<Chunks>,
    maker: Option<JoinHandle<()>>,
}

/// Chunks, which may be becoming more.
#[derive(Default)]
struct Chunks {
    so_far: Mutex<SoFar>,
    more: Condvar,
}

#[derive(Default)]
struct SoFar {
    chunks: Vec<Bytes>,
    bytes: u64,
    /// There will be no more.
    ended: bool,
    /// There should have been more.
    failed: bool,
    /// Nobody asks for them any more.
    given_up: bool,
}

impl Transfer {
    /// Of the snapshot at a height, if there is one.
    fn begin(
        states: &States,
        checkpoints: &Checkpoints,
        height: Height,
        max_bytes: u64,
    ) -> Option<Self> {
        if let Ok(written) = states.chunks(height) {
            return Some(Self::of(height, written));
        }
        let beside = states.chunks_beside(height).ok()?;
        Self::make(height, beside, checkpoints.at(height)?, max_bytes)
    }

    fn of(height: Height, chunks: Vec<Bytes>) -> Self {
        let so_far = Mutex::new(SoFar { chunks, ended: true, ..SoFar::default() });
        let chunks = Arc::new(Chunks { so_far, more: Condvar::new() });
        Self { height, asked: Instant::now(), patience: PATIENCE, chunks, maker: None }
    }

    /// Made at its own pace: a peer that is slow, or says no more, must not keep the store from using its slots again.
    fn make(
        height: Height,
        beside: Vec<Bytes>,
        application: Frozen,
        max_bytes: u64,
    ) -> Option<Self> {
        let chunks = Arc::new(Chunks::default());
        let made = Arc::clone(&chunks);
        let maker = std::thread::Builder::new().name("snapshot".to_owned()).spawn(move || {
            let application = application.lock().unwrap_or_else(PoisonError::into_inner);
            made.make(beside, application.as_ref(), max_bytes);
        });
        let maker = Some(maker.ok()?);
        Some(Self { height, asked: Instant::now(), patience: PATIENCE, chunks, maker })
    }

    fn has_failed(&self) -> bool {
        self.chunks.lock().failed
    }

    fn chunk(&mut self, index: u32) -> Option<(Bytes, bool)> {
        self.asked = Instant::now();
        let index = index as usize;
        let so_far = self.chunks.lock();
        if index > so_far.chunks.len() + CHUNKS_AHEAD {
            return None;
        }
        // Whether it is the last is known when there is another.
        let missing = |so_far: &mut SoFar| so_far.chunks.len() <= index + 1 && !so_far.ended;
        let waited = self.chunks.more.wait_timeout_while(so_far, self.patience, missing);
        let (so_far, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        let is_last = index + 1 == so_far.chunks.len();
        if timeout.timed_out() || is_last && so_far.failed {
            return None;
        }
        Some((so_far.chunks.get(index)?.clone(), is_last))
    }
}

impl Drop for Transfer {
    /// Waits for who makes it, a chunk long: the store is in its hands.
    fn drop(&mut self) {
        self.chunks.lock().given_up = true;
        if let Some(maker) = self.maker.take() {
            // If it panicked, so did the snapshot: nobody has it any more.
            let _ = maker.join();
        }
    }
}

impl Chunks {
    fn lock(&self) -> MutexGuard<'_, SoFar> {
        self.so_far.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn make(&self, beside: Vec<Bytes>, application: &dyn Snapshot, max_bytes: u64) {
        // If this panics, nobody shall wait for it.
        let end = Ending(self);
        let made = whole(beside, application, &mut |chunk| {
            let mut so_far = self.lock();
            so_far.bytes += chunk.len() as u64;
            so_far.chunks.push(chunk);
            so_far.failed |= so_far.bytes > max_bytes;
            let goes_on = !so_far.failed && !so_far.given_up;
            drop(so_far);
            self.more.notify_all();
            goes_on
        });
        let failed = made.is_err() || application.failure().is_some();
        let mut so_far = self.lock();
        so_far.failed |= failed;
        so_far.ended = true;
        drop(so_far);
        drop(end);
    }
}

/// What is not ended when it is dropped has failed.
struct Ending<'a>(&'a Chunks);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let mut so_far = self.0.lock();
        so_far.failed |= !so_far.ended;
        so_far.ended = true;
        drop(so_far);
        self.0.more.notify_all();
    }
}

#[cfg(test)]
mod tests;
