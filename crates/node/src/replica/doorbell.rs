//! Waking the deciding thread.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::Duration;

/// Rung by whoever put something into one of the deciding thread's queues.
#[derive(Debug, Default)]
pub struct Doorbell {
    rung: AtomicBool,
    sleeper: OnceLock<Thread>,
}

impl Doorbell {
    /// Names the current thread as the one to wake.
    pub fn answer_here(&self) {
        // It is named once; a second thread would be a mistake without effect.
        let _ = self.sleeper.set(std::thread::current());
    }

    /// Wakes the thread, now or as soon as it would sleep.
    pub fn ring(&self) {
        if !self.rung.swap(true, Ordering::AcqRel)
            && let Some(thread) = self.sleeper.get()
        {
            thread.unpark();
        }
    }

    /// Sleeps until rung, or until `patience` is over.
    pub fn wait(&self, patience: Option<Duration>) {
        if !self.rung.swap(false, Ordering::AcqRel) {
            match patience {
                Some(patience) => std::thread::park_timeout(patience),
                None => std::thread::park(),
            }
            // Not a plain store: it could be seen after the queues were found empty, and undo a ring
            // whose message was not found.
            self.rung.swap(false, Ordering::AcqRel);
        }
    }
}
