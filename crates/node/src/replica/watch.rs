//! The application, watched: in which call it is, and since when.
//!
//! A call that does not return holds up the thread that made it, and nothing can break it off. So
//! each is noted before it is made, and others tell of it: `/status`, `/readyz`, `/metrics`, the
//! log, and the message of a replica that was to stop.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use quorate_core::ledger::execution::{Progress, panic_message};
use quorate_core::ledger::state_machine::{
    Decided, KeepError, Keeper, Prover, Reader, Replies, RestoreError, Restorer, Snapshot,
    StateMachine, Usage,
};
use quorate_core::{Digest, Height, planted};

/// A call that lasts this long is told.
pub const LONG: Duration = Duration::from_secs(5);

/// Which of the replica's threads waits for the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The one that decides: it takes part in nothing meanwhile.
    Deciding,
    /// The one that answers questions.
    Questions,
    /// The one that writes snapshots.
    Snapshots,
}

impl Place {
    const ALL: [Self; 3] = [Self::Deciding, Self::Questions, Self::Snapshots];
}

/// What the application is asked to do.
#[derive(Clone, Debug)]
enum Work {
    Block(Height, Option<Arc<Progress>>),
    /// As in "has been ...".
    Other(&'static str),
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Block(height, progress) => {
                write!(f, "executing the block at height {height}")?;
                match progress.as_ref().and_then(|progress| progress.at_work()) {
                    Some(command) => write!(f, " (now at {command})"),
                    None => Ok(()),
                }
            }
            Self::Other(work) => f.write_str(work),
        }
    }
}

#[derive(Debug)]
struct Call {
    work: Work,
    began: Instant,
    /// It is told in the log when it has lasted this long.
    tell_at: Duration,
}

/// What the application is at; shared by all who want to know.
#[derive(Debug, Default)]
pub struct Watch {
    application: String,
    calls: [Mutex<Option<Call>>; 3],
    panicked: Mutex<Option<String>>,
}

impl Watch {
    /// Of the application with this name.
    pub(super) fn of(application: &str) -> Self {
        Self { application: application.to_owned(), ..Self::default() }
    }

    fn call_at(&self, place: Place) -> MutexGuard<'_, Option<Call>> {
        self.calls[place as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begins(&self, place: Place, work: Work) {
        if planted!("application-not-watched", false, true) {
            let began = Instant::now();
            *self.call_at(place) = Some(Call { work, began, tell_at: LONG });
        }
    }

    /// Calls the application.
    fn call<T>(&self, place: Place, work: Work, run: impl FnOnce() -> T) -> T {
        self.begins(place, work);
        let outcome = catch_unwind(AssertUnwindSafe(run));
        let ended = self.call_at(place).take();
        outcome.unwrap_or_else(|said| {
            if let Some(Call { work: Work::Other(work), .. }) = ended {
                let said = panic_message(&*said);
                let what =
                    format!("the application `{}` panicked, {work}: {said}", self.application);
                *self.panicked.lock().unwrap_or_else(PoisonError::into_inner) = Some(what);
            }
            resume_unwind(said)
        })
    }

    /// The call that has held this thread up for long, if one has: "the application `shop` has been
    /// … for 12 s".
    #[must_use]
    pub fn lasting(&self, place: Place) -> Option<String> {
        let call = self.call_at(place);
        let Call { work, began, .. } = call.as_ref()?;
        let lasted = began.elapsed();
        (lasted >= LONG).then(|| self.spoken(work, lasted))
    }

    /// Any such call.
    #[must_use]
    pub fn any_lasting(&self) -> Option<String> {
        Place::ALL.into_iter().find_map(|place| self.lasting(place))
    }

    /// For how long the deciding thread has waited for the application, whole seconds.
    #[must_use]
    pub fn busy_seconds(&self) -> u64 {
        let call = self.call_at(Place::Deciding);
        call.as_ref().map_or(0, |call| call.began.elapsed().as_secs())
    }

    /// What is new for the log: calls that last, each when its time has doubled.
    #[must_use]
    pub fn news(&self) -> Vec<String> {
        let mut news = Vec::new();
        for place in Place::ALL {
            let mut call = self.call_at(place);
            let Some(Call { work, began, tell_at }) = call.as_mut() else { continue };
            let lasted = began.elapsed();
            if lasted >= *tell_at {
                *tell_at = lasted * 2;
                news.push(self.spoken(work, lasted));
            }
        }
        news
    }

    fn spoken(&self, work: &Work, lasted: Duration) -> String {
        let (application, seconds) = (&self.application, lasted.as_secs());
        format!("the application `{application}` has been {work} for {seconds} s")
    }

    /// What the application said when it panicked where nobody can go on.
    #[must_use]
    pub fn panicked(&self) -> Option<String> {
        self.panicked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// An application whose calls are noted.
pub struct Watched<S> {
    application: S,
    watch: Arc<Watch>,
    /// The newest rules that a laboratory has it support.
    newest_rules: Option<u16>,
}

impl<S> Watched<S> {
    /// Notes the calls of `application` in `watch`.
    pub fn new(application: S, watch: Arc<Watch>) -> Self {
        Self { application, watch, newest_rules: None }
    }

    /// The same, as if it were of a release that supports rules up to these; `None`: its own.
    #[must_use]
    pub fn supporting(self, newest_rules: Option<u16>) -> Self {
        Self { newest_rules, ..self }
    }
}

impl<S: StateMachine> Watched<S> {
    fn ask<T>(&self, what: &'static str, run: impl FnOnce(&S) -> T) -> T {
        self.watch.call(Place::Deciding, Work::Other(what), || run(&self.application))
    }

    fn have<T>(&mut self, what: &'static str, run: impl FnOnce(&mut S) -> T) -> T {
        self.watch.call(Place::Deciding, Work::Other(what), || run(&mut self.application))
    }
}

impl<S: StateMachine> StateMachine for Watched<S> {
    fn apply(&mut self, block: &Decided<'_>, replies: &mut Replies) {
        let work = Work::Block(block.height, replies.progress().cloned());
        self.watch.call(Place::Deciding, work, || self.application.apply(block, replies));
    }

    fn newest_rules(&self) -> u16 {
        self.newest_rules.unwrap_or_else(|| self.application.newest_rules())
    }

    fn query(&self, question: &[u8]) -> Bytes {
        self.ask("answering a question", |it| it.query(question))
    }

    fn reader(&self) -> Option<Box<dyn Reader>> {
        let reader = self.ask("making a reader of its state", S::reader)?;
        Some(Box::new(WatchedReader { reader, watch: Arc::clone(&self.watch) }))
    }

    fn usage(&self) -> Option<Usage> {
        self.ask("saying what its state takes", S::usage)
    }

    fn root(&mut self) -> Digest {
        self.have("computing the root of its state", S::root)
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        let snapshot = self.ask("freezing its state for a snapshot", S::snapshot);
        Box::new(WatchedSnapshot { snapshot, watch: Arc::clone(&self.watch) })
    }

    fn restore(&mut self, chunks: &mut dyn Iterator<Item = Bytes>) -> Result<(), RestoreError> {
        self.have("taking over a snapshot", |it| it.restore(chunks))
    }

    fn restorer(&mut self) -> Option<&mut dyn Restorer> {
        self.application.restorer()
    }

    fn prover(&self) -> Option<Box<dyn Prover>> {
        self.ask("making a prover of its state", S::prover)
    }

    fn keeper(&mut self) -> Option<&mut dyn Keeper> {
        self.application.keeper()
    }

    fn mark(&mut self) -> bool {
        self.have("marking its state", S::mark)
    }

    fn keep(&mut self) {
        self.have("keeping what a block led to", S::keep);
    }

    fn undo(&mut self) {
        self.have("undoing a block", S::undo);
    }

    fn fault(&self) -> Option<String> {
        self.application.fault()
    }
}

struct WatchedReader {
    reader: Box<dyn Reader>,
    watch: Arc<Watch>,
}

impl Reader for WatchedReader {
    fn answer(&self, question: &[u8]) -> Result<Bytes, KeepError> {
        let work = Work::Other("answering a question");
        self.watch.call(Place::Questions, work, || self.reader.answer(question))
    }
}

struct WatchedSnapshot {
    snapshot: Box<dyn Snapshot>,
    watch: Arc<Watch>,
}

impl Snapshot for WatchedSnapshot {
    fn chunks(&self, sink: &mut dyn FnMut(&[u8]) -> bool) {
        const WORK: Work = Work::Other("handing out a chunk of a snapshot");
        self.watch.call(Place::Snapshots, WORK, || {
            self.snapshot.chunks(&mut |chunk| {
                // The disk's time is not the application's.
                drop(self.watch.call_at(Place::Snapshots).take());
                let wants_more = sink(chunk);
                self.watch.begins(Place::Snapshots, WORK);
                wants_more
            });
        });
    }

    fn failure(&self) -> Option<KeepError> {
        self.snapshot.failure()
    }
}
