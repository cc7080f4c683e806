//! What peers that are far behind are sent: the chunks of a snapshot, read from its file, or made
//! of a checkpoint when somebody asks. Either way they pass through a file, and not through memory
//! as a whole.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quorate_core::Height;
use quorate_core::ledger::execution::whole;
use quorate_core::ledger::state_machine::{Checkpoint, Snapshot};
use quorate_journal::{Spool, States};

/// A chunk that is being made is waited for no longer than this: others wait meanwhile, ...
const PATIENCE: Duration = Duration::from_millis(300);
/// ... and not at all if so many chunks are still to come before it.
const CHUNKS_AHEAD: usize = 8;
/// What nobody asks for any more is let go of: a peer waits for a second, turns to another replica,
/// and may come back.
const IDLE: Duration = Duration::from_secs(60);
/// Snapshots at once: each is one more copy of the state on disk. As many liars must ask for other
/// ones at the same time to keep an honest peer from its.
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

/// The snapshots being sent: in files without names, each for all who ask for it.
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
        self.open.retain(|transfer| {
            // One that failed, on a full disk perhaps, is not tried again at once.
            transfer.failed().unwrap_or(transfer.asked).elapsed() < IDLE
        });
    }

    /// Whether the snapshot at a height is being sent, and more of it may come.
    pub fn sends(&self, height: Height) -> bool {
        self.open.iter().any(|open| open.height == height && open.failed().is_none())
    }

    /// A chunk of the snapshot at a height, and whether it is the last; nothing if there is no such
    /// snapshot, or chunk, or not yet.
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
            self.open.sort_unstable_by_key(|open| (open.failed().is_none(), open.height));
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
    /// When it was asked for last.
    asked: Instant,
    /// How long a chunk may be waited for.
    patience: Duration,
    chunks: Arc<Chunks>,
    maker: Option<JoinHandle<()>>,
}

/// Chunks, which may be becoming more.
struct Chunks {
    so_far: Mutex<SoFar>,
    more: Condvar,
}

struct SoFar {
    /// Nothing any more if it has failed: then it takes no room.
    chunks: Option<Spool>,
    /// There will be no more.
    ended: bool,
    /// There should have been more: since when that is known.
    failed: Option<Instant>,
    /// Nobody asks for them any more.
    given_up: bool,
}

/// Hands out chunks until no more are wanted; says why they are not what they should be.
type Source = Box<dyn FnOnce(Sink<'_>) -> Result<(), String> + Send>;
type Sink<'a> = &'a mut dyn FnMut(Bytes) -> bool;

impl Transfer {
    /// Of the snapshot at a height, if there is one.
    fn begin(
        states: &States,
        checkpoints: &Checkpoints,
        height: Height,
        max_bytes: u64,
    ) -> Option<Self> {
        if let Ok(written) = states.whole(height) {
            let spool = written.spool();
            let source =
                move |sink: Sink<'_>| written.stream(sink).map_err(|error| error.to_string());
            return Self::make(height, spool, Box::new(source), max_bytes);
        }
        let beside = states.chunks_beside(height).ok()?;
        let application = checkpoints.at(height)?;
        let source = move |sink: Sink<'_>| {
            let application = application.lock().unwrap_or_else(PoisonError::into_inner);
            whole(beside, application.as_ref(), sink).map_err(|error| error.to_string())?;
            application.failure().map_or(Ok(()), |failure| Err(failure.to_string()))
        };
        // If it cannot be had, peers ask others.
        Self::make(height, states.spool().ok()?, Box::new(source), max_bytes)
    }

    /// Made at its own pace: a peer that is slow, or says no more, must not keep the store from
    /// using its slots again.
    fn make(height: Height, spool: Spool, source: Source, max_bytes: u64) -> Option<Self> {
        let chunks = Arc::new(Chunks::new(spool));
        let made = Arc::clone(&chunks);
        let maker = std::thread::Builder::new().name("snapshot".to_owned());
        let maker = Some(maker.spawn(move || made.make(height, source, max_bytes)).ok()?);
        Some(Self { height, asked: Instant::now(), patience: PATIENCE, chunks, maker })
    }

    /// Since when it is known that it cannot be made.
    fn failed(&self) -> Option<Instant> {
        self.chunks.lock().failed
    }

    fn chunk(&mut self, index: u32) -> Option<(Bytes, bool)> {
        self.asked = Instant::now();
        let index = index as usize;
        let so_far = self.chunks.lock();
        if index > so_far.len() + CHUNKS_AHEAD {
            return None;
        }
        // Whether it is the last is known when there is another.
        let missing = |so_far: &mut SoFar| so_far.len() <= index + 1 && !so_far.ended;
        let waited = self.chunks.more.wait_timeout_while(so_far, self.patience, missing);
        let (so_far, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        let is_last = index + 1 == so_far.len();
        if timeout.timed_out() || so_far.failed.is_some() {
            return None;
        }
        let found = so_far.chunks.as_ref()?.chunk(index)?;
        drop(so_far);
        Some((found.read().ok()?, is_last))
    }
}

impl SoFar {
    /// There will be no whole snapshot; what there is takes no room any more.
    fn fail(&mut self) {
        self.failed.get_or_insert_with(Instant::now);
        self.chunks = None;
    }

    fn len(&self) -> usize {
        self.chunks.as_ref().map_or(0, Spool::len)
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
    fn new(chunks: Spool) -> Self {
        let chunks = Some(chunks);
        let so_far = SoFar { chunks, ended: false, failed: None, given_up: false };
        Self { so_far: Mutex::new(so_far), more: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, SoFar> {
        self.so_far.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn make(&self, height: Height, source: Source, max_bytes: u64) {
        // If this panics, nobody shall wait for it.
        let end = Ending(self);
        let mut refused = None;
        let made = source(&mut |chunk| {
            let added = self.add(&chunk, max_bytes);
            self.more.notify_all();
            added.unwrap_or_else(|reason| {
                refused = Some(reason);
                false
            })
        });
        let reason = refused.or(made.err());
        let mut so_far = self.lock();
        so_far.ended = true;
        if let Some(reason) = reason {
            so_far.fail();
            tracing::warn!(%height, %reason, "a snapshot for a replica that is behind cannot be made; it may ask others");
        }
        drop(so_far);
        drop(end);
    }

    /// Adds a chunk; says whether more are wanted.
    fn add(&self, chunk: &Bytes, max_bytes: u64) -> Result<bool, String> {
        let place = self.lock().chunks.as_ref().map(|chunks| chunks.next(chunk.len()));
        let place = place.ok_or("it was given up")?;
        // Not under the lock, which whoever asks waits for.
        place.write(chunk).map_err(|error| format!("{error}; make room in the data folder"))?;
        let mut so_far = self.lock();
        if let Some(chunks) = &mut so_far.chunks {
            if chunks.bytes() + chunk.len() as u64 > max_bytes {
                return Err(format!(
                    "it has more than {max_bytes} bytes (limits.max_snapshot_bytes)"
                ));
            }
            chunks.add(&place);
        }
        Ok(!so_far.given_up)
    }
}

/// What is not ended when it is dropped has failed.
struct Ending<'a>(&'a Chunks);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let mut so_far = self.0.lock();
        if !so_far.ended {
            so_far.fail();
        }
        so_far.ended = true;
        drop(so_far);
        self.0.more.notify_all();
    }
}

#[cfg(test)]
mod tests;
