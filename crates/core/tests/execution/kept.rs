//! A state that outlives the process: a checkpoint of the application's, and beside it what else
//! belongs to the state.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use quorate_core::Digest;
use quorate_core::Height;
use quorate_core::View;
use quorate_core::ledger::execution::{Execution, KeptNote, ResumeError, SnapshotError, whole};
use quorate_core::ledger::sessions::Limits;
use quorate_core::ledger::state_machine::{
    Checkpoint, Decided, KeepError, Keeper, Left, Replies, RestoreError, Snapshot, StateMachine,
};

use crate::fixtures::{GENESIS, Journal, frame, open};

/// What outlives the process: a state and its note.
type Held = Arc<Mutex<Option<(Journal, Vec<u8>)>>>;

/// A journal that is kept.
#[derive(Default)]
struct Kept {
    journal: Journal,
    held: Held,
    /// What fails at the next check.
    broken: Option<KeepError>,
}

impl StateMachine for Kept {
    fn apply(&mut self, block: &Decided<'_>, replies: &mut Replies) {
        self.journal.apply(block, replies);
    }

    fn query(&self, question: &[u8]) -> Bytes {
        self.journal.query(question)
    }

    fn root(&mut self) -> Digest {
        self.journal.root()
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        self.journal.snapshot()
    }

    fn restore(&mut self, chunks: &mut dyn Iterator<Item = Bytes>) -> Result<(), RestoreError> {
        self.journal.restore(chunks)
    }

    fn keeper(&mut self) -> Option<&mut dyn Keeper> {
        Some(self)
    }
}

impl Keeper for Kept {
    fn check(&mut self) -> Result<(), KeepError> {
        self.broken.take().map_or(Ok(()), Err)
    }

    fn is_due(&self) -> bool {
        false
    }

    fn begin_checkpoint(&mut self, note: &[u8]) -> Result<Box<dyn Checkpoint>, KeepError> {
        self.check()?;
        let state = (self.journal.clone(), note.to_vec());
        Ok(Box::new(Moment { state, held: Arc::clone(&self.held) }))
    }

    fn turn_back(&mut self) -> Result<Option<Left>, KeepError> {
        let Some(state) = self.held.lock().unwrap().clone() else { return Ok(None) };
        self.journal = state.0.clone();
        let note = Bytes::from(state.1.clone());
        let checkpoint = Box::new(Moment { state, held: Arc::clone(&self.held) });
        Ok(Some(Left { checkpoint, note }))
    }
}

struct Moment {
    state: (Journal, Vec<u8>),
    held: Held,
}

impl Checkpoint for Moment {
    fn finish(&mut self) -> Result<(), KeepError> {
        *self.held.lock().unwrap() = Some(self.state.clone());
        Ok(())
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot>, KeepError> {
        Ok(self.state.0.snapshot())
    }
}

fn gathered(snapshot: &dyn Snapshot) -> Vec<Bytes> {
    let mut chunks = Vec::new();
    snapshot.chunks(&mut |chunk| {
        chunks.push(Bytes::copy_from_slice(chunk));
        true
    });
    chunks
}

/// An execution behind so many blocks, and what of it outlives the process.
fn executed(commands: &[&str]) -> (Execution<Kept>, Held) {
    let kept = Kept::default();
    let held = Arc::clone(&kept.held);
    let mut execution = Execution::new(kept, Limits::default(), GENESIS).expect("limits of use");
    execution.execute(Height(1), View(1), Digest([101; 32]), &[open(1, 1)]).expect("a block");
    for (at, command) in (2..).zip(commands) {
        let frames = [frame(1, 1, at - 1, &[command])];
        execution
            .execute(Height(at), View(at), Digest([100 + at as u8; 32]), &frames)
            .expect("a block");
    }
    (execution, held)
}

/// What a process that comes after finds.
fn resume(
    held: &Held,
    beside: Vec<Bytes>,
    expected: Digest,
) -> Result<Execution<Kept>, ResumeError> {
    let mut kept = Kept { held: Arc::clone(held), ..Kept::default() };
    let Left { note, .. } = kept.turn_back().expect("it can be read").expect("a checkpoint");
    let note = KeptNote::decode(note).expect("a note");
    Execution::resume(kept, Limits::default(), &note, &mut beside.into_iter(), expected)
}

#[test]
fn a_checkpoint_is_gone_on_from_with_what_is_beside_it() {
    let (mut execution, held) = executed(&["a", "b"]);
    let root = execution.state_root();
    let handle = execution.freeze().expect("it is begun");
    assert!(!handle.is_whole());
    let beside = gathered(&handle);
    assert!(held.lock().unwrap().is_none(), "it does not count before it is finished");
    execution
        .execute(Height(4), View(4), Digest([104; 32]), &[frame(1, 1, 3, &["c"])])
        .expect("a block");
    let later = execution.state_root();
    let checkpoint = handle.finish().expect("it is finished").expect("a checkpoint");

    let mut resumed = resume(&held, beside.clone(), root).expect("whole");
    assert_eq!((resumed.height(), resumed.state_root()), (Height(3), root));
    // What is above it is executed again, and the session knows where it stood.
    resumed
        .execute(Height(4), View(4), Digest([104; 32]), &[frame(1, 1, 3, &["c"])])
        .expect("a block");
    assert_eq!(resumed.state_root(), later);

    // Together with the application's part it is a snapshot like any other.
    let mut chunks = Vec::new();
    let application = checkpoint.snapshot().expect("the newest");
    whole(beside.clone(), &*application, &mut |chunk| {
        chunks.push(chunk);
        true
    })
    .expect("a header");
    let mut chunks = chunks.into_iter();
    let restored =
        Execution::restore(Journal::default(), Limits::default(), &mut chunks, root).expect("one");
    assert_eq!(restored.height(), Height(3));
    // By itself it is none.
    let restored =
        Execution::restore(Journal::default(), Limits::default(), &mut beside.into_iter(), root);
    assert!(matches!(restored, Err(SnapshotError::Header(_))));
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let (mut execution, held) = executed(&["a", "b"]);
    let root = execution.state_root();
    let handle = execution.freeze().expect("it is begun");
    let beside = gathered(&handle);
    handle.finish().expect("it is finished");
    let refused = |beside: Vec<Bytes>, root| {
        resume(&held, beside, root).map(|_| ()).expect_err("it does not fit").to_string()
    };
    let (mut other, _) = executed(&["a"]);
    let others = gathered(&other.freeze().expect("it is begun"));
    assert_eq!(refused(others, root), "what is beside it is of height 2");
    let said = refused(beside.clone(), Digest([9; 32]));
    assert!(said.contains(", and had "), "{said}");
    assert!(refused(Vec::new(), root).starts_with("header of what is beside it"));
    assert!(refused(beside[..1].to_vec(), root).starts_with("sessions: "));
    let snapshot = gathered(&execution.snapshot());
    assert!(refused(snapshot, root).starts_with("header of what is beside it"));
}

#[test]
fn a_checkpoint_is_due_when_there_is_much_to_execute_again() {
    let (mut execution, _) = executed(&[]);
    let large = "x".repeat(1 << 20);
    let mut blocks = 0;
    while !execution.checkpoint_is_due() {
        blocks += 1;
        let height = blocks + 1;
        let frames = [frame(1, 1, blocks, &[&large])];
        execution.execute(Height(height), View(height), Digest([9; 32]), &frames).expect("a block");
    }
    assert_eq!(blocks, 64);
    drop(execution.freeze().expect("it is begun"));
    assert!(!execution.checkpoint_is_due());
}

#[test]
fn what_fails_is_told_behind_the_block() {
    let broken = Some(KeepError("the disk is gone".into()));
    let kept = Kept { broken, ..Kept::default() };
    let mut execution = Execution::new(kept, Limits::default(), GENESIS).expect("limits of use");
    let error =
        execution.execute(Height(1), View(1), Digest([101; 32]), &[open(1, 1)]).expect_err("told");
    assert_eq!(error.to_string(), "block at height 1: the disk is gone");
    let again = execution.execute(Height(1), View(1), Digest([101; 32]), &[open(1, 1)]);
    assert_eq!(again.expect_err("for good"), error);
}
