//! Waking the deciding thread, or doing without.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::Duration;

/// Takes a turn in the place of the thread that rests. Whether it may go on resting.
type Help = Box<dyn Fn() -> bool + Send + Sync>;

/// Rung by whoever put something into one of the deciding thread's queues.
#[derive(Default)]
pub struct Doorbell {
    rung: AtomicBool,
    sleeper: OnceLock<Thread>,
    help: OnceLock<Help>,
}

impl fmt::Debug for Doorbell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Doorbell").field("rung", &self.rung).finish_non_exhaustive()
    }
}

impl Doorbell {
    /// Names the current thread as the one to wake.
    pub fn answer_here(&self) {
        // It is named once; a second thread would be a mistake without effect.
        let _ = self.sleeper.set(std::thread::current());
    }

    /// Has [`ring_and_help`](Self::ring_and_help) call `help` before it wakes anybody.
    pub fn helped_by(&self, help: impl Fn() -> bool + Send + Sync + 'static) {
        // As above.
        let _ = self.help.set(Box::new(help));
    }

    /// Wakes the thread, now or as soon as it would sleep.
    pub fn ring(&self) {
        if !self.rung.swap(true, Ordering::AcqRel) {
            self.wake();
        }
    }

    /// The same, but for what the current thread can do in its place. For threads that can spare
    /// the time, and hold no lock.
    pub fn ring_and_help(&self) {
        if self.rung.swap(true, Ordering::AcqRel) {
            return;
        }
        let waker = WakeOnPanic(self);
        let rests = self.help.get().is_some_and(|help| help());
        std::mem::forget(waker);
        if !rests {
            self.wake();
        }
    }

    /// Forgets that it was rung: whoever calls this looks into the queues now.
    pub fn hush(&self) {
        // Not a plain store: it must see what those put in who found it rung.
        self.rung.swap(false, Ordering::AcqRel);
    }

    /// Sleeps until rung, or until `patience` is over.
    pub fn wait(&self, patience: Option<Duration>) {
        if !self.rung.swap(false, Ordering::AcqRel) {
            match patience {
                Some(patience) => std::thread::park_timeout(patience),
                None => std::thread::park(),
            }
            // What came meanwhile is looked for now; as above, not a plain store.
            self.hush();
        }
    }

    fn wake(&self) {
        if let Some(thread) = self.sleeper.get() {
            thread.unpark();
        }
    }
}

/// Has the thread see that a turn in its place panicked.
struct WakeOnPanic<'a>(&'a Doorbell);

impl Drop for WakeOnPanic<'_> {
    fn drop(&mut self) {
        self.0.wake();
    }
}
