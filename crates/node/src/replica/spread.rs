//! Work of one stage spread over several threads, its results in the order of what was brought: the
//! data-parallel stages of a pipeline, which keep their peers' order.
//!
//! One batch is worked on at a time. So nothing can overtake anything, and no batch has to be put
//! in order again behind the stage.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use super::inbox::Outside;

type Task = Box<dyn FnOnce() + Send>;

/// The threads beside the one that brings work.
pub struct Spread {
    tasks: Sender<Task>,
    width: usize,
}

impl Spread {
    /// Spreads over `width` threads, the one that brings the work among them. They end with this.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(name: &'static str, width: usize, outside: &Outside) -> std::io::Result<Self> {
        let (tasks, queue) = channel();
        let queue = Arc::new(Mutex::new(queue));
        for i in 1..width {
            let queue = Arc::clone(&queue);
            std::thread::Builder::new()
                .name(format!("{name}-{i}"))
                .spawn(outside.guard(name, move || work(&queue)))?;
        }
        Ok(Self { tasks, width: width.max(1) })
    }

    /// What `each` makes of the items, in their order. They are cut into as many parts as there are
    /// threads, none of less than `least` items; `each` returns as many as it is given.
    ///
    /// # Panics
    /// If `each` does, on any of the threads.
    pub fn map<A, B>(
        &self,
        mut items: Vec<A>,
        least: usize,
        each: impl Fn(Vec<A>) -> Vec<B> + Send + Sync + 'static,
    ) -> Vec<B>
    where
        A: Send + 'static,
        B: Send + 'static,
    {
        let parts = (items.len() / least.max(1)).clamp(1, self.width);
        if parts == 1 {
            return each(items);
        }
        let part = items.len().div_ceil(parts);
        let each = Arc::new(each);
        let mut others: Vec<Receiver<Vec<B>>> = Vec::with_capacity(parts);
        let mut rest = items.split_off(part);
        while !rest.is_empty() {
            let behind = rest.split_off(part.min(rest.len()));
            let (done, result) = channel();
            let (given, each) = (std::mem::replace(&mut rest, behind), Arc::clone(&each));
            // Nobody waits for it only where the one who brought it panicked.
            let task = move || drop(done.send(each(given)));
            // The threads take tasks for as long as this is there.
            let _ = self.tasks.send(Box::new(task));
            others.push(result);
        }
        let mut results = each(items);
        for other in others {
            match other.recv() {
                Ok(part) => results.extend(part),
                // Without its part the others would be taken for those of other items.
                Err(_) => panic!("another thread of this stage panicked; see above"),
            }
        }
        results
    }
}

fn work(queue: &Mutex<Receiver<Task>>) {
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(task) = next else { return };
        task();
    }
}
