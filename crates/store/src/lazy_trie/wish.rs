//! The checkpoint request: from writers, which do not wait, to the thread that makes checkpoints.

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// Whether a checkpoint is requested.
pub(super) struct Wish(AtomicBool);

impl Wish {
    pub(super) fn new() -> Wish {
        Wish(AtomicBool::new(false))
    }

    /// Requests a checkpoint. Returns whether the thread must be woken, because there was no
    /// request before. If the request is withdrawn at the same time, either the withdrawing thread
    /// sees the caller's earlier changes, or the caller sees the withdrawal.
    pub(super) fn utter(&self) -> bool {
        fence(Ordering::SeqCst);
        // Most callers find it set and only read.
        !self.0.load(Ordering::Relaxed) && !self.0.swap(true, Ordering::AcqRel)
    }

    pub(super) fn is_there(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Withdraws the request. The caller must then check whether a checkpoint is due, or none may
    /// come.
    pub(super) fn take_back(&self) {
        self.0.store(false, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }
}

#[cfg(all(test, loom))]
mod tests {
    use super::Wish;
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicU64, Ordering};

    /// Every interleaving of writers that make a checkpoint due with the thread that checks for it:
    /// `make loom`.
    #[test]
    fn what_is_due_is_seen_or_wished_for() {
        loom::model(|| {
            let shared = Arc::new((Wish::new(), AtomicU64::new(0), AtomicU64::new(0)));
            // The request of an earlier checkpoint, which has ended.
            assert!(shared.0.utter());
            let writers: Vec<_> = (0..2)
                .map(|_| {
                    let shared = Arc::clone(&shared);
                    loom::thread::spawn(move || {
                        let (wish, log, told) = &*shared;
                        log.fetch_add(1, Ordering::Relaxed);
                        if wish.utter() {
                            told.fetch_add(1, Ordering::Relaxed);
                        }
                    })
                })
                .collect();
            let (wish, log, told) = &*shared;
            wish.take_back();
            let seen = log.load(Ordering::Relaxed);
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            // The thread would sleep although more work exists, without a wake-up.
            assert!(seen == 2 || (wish.is_there() && told.load(Ordering::Relaxed) == 1));
        });
    }
}
