//! Signatures checked off the deciding thread.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use quorate_core::crypto::{Check, Scheme};

use super::inbox::{Answer, Outside};

/// Asks that may wait. What the replica has under way is bounded by peer, well below this.
const ASKS: usize = 65_536;

/// The pool.
pub struct Verifier {
    asks: SyncSender<(u64, Vec<Check>)>,
    threads: Vec<JoinHandle<()>>,
}

impl Verifier {
    /// Starts `threads` threads.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(
        threads: usize,
        scheme: &Arc<dyn Scheme>,
        outside: &Outside,
    ) -> std::io::Result<Self> {
        let (asks, queue) = sync_channel(ASKS);
        let queue = Arc::new(Mutex::new(queue));
        let threads = (0..threads)
            .map(|i| {
                let (queue, scheme, outside) = (queue.clone(), scheme.clone(), outside.clone());
                let guarded = outside.clone();
                let work = move || run(&queue, scheme.as_ref(), &outside);
                std::thread::Builder::new()
                    .name(format!("verify-{i}"))
                    .spawn(guarded.guard("verifying", work))
            })
            .collect::<std::io::Result<_>>()?;
        Ok(Self { asks, threads })
    }

    /// Has `checks` verified; the verdicts come as an [`Answer`].
    pub fn ask(&self, ask: u64, checks: Vec<Check>) {
        // The threads end only after this end of the queue is dropped.
        let _ = self.asks.send((ask, checks));
    }

    /// Waits until what was asked is answered and the threads have ended.
    pub fn close(self) {
        drop(self.asks);
        for thread in self.threads {
            // A panic in there was reported when it happened.
            let _ = thread.join();
        }
    }
}

fn run(queue: &Mutex<Receiver<(u64, Vec<Check>)>>, scheme: &dyn Scheme, outside: &Outside) {
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((ask, checks)) = next else { return };
        let verdicts = scheme.verify(&checks);
        if !outside.answer(Answer::Verdicts { ask, verdicts }) {
            return;
        }
    }
}
