//! Watchers: who is told what blocks changed, by a thread that gives way to all others.
//!
//! Anybody may watch, unsigned. The lists are the application's
//! ([`Feed`](quorate_app::kv::feed::Feed)), which keeps as many as fit its bounds. A watcher asks
//! for what follows the height that it knows, and waits here until there is something. So a slow
//! one costs nothing: it is not sent what it did not ask for. If the lists that it wants are gone
//! by the time it asks, it is told so.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use quorate_app::kv::feed::Feed;
use quorate_core::Height;
use quorate_core::base::wire::Encode as _;
use quorate_core::client::message::{Request, Response, Unproven};
use quorate_transport::{ClientListener, ConnectionId};

use super::giving_way::spawn_low;
use super::inbox::Outside;
use super::links::Links;
use super::metrics::Metrics;

/// Questions that may wait for the thread; beyond, they are refused.
const ASKED: usize = 64;
/// Of them, those of one connection: a watcher asks one at a time.
const ASKED_OF_ONE: usize = 4;
/// Watchers that may wait for a change, one of a connection.
const MAX_WAITING: usize = 256;
/// A watcher that waits is answered after this, whether something has changed or not.
const WAITS: Duration = Duration::from_secs(5);

/// What the thread is to do.
enum Doing {
    Answer(ConnectionId, Request),
    /// Something has changed.
    News,
    /// The connection is gone.
    Forget(ConnectionId),
    /// Nothing follows.
    End,
}

/// The way to the thread, if there is one.
#[derive(Default)]
pub struct Watchers(Option<Way>);

struct Way {
    asks: SyncSender<Doing>,
    lines: Lines,
}

/// How many questions of each connection wait for the thread.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<BTreeMap<ConnectionId, usize>>>);

impl Lines {
    fn lines(&self) -> MutexGuard<'_, BTreeMap<ConnectionId, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is room for another one.
    fn enter(&self, connection: ConnectionId) -> bool {
        let mut lines = self.lines();
        let has_room = lines.get(&connection).is_none_or(|asked| *asked < ASKED_OF_ONE);
        if has_room {
            *lines.entry(connection).or_default() += 1;
        }
        has_room
    }

    fn leave(&self, connection: ConnectionId) {
        if let Entry::Occupied(mut asked) = self.lines().entry(connection) {
            *asked.get_mut() -= 1;
            if *asked.get() == 0 {
                asked.remove();
            }
        }
    }
}

/// Who waits for a change.
struct Waiting {
    id: u64,
    from: Height,
    until: Instant,
}

/// What the thread works with.
struct Desk {
    feed: Arc<Feed>,
    links: Links,
    listener: Arc<ClientListener>,
    metrics: Arc<Metrics>,
    waiting: BTreeMap<ConnectionId, Waiting>,
    lines: Lines,
}

impl Watchers {
    /// Starts the thread, if the application has a feed.
    ///
    /// # Errors
    /// The system gave none.
    pub fn start(
        feed: Option<&Arc<Feed>>,
        (links, listener): (&Links, &Arc<ClientListener>),
        metrics: &Arc<Metrics>,
        outside: &Outside,
    ) -> io::Result<Self> {
        let Some(feed) = feed else { return Ok(Self(None)) };
        let (asks, queue) = sync_channel(ASKED);
        // Nobody waits yet; and one piece of news on its way is as good as many.
        let told = Arc::new(AtomicBool::new(true));
        let (rings, tells) = (Arc::clone(&told), asks.clone());
        feed.subscribe(move || {
            if !rings.swap(true, Ordering::AcqRel) && tells.try_send(Doing::News).is_err() {
                // The thread has questions before it, and looks behind each.
                rings.store(false, Ordering::Release);
            }
        });
        let lines = Lines::default();
        let desk = Desk {
            feed: Arc::clone(feed),
            links: links.clone(),
            listener: Arc::clone(listener),
            metrics: Arc::clone(metrics),
            waiting: BTreeMap::new(),
            lines: lines.clone(),
        };
        spawn_low("watchers", outside.guard("watchers", move || desk.run(&queue, &told)))?;
        Ok(Self(Some(Way { asks, lines })))
    }

    /// Takes a question in: [`Request::Changes`] or [`Request::Lists`].
    ///
    /// # Errors
    /// [`Unproven`].
    pub fn ask(&self, connection: ConnectionId, request: Request) -> Result<(), Unproven> {
        let Way { asks, lines } = self.0.as_ref().ok_or(Unproven::NoProofs)?;
        if !lines.enter(connection) {
            return Err(Unproven::Busy);
        }
        asks.try_send(Doing::Answer(connection, request)).map_err(|_| {
            lines.leave(connection);
            Unproven::Busy
        })
    }

    /// The connection is gone.
    pub fn forget(&self, connection: ConnectionId) {
        if let Some(Way { asks, .. }) = &self.0 {
            // If that is lost, it is found out when the watcher would be answered.
            let _ = asks.try_send(Doing::Forget(connection));
        }
    }
}

impl Drop for Watchers {
    fn drop(&mut self) {
        if let Some(Way { asks, .. }) = &self.0 {
            // The feed keeps the other end for its news.
            let _ = asks.send(Doing::End);
        }
    }
}

impl Desk {
    /// Works until nobody can ask any more.
    fn run(mut self, queue: &Receiver<Doing>, told: &AtomicBool) {
        loop {
            let left = self.waiting.values().map(|waiting| waiting.until).min();
            let doing = match left {
                None => queue.recv().map_err(RecvTimeoutError::from),
                Some(until) => queue.recv_timeout(until.saturating_duration_since(Instant::now())),
            };
            match doing {
                Ok(Doing::Answer(connection, request)) => {
                    self.lines.leave(connection);
                    self.take(connection, &request);
                }
                Ok(Doing::Forget(connection)) => drop(self.waiting.remove(&connection)),
                Ok(Doing::News) | Err(RecvTimeoutError::Timeout) => {}
                Ok(Doing::End) | Err(RecvTimeoutError::Disconnected) => return,
            }
            if !self.waiting.is_empty() {
                // Before the look at the lists: what comes behind it rings again. Where nobody
                // waits, the thread that executes blocks wakes nobody.
                told.store(false, Ordering::Release);
                self.look();
            }
        }
    }

    fn take(&mut self, connection: ConnectionId, request: &Request) {
        match *request {
            Request::Changes { id, from, wait } => {
                let is_full =
                    !self.waiting.contains_key(&connection) && self.waiting.len() >= MAX_WAITING;
                let until = Instant::now() + WAITS;
                let waiting =
                    Waiting { id, from, until: if wait { until } else { Instant::now() } };
                if wait && is_full {
                    self.metrics.refuse("watch");
                    self.say(connection, Response::Unproven { id, reason: Unproven::Busy });
                } else if !self.is_answered(connection, &waiting) {
                    self.waiting.insert(connection, waiting);
                }
            }
            Request::Lists { id, from, offset, budget_bytes } => {
                let page = self.feed.page(from, offset, budget_bytes).to_bytes().into();
                self.say(connection, Response::Lists { id, page });
            }
            _ => {}
        }
    }

    /// Answers those for whom there is something by now, and those who have waited long enough.
    fn look(&mut self) {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain(|connection, waiting| !self.is_answered(*connection, waiting));
        self.waiting = waiting;
    }

    /// Answers a watcher, unless it is to wait.
    fn is_answered(&self, connection: ConnectionId, waiting: &Waiting) -> bool {
        let &Waiting { id, from, until } = waiting;
        if until > Instant::now() && !self.feed.has(from) {
            return false;
        }
        let links = self.feed.links(from).to_bytes().into();
        self.say(connection, Response::Changes { id, links });
        true
    }

    fn say(&self, connection: ConnectionId, response: Response) {
        for response in self.links.answers(response) {
            // The watcher may be gone.
            let _ = self.listener.send(connection, response.to_bytes().into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One connection cannot take the room of all.
    #[test]
    fn a_connection_has_few_questions_that_wait() {
        let (asks, queue) = sync_channel(ASKED);
        let watchers = Watchers(Some(Way { asks, lines: Lines::default() }));
        let ask = |connection| {
            let request = Request::Changes { id: 1, from: Height(1), wait: true };
            watchers.ask(ConnectionId(connection), request)
        };
        assert!((0..ASKED_OF_ONE).all(|_| ask(1).is_ok()));
        assert_eq!(ask(1), Err(Unproven::Busy));
        assert_eq!(ask(2), Ok(()));
        // As the thread does when it takes one up.
        assert!(matches!(queue.recv(), Ok(Doing::Answer(ConnectionId(1), _))));
        watchers.0.as_ref().expect("a way").lines.leave(ConnectionId(1));
        assert_eq!(ask(1), Ok(()));
        drop(queue);
    }
}
