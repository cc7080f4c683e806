use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use crate::replica::desk::{Desk, Work};
use crate::replica::doorbell::Doorbell;

/// What a turn does.
enum Deed {
    Nothing,
    /// Leaves something that waits.
    LeaveMore,
    End,
    Panic,
    /// Sets a timer.
    Wait(Duration),
}

/// Does what it is sent, and says who did.
struct Errands {
    deeds: mpsc::Receiver<Deed>,
    done: mpsc::Sender<&'static str>,
    deadline: Option<Instant>,
    leaves_more: bool,
    /// That it is nothing for helpers.
    much: Arc<AtomicU64>,
}

impl Errands {
    fn do_next(&mut self, who: &'static str) -> Result<bool, &'static str> {
        if self.deadline.take_if(|due| *due <= Instant::now()).is_some() {
            self.done.send("the timer").unwrap();
        }
        let Ok(deed) = self.deeds.try_recv() else { return Ok(false) };
        self.done.send(who).unwrap();
        match deed {
            Deed::Nothing => {}
            Deed::LeaveMore => self.leaves_more = true,
            Deed::End => return Err(who),
            Deed::Panic => panic!("as it was told"),
            Deed::Wait(time) => self.deadline = Some(Instant::now() + time),
        }
        Ok(true)
    }
}

impl Work for Errands {
    type End = &'static str;

    fn turn(&mut self) -> Result<bool, &'static str> {
        self.do_next("the thread")
    }

    fn single_turn(&mut self) -> Result<bool, &'static str> {
        self.do_next("a helper")?;
        Ok(!std::mem::take(&mut self.leaves_more))
    }

    fn has_little_to_do(&self) -> bool {
        self.much.load(Ordering::Acquire) == 0
    }

    fn deadline(&self) -> Option<Instant> {
        self.deadline
    }
}

/// A desk at work, and the way to it.
struct Office {
    deeds: mpsc::Sender<Deed>,
    done: mpsc::Receiver<&'static str>,
    much: Arc<AtomicU64>,
    bell: Arc<Doorbell>,
    thread: std::thread::JoinHandle<Option<&'static str>>,
}

impl Office {
    fn open() -> Self {
        let (deeds, queue) = mpsc::channel();
        let (says, done) = mpsc::channel();
        let (much, bell) = (Arc::<AtomicU64>::default(), Arc::<Doorbell>::default());
        let much_to_do = much.clone();
        let errands = Errands {
            deeds: queue,
            done: says,
            deadline: None,
            leaves_more: false,
            much: much_to_do,
        };
        let desk = Desk::new(errands, bell.clone(), true);
        let thread = std::thread::spawn(move || desk.run().map(|(_, end)| end));
        let office = Self { deeds, done, much, bell, thread };
        // Only once it rests is help wanted.
        while office.ask(Deed::Nothing) != "a helper" {}
        office
    }

    /// An office where a helper did this deed. A thread that is about to look once more does it
    /// itself: then another office is opened.
    fn helped(deed: fn() -> Deed) -> Self {
        loop {
            let office = Self::open();
            if office.ask(deed()) == "a helper" {
                return office;
            }
        }
    }

    /// Who does it.
    fn ask(&self, deed: Deed) -> &'static str {
        self.deeds.send(deed).unwrap();
        self.bell.ring_and_help();
        self.done.recv().unwrap()
    }
}

#[test]
fn who_brings_little_helps_and_the_thread_does_the_rest() {
    let office = Office::open();
    office.much.store(1, Ordering::Release);
    assert_eq!(office.ask(Deed::Nothing), "the thread");
    office.much.store(0, Ordering::Release);
    office.deeds.send(Deed::End).unwrap();
    office.bell.ring();
    assert_eq!(office.thread.join().unwrap(), Some("the thread"));
}

#[test]
fn what_a_helper_leaves_wakes_the_thread() {
    let office = Office::open();
    // What waits behind it is not rung for.
    let both = || {
        office.deeds.send(Deed::LeaveMore).unwrap();
        office.deeds.send(Deed::Nothing).unwrap();
        office.bell.ring_and_help();
        [office.done.recv().unwrap(), office.done.recv().unwrap()]
    };
    // The thread may be about to look once more, and then does the first itself.
    let mut who = both();
    while who[0] == "the thread" {
        who = both();
    }
    assert_eq!(who, ["a helper", "the thread"]);
}

#[test]
fn a_timer_that_a_helper_set_wakes_the_thread() {
    let office = Office::helped(|| Deed::Wait(Duration::from_millis(1)));
    assert_eq!(office.done.recv(), Ok("the timer"));
}

#[test]
fn the_end_in_a_helpers_turn_is_the_threads() {
    let office = Office::helped(|| Deed::End);
    assert_eq!(office.thread.join().unwrap(), Some("a helper"));
}

#[test]
fn the_thread_learns_of_a_panic_in_a_helpers_turn() {
    let thread = loop {
        let Office { deeds, done, bell, thread, .. } = Office::open();
        let helper = std::thread::spawn(move || {
            deeds.send(Deed::Panic).unwrap();
            bell.ring_and_help();
        });
        let helped = helper.join().is_err();
        // A thread that is about to look once more panics itself: then another office is opened.
        if done.recv() == Ok("a helper") {
            assert!(helped, "it brings the panic to the helper");
            break thread;
        }
    };
    assert_eq!(thread.join().unwrap(), None);
}
