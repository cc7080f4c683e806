//! What peers that are far behind are sent: the chunks of a snapshot, read from its file, or made of a checkpoint when somebody asks.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use quorate_core::Height;
use quorate_core::execution::whole;
use quorate_core::state_machine::{Checkpoint, Snapshot};
use quorate_journal::States;

/// A chunk that is being made is waited for no longer than this: a peer that has waited a second asks another.
const PATIENCE: Duration = Duration::from_millis(700);

/// The checkpoints of a state that is on disk: files have but what is beside them.
pub struct Checkpoints {
    /// The newest: it can be read until another is finished.
    newest: Option<(Height, Box<dyn Checkpoint>)>,
    /// An older one that peers are offered while no newer one is.
    offered: Option<(Height, Box<dyn Snapshot>)>,
}

impl Checkpoints {
    /// With one that was finished by an earlier process.
    pub fn new(newest: Option<(Height, Box<dyn Checkpoint>)>) -> Self {
        Self { newest, offered: None }
    }

    /// Another was finished, if the state keeps any.
    pub fn finished(&mut self, height: Height, checkpoint: Option<Box<dyn Checkpoint>>) {
        self.newest = checkpoint.map(|checkpoint| (height, checkpoint));
    }

    /// Another is about to be finished. What peers are offered by now stays.
    pub fn will_change(&mut self) {
        if let (Some((height, newest)), None) = (&self.newest, &self.offered) {
            // If it cannot be read there is nothing to send, and peers ask others.
            self.offered = newest.snapshot().ok().map(|snapshot| (*height, snapshot));
        }
    }

    /// From now on peers are offered what was at `height`.
    pub fn offered(&mut self, height: Height) {
        self.offered.take_if(|(older, _)| *older < height);
    }

    /// The application's part of the state at a height, if it can still be read.
    fn take(&mut self, height: Height) -> Option<Box<dyn Snapshot>> {
        match &self.newest {
            Some((newest, checkpoint)) if *newest == height => checkpoint.snapshot().ok(),
            _ => self.offered.take_if(|(offered, _)| *offered == height).map(|(_, old)| old),
        }
    }
}

/// A snapshot being sent.
pub struct Transfer {
    pub height: Height,
    chunks: Arc<Chunks>,
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
    /// There will be no more.
    ended: bool,
    /// There should have been more.
    failed: bool,
}

impl Transfer {
    /// Of the snapshot at a height, if there is one.
    pub fn begin(states: &States, checkpoints: &mut Checkpoints, height: Height) -> Option<Self> {
        let chunks = Arc::new(Chunks::default());
        if let Ok(written) = states.chunks(height) {
            *chunks.lock() = SoFar { chunks: written, ended: true, failed: false };
            return Some(Self { height, chunks });
        }
        let beside = states.chunks_beside(height).ok()?;
        let application = checkpoints.take(height)?;
        let maker = Arc::clone(&chunks);
        // At its own pace: a peer that is slow, or says no more, must not keep the store from using its slots again.
        let made = std::thread::Builder::new()
            .name("snapshot".to_owned())
            .spawn(move || maker.make(beside, &*application));
        made.is_ok().then_some(Self { height, chunks })
    }

    /// A chunk, and whether it is the last.
    pub fn chunk(&self, index: u32) -> Option<(Bytes, bool)> {
        let index = index as usize;
        let so_far = self.chunks.lock();
        // Whether it is the last is known when there is another.
        let missing =
            |so_far: &mut SoFar| so_far.chunks.len() <= index.saturating_add(1) && !so_far.ended;
        let waited = self.chunks.more.wait_timeout_while(so_far, PATIENCE, missing);
        let (so_far, timed_out) = waited.unwrap_or_else(PoisonError::into_inner);
        let is_last = index.saturating_add(1) == so_far.chunks.len();
        if timed_out.timed_out() || is_last && so_far.failed {
            return None;
        }
        Some((so_far.chunks.get(index)?.clone(), is_last))
    }
}

impl Chunks {
    fn lock(&self) -> MutexGuard<'_, SoFar> {
        self.so_far.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn make(self: Arc<Self>, beside: Vec<Bytes>, application: &dyn Snapshot) {
        let made = whole(beside, application, &mut |chunk| {
            self.lock().chunks.push(chunk);
            self.more.notify_all();
            // Nobody else has it: it is not sent any more.
            Arc::strong_count(&self) > 1
        });
        let mut so_far = self.lock();
        so_far.failed = made.is_err() || application.failure().is_some();
        so_far.ended = true;
        drop(so_far);
        self.more.notify_all();
    }
}
