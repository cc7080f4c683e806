//! Signatures of the protocol checked and joined off the deciding thread, by as many threads as
//! `pipeline.verify` says.
//!
//! Whichever thread is done first, answers leave in the order in which they were asked for: so what
//! a peer says is decided upon in the order in which it said it. What waits for an earlier answer
//! here is little, as the replica has [little at a time](quorate_core::replica) at the verifier.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use quorate_core::base::crypto::{Check, Form, Scheme, Share, ShareKeys};

use super::inbox::{Answer, Outside};
use super::metrics::Metrics;
use super::profile::Stage;

/// Asks that may wait. What the replica has under way is bounded by peer, well below this.
const ASKS: usize = 65_536;

/// What the pool does.
enum Ask {
    Verify(u64, Vec<Check>),
    Combine(u64, Form, Vec<Share>, Option<Arc<ShareKeys>>),
}

impl Ask {
    /// Signatures that it is about.
    fn items(&self) -> u64 {
        match self {
            Self::Verify(_, checks) => checks.len() as u64,
            Self::Combine(_, _, shares, _) => shares.len() as u64,
        }
    }
}

/// The pool.
pub struct Verifier {
    asks: SyncSender<Ask>,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    queue: Mutex<Queue>,
    /// Signatures asked about that no thread has taken up yet.
    waiting: AtomicU64,
    scheme: Arc<dyn Scheme>,
    metrics: Arc<Metrics>,
    outside: Outside,
    done: Mutex<Done>,
}

struct Queue {
    asks: Receiver<Ask>,
    /// How many were taken out.
    taken: u64,
}

/// What is done and waits for what was asked before it.
#[derive(Default)]
struct Done {
    /// How many answers have left.
    left: u64,
    answers: BTreeMap<u64, Answer>,
}

impl Verifier {
    /// Starts `threads` threads.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(
        threads: usize,
        scheme: &Arc<dyn Scheme>,
        metrics: &Arc<Metrics>,
        outside: &Outside,
    ) -> std::io::Result<Self> {
        let (asks, queue) = sync_channel(ASKS);
        let shared = Arc::new(Shared {
            queue: Mutex::new(Queue { asks: queue, taken: 0 }),
            waiting: AtomicU64::new(0),
            scheme: Arc::clone(scheme),
            metrics: Arc::clone(metrics),
            outside: outside.clone(),
            done: Mutex::default(),
        });
        let threads = (0..threads)
            .map(|i| {
                let shared = Arc::clone(&shared);
                std::thread::Builder::new()
                    .name(format!("verify-{i}"))
                    .spawn(outside.guard("verifying", move || shared.run()))
            })
            .collect::<std::io::Result<_>>()?;
        Ok(Self { asks, shared, threads })
    }

    /// Has `checks` verified; the verdicts come as an [`Answer`].
    pub fn verify(&self, ask: u64, checks: Vec<Check>) {
        self.ask(Ask::Verify(ask, checks));
    }

    /// Has signatures joined, by these shares of a threshold key if there are any; the joint one
    /// comes as an [`Answer`].
    pub fn combine(&self, ask: u64, form: Form, shares: Vec<Share>, keys: Option<Arc<ShareKeys>>) {
        self.ask(Ask::Combine(ask, form, shares, keys));
    }

    fn ask(&self, ask: Ask) {
        self.shared.waiting.fetch_add(ask.items(), Ordering::Relaxed);
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

impl Shared {
    fn run(&self) {
        loop {
            let (number, next) = {
                let mut queue = self.queue();
                let next = queue.asks.recv();
                queue.taken += 1;
                (queue.taken - 1, next)
            };
            let Ok(next) = next else { return };
            let items = next.items();
            let waiting = self.waiting.fetch_sub(items, Ordering::Relaxed);
            let began = Instant::now();
            let answer = match next {
                Ask::Verify(ask, checks) => {
                    Answer::Verdicts { ask, verdicts: self.scheme.verify(&checks) }
                }
                Ask::Combine(ask, form, shares, keys) => {
                    let signature = match keys {
                        Some(keys) => self.scheme.combine_by(&keys, form, &shares),
                        None => self.scheme.combine(form, &shares),
                    };
                    Answer::Combined { ask, signature }
                }
            };
            let stage = self.metrics.profile.stage(Stage::Verify);
            stage.visit(began.elapsed(), items, waiting);
            if !self.done().hand_on(number, answer, &self.outside) {
                return;
            }
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn done(&self) -> MutexGuard<'_, Done> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Done {
    /// The answer to the ask of this number is there: hands on all whose turn it is. `false` if
    /// nobody listens any more.
    fn hand_on(&mut self, number: u64, answer: Answer, outside: &Outside) -> bool {
        self.answers.insert(number, answer);
        while let Some(answer) = self.answers.remove(&self.left) {
            self.left += 1;
            if !outside.answer(answer) {
                return false;
            }
        }
        true
    }
}
