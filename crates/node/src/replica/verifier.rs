//! Signatures checked and joined off the deciding thread.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use quorate_core::base::crypto::{Check, Form, Scheme, Share};

use super::inbox::{Answer, Outside};

/// Asks that may wait. What the replica has under way is bounded by peer, well below this.
const ASKS: usize = 65_536;

/// What the pool does.
enum Ask {
    Verify(u64, Vec<Check>),
    Combine(u64, Form, Vec<Share>),
}

/// The pool.
pub struct Verifier {
    asks: SyncSender<Ask>,
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
    pub fn verify(&self, ask: u64, checks: Vec<Check>) {
        self.ask(Ask::Verify(ask, checks));
    }

    /// Has signatures joined; the joint one comes as an [`Answer`].
    pub fn combine(&self, ask: u64, form: Form, shares: Vec<Share>) {
        self.ask(Ask::Combine(ask, form, shares));
    }

    fn ask(&self, ask: Ask) {
        // The threads end only after this end of the queue is dropped.
        let _ = self.asks.send(ask);
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

fn run(queue: &Mutex<Receiver<Ask>>, scheme: &dyn Scheme, outside: &Outside) {
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let answer = match next {
            Ok(Ask::Verify(ask, checks)) => {
                Answer::Verdicts { ask, verdicts: scheme.verify(&checks) }
            }
            Ok(Ask::Combine(ask, form, shares)) => {
                Answer::Combined { ask, signature: scheme.combine(form, &shares) }
            }
            Err(_) => return,
        };
        if !outside.answer(answer) {
            return;
        }
    }
}
