//! What happens next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Events by time; those of one time in the order in which they were added.
#[derive(Debug)]
pub(super) struct Heap<E> {
    order: BinaryHeap<Reverse<(u64, u64, u32)>>,
    events: Vec<Option<E>>,
    free: Vec<u32>,
    added: u64,
}

impl<E> Heap<E> {
    pub(super) fn new() -> Self {
        Self { order: BinaryHeap::new(), events: Vec::new(), free: Vec::new(), added: 0 }
    }

    pub(super) fn add(&mut self, at: u64, event: E) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.events.push(None);
            (self.events.len() - 1) as u32
        });
        self.events[place as usize] = Some(event);
        self.added += 1;
        self.order.push(Reverse((at, self.added, place)));
    }

    pub(super) fn peek(&self) -> Option<u64> {
        self.order.peek().map(|Reverse((at, ..))| *at)
    }

    pub(super) fn next(&mut self) -> Option<(u64, E)> {
        let Reverse((at, _, place)) = self.order.pop()?;
        self.free.push(place);
        Some((at, self.events[place as usize].take()?))
    }
}
