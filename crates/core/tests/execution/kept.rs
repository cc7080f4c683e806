//! What is kept beside a state that outlives the process: a base now and then, a record with each block.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use quorate_core::Digest;
use quorate_core::Height;
use quorate_core::View;
use quorate_core::execution::{Execution, KeptHead, ResumeError};
use quorate_core::frame::SharedFrame;
use quorate_core::sessions::Limits;
use quorate_core::state_machine::{
    Beside, Committed, Decided, KeepError, Keeper, Replies, RestoreError, Snapshot, StateMachine,
};

use crate::fixtures::{GENESIS, Journal, frame, open};

/// What outlives the process.
#[derive(Clone, Default)]
struct Held {
    journal: Journal,
    note: Option<Vec<u8>>,
    trail: Vec<Vec<u8>>,
    begun: Option<Vec<Vec<u8>>>,
    /// How many trails were turned to.
    bases: usize,
    /// What the trail is said to take.
    trail_bytes: u64,
    /// The next commit is kept anew.
    anew: bool,
}

/// A journal that is kept.
struct Kept {
    journal: Journal,
    held: Arc<Mutex<Held>>,
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
    fn commit(&mut self, beside: &Beside<'_>) -> Result<Committed, KeepError> {
        let mut held = self.held.lock().unwrap();
        held.journal = self.journal.clone();
        if std::mem::take(&mut held.anew) {
            return Ok(Committed::Anew);
        }
        if beside.begins {
            held.begun = Some(Vec::new());
        }
        for entry in beside.entries.iter().map(|parts| parts.concat()) {
            held.begun.iter_mut().for_each(|begun| begun.push(entry.clone()));
            held.trail.push(entry);
        }
        if beside.turns {
            held.trail = held.begun.take().unwrap();
            held.bases += 1;
        }
        held.note = beside.note.map(<[u8]>::to_vec).or(held.note.take());
        Ok(Committed::Whole { trail_bytes: held.trail_bytes })
    }

    fn note(&self) -> Result<Option<Bytes>, KeepError> {
        Ok(self.held.lock().unwrap().note.clone().map(Bytes::from))
    }

    fn trail(&self, each: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), KeepError> {
        self.held.lock().unwrap().trail.iter().all(|entry| each(entry));
        Ok(())
    }

    fn turn_back(&mut self) -> Result<bool, KeepError> {
        self.journal = self.held.lock().unwrap().journal.clone();
        Ok(true)
    }
}

/// A replica's execution, what of it outlives the process, and the blocks executed.
struct Life {
    held: Arc<Mutex<Held>>,
    execution: Execution<Kept>,
    blocks: Vec<(Digest, Vec<SharedFrame>)>,
}

impl Life {
    fn new() -> Self {
        let held = Arc::new(Mutex::new(Held::default()));
        let kept = Kept { journal: Journal::default(), held: Arc::clone(&held) };
        let execution = Execution::new(kept, Limits::default(), GENESIS).expect("limits of use");
        let mut life = Self { held, execution, blocks: Vec::new() };
        life.block(vec![open(1, 1)]);
        life
    }

    fn block(&mut self, frames: Vec<SharedFrame>) {
        let height = Height(self.blocks.len() as u64 + 1);
        let id = Digest([100 + height.0 as u8; 32]);
        self.execution.execute(height, View(height.0), id, &frames).expect("a block");
        self.blocks.push((id, frames));
    }

    /// A block of one command.
    fn command(&mut self, command: &str) {
        let first = self.blocks.len() as u64;
        self.block(vec![frame(1, 1, first, &[command])]);
    }

    /// What a process that comes after goes on from.
    fn resume(&self) -> Result<Execution<Kept>, ResumeError> {
        let held = Arc::new(Mutex::new(self.held.lock().unwrap().clone()));
        let mut kept = Kept { journal: Journal::default(), held };
        kept.turn_back()?;
        let head = KeptHead::read(&kept)?.expect("a note");
        let range = head.base.0 as usize..head.height.0 as usize;
        let blocks: Vec<_> =
            self.blocks[range].iter().map(|(id, frames)| (*id, frames.as_slice())).collect();
        Execution::resume(kept, Limits::default(), &head, &blocks)
    }
}

#[test]
fn each_block_can_be_gone_on_from() {
    let mut life = Life::new();
    // A reply in several parts among them.
    for command in ["a", "b", "big 5000000", "c"] {
        life.command(command);
        let resumed = life.resume().expect("whole");
        // The root covers the session table, replies and all.
        assert_eq!(resumed.state_root(), life.execution.state_root());
    }
    assert_eq!(life.held.lock().unwrap().bases, 1);
}

#[test]
fn a_base_follows_when_the_trail_takes_too_much() {
    let mut life = Life::new();
    life.held.lock().unwrap().trail_bytes = 64 << 20;
    life.command("fits");
    life.command("fits");
    assert_eq!(life.held.lock().unwrap().bases, 1);
    // Though the replies are short: what was changed may be long.
    life.held.lock().unwrap().trail_bytes = (64 << 20) + 1;
    life.command("too much");
    life.command("behind another base");
    assert_eq!(life.held.lock().unwrap().bases, 2);
    assert_eq!(life.resume().expect("whole").state_root(), life.execution.state_root());
}

#[test]
fn what_is_kept_anew_is_followed_by_a_base() {
    let mut life = Life::new();
    life.command("a");
    life.held.lock().unwrap().anew = true;
    life.command("anew");
    assert_eq!(life.held.lock().unwrap().bases, 1);
    life.command("b");
    assert_eq!(life.held.lock().unwrap().bases, 2);
    assert_eq!(life.resume().expect("whole").state_root(), life.execution.state_root());
}

#[test]
fn a_trail_that_is_not_whole_is_refused() {
    let mut life = Life::new();
    ["a", "b", "c"].iter().for_each(|command| life.command(command));
    // What is behind the last record is of no account.
    life.held.lock().unwrap().trail.push(b"of a base that was being written".to_vec());
    life.resume().expect("whole");
    let trail = life.held.lock().unwrap().trail.clone();
    let changed = |change: &dyn Fn(&mut Vec<Vec<u8>>)| {
        let mut other = trail.clone();
        change(&mut other);
        life.held.lock().unwrap().trail = other;
        life.resume().map(|_| ()).expect_err("it is not whole").to_string()
    };
    let said = changed(&|trail| trail.truncate(4));
    assert_eq!(said, "the trail has 4 entries of 6");
    let said = changed(&|trail| trail[4].truncate(20));
    assert_eq!(said, "record of the block at height 3: it does not fit the block");
    let said = changed(&|trail| trail[0].truncate(3));
    assert!(said.starts_with("the roots of the base: "), "{said}");
}
