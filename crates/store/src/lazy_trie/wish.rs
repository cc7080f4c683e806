//! The wish for a checkpoint: of writers, who do not stop to utter it, to the thread that makes them.

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// Whether a checkpoint is wished for.
pub(super) struct Wish(AtomicBool);

impl Wish {
    pub(super) fn new() -> Wish {
        Wish(AtomicBool::new(false))
    }

    /// Wishes for one; whether the thread must be told, as it was not wished for before. What the caller did that makes one due is seen by who takes the
    /// wish back meanwhile, or that it is taken back is seen here.
    pub(super) fn utter(&self) -> bool {
        fence(Ordering::SeqCst);
        // Most find it uttered, by reading alone.
        !self.0.load(Ordering::Relaxed) && !self.0.swap(true, Ordering::AcqRel)
    }

    pub(super) fn is_there(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Takes it back. Whether a checkpoint is due is for the caller to look at after this, or none may come.
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

    /// Every interleaving of writers who make a checkpoint due with the thread that looks whether one is: `make loom`.
    #[test]
    fn what_is_due_is_seen_or_wished_for() {
        loom::model(|| {
            let shared = Arc::new((Wish::new(), AtomicU64::new(0), AtomicU64::new(0)));
            // Of an earlier checkpoint, which has ended.
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
            // The thread would sleep with less than what is there, and nobody has told it.
            assert!(seen == 2 || (wish.is_there() && told.load(Ordering::Relaxed) == 1));
        });
    }
}
