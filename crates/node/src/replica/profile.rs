//! Where the time of a command goes: counted in classes, without a lock or an allocation where it is hot.
//!
//! Two views of it. **Stages** are what threads do: how long each visit of the deciding thread to a stage took, and each batch
//! of the clients' stage. **Lives** are what a frame waits for, from the socket to the answer: one frame at a time is followed,
//! the next begins when that one was answered, and counts as led where this replica proposed its block.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use quorate_core::client::message::{Outcome, Response};
use quorate_core::ledger::block::{Content, SharedBlock};
use quorate_core::ledger::frame::{FrameId, SharedFrame};
use quorate_core::protocols::protocol::Event;
use quorate_core::{Sequence, SessionId, View};

use super::metrics::nanoseconds;

/// Classes of durations in a doubling: what is in one is at most an eighth below its bound.
const IN_A_DOUBLING: u32 = 8;
/// Up to 2^40 ns, 18 minutes; longer ones count in the last.
const DOUBLINGS: u32 = 40;
const CLASSES: usize = (IN_A_DOUBLING * DOUBLINGS) as usize;

/// How many durations there were of each class, and their sum.
#[derive(Debug)]
pub struct Histogram {
    classes: [AtomicU64; CLASSES],
    sum_ns: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { classes: std::array::from_fn(|_| AtomicU64::new(0)), sum_ns: AtomicU64::new(0) }
    }
}

impl Histogram {
    /// Counts one.
    pub fn record(&self, duration: Duration) {
        let ns = nanoseconds(duration);
        self.sum_ns.fetch_add(ns, Ordering::Relaxed);
        if let Some(class) = self.classes.get(class_of(ns)) {
            class.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Their sum in nanoseconds.
    #[must_use]
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns.load(Ordering::Relaxed)
    }

    /// The upper bound of each class that has any, in nanoseconds, and how many.
    #[must_use]
    pub fn classes(&self) -> Vec<(u64, u64)> {
        let counts = self.classes.iter().map(|class| class.load(Ordering::Relaxed));
        let counts = counts.enumerate().filter(|(_, count)| *count > 0);
        counts.map(|(class, count)| (bound_ns(class), count)).collect()
    }
}

/// Linear within a doubling.
fn class_of(ns: u64) -> usize {
    let eighths = u64::from(IN_A_DOUBLING);
    if ns < eighths {
        return ns as usize;
    }
    let doubling = ns.ilog2();
    let within = (ns >> (doubling - IN_A_DOUBLING.ilog2())) - eighths;
    let first = u64::from(doubling - IN_A_DOUBLING.ilog2() + 1) * eighths;
    ((first + within) as usize).min(CLASSES - 1)
}

/// The first duration above the class.
fn bound_ns(class: usize) -> u64 {
    let (class, eighths) = (class as u64, u64::from(IN_A_DOUBLING));
    match class / eighths {
        0 => class + 1,
        doubling => (eighths + class % eighths + 1) << (doubling - 1),
    }
}

/// What threads do: the deciding one, and behind the last of its stages that of the clients' frames.
pub const STAGES: [&str; 6] = ["decode", "step", "persist", "release", "execute", "requests"];
/// The place of the clients' stage in [`STAGES`].
pub(super) const REQUESTS: usize = 5;

/// What a frame waits for: the check of its signature and the deciding thread; a block; the block's commit; its
/// execution and the answer on its way out.
pub const WAITS: [&str; 4] = ["requests", "mempool", "ordering", "execution"];

/// All that is counted.
#[derive(Debug, Default)]
pub struct Profile {
    /// By [`STAGES`].
    pub stages: [Histogram; 6],
    /// By [`WAITS`], of frames in blocks that this replica proposed.
    pub led: [Histogram; 4],
    /// The same of others' blocks.
    pub followed: [Histogram; 4],
}

impl Profile {
    /// Each stage's seconds, for the log.
    #[must_use]
    pub fn seconds(&self) -> String {
        let each = STAGES.iter().zip(&self.stages);
        let each =
            each.map(|(stage, visits)| format!("{stage} {:.3}", visits.sum_ns() as f64 / 1e9));
        each.collect::<Vec<_>>().join(", ")
    }
}

/// Proposals and votes whose blocks' commit is still to come, at most.
const VIEWS: usize = 256;
/// A frame that is not answered for so long is not followed any more.
const PATIENCE: Duration = Duration::from_secs(10);

/// Follows one frame at a time. Part of the deciding thread.
#[derive(Debug)]
pub struct Follower {
    frame: Option<Followed>,
    /// When each view's block was proposed or voted for here first, and whether it was proposed here.
    views: VecDeque<(View, Instant, bool)>,
}

#[derive(Debug)]
struct Followed {
    id: FrameId,
    session: SessionId,
    first: Sequence,
    arrived: Instant,
    taken: Instant,
    /// When its block was proposed or voted for, when committed, and whether this replica proposed it.
    ordered: Option<(Instant, Instant, bool)>,
}

impl Default for Follower {
    fn default() -> Self {
        Self { frame: None, views: VecDeque::with_capacity(VIEWS) }
    }
}

impl Follower {
    /// A frame came, read from its socket at `arrived`.
    pub fn taken(&mut self, frame: &SharedFrame, arrived: Instant) {
        let follows = self.frame.as_ref();
        // What opens a session is no command.
        if frame.is_open() || follows.is_some_and(|one| one.arrived.elapsed() < PATIENCE) {
            return;
        }
        self.frame = Some(Followed {
            id: frame.id(),
            session: frame.session(),
            first: frame.first(),
            arrived,
            taken: Instant::now(),
            ordered: None,
        });
    }

    /// Something happened in the protocol.
    pub fn note(&mut self, event: &Event) {
        let (view, is_mine) = match event {
            Event::Proposed { view, .. } => (*view, true),
            Event::Voted(ballot) => (ballot.view, false),
            _ => return,
        };
        if self.views.back().is_some_and(|(last, ..)| *last >= view) {
            return;
        }
        if self.views.len() == VIEWS {
            self.views.pop_front();
        }
        self.views.push_back((view, Instant::now(), is_mine));
    }

    /// These blocks were committed.
    pub fn committed<C: Content>(&mut self, blocks: &[SharedBlock<C>]) {
        let Some(followed) = self.frame.as_mut().filter(|followed| followed.ordered.is_none())
        else {
            return;
        };
        let Some(block) = blocks.iter().find(|block| block.frames().contains(&followed.id)) else {
            return;
        };
        match self.views.iter().find(|(view, ..)| *view == block.view()) {
            Some((_, began, is_mine)) => {
                followed.ordered = Some((*began, Instant::now(), *is_mine));
            }
            // It neither made the block nor voted for it: there is nothing to tell.
            None => self.frame = None,
        }
    }

    /// A client is answered.
    pub fn answered(&mut self, response: &Response, profile: &Profile) {
        let Some(followed) = &self.frame else { return };
        let Response::Outcome(Outcome::Executed { session, first, count, .. }) = response else {
            return;
        };
        let end = first.0.saturating_add(u64::from(*count));
        if *session != followed.session || !(first.0..end).contains(&followed.first.0) {
            return;
        }
        if let Some((began, committed, is_mine)) = followed.ordered {
            let waits = if is_mine { &profile.led } else { &profile.followed };
            // A block may have come before the frame did.
            let began = began.max(followed.taken);
            let committed = committed.max(began);
            let points = [followed.arrived, followed.taken, began, committed, Instant::now()];
            for (wait, ends) in waits.iter().zip(points.windows(2)) {
                if let [from, to] = ends {
                    wait.record(to.saturating_duration_since(*from));
                }
            }
        }
        self.frame = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_is_in_the_class_whose_bound_is_next_above() {
        for ns in (0..5_000).chain((0..40).map(|power| 1 << power)).chain([12_345_678, 999_999_999])
        {
            let class = class_of(ns);
            let below = class.checked_sub(1).map_or(0, bound_ns);
            assert!(below <= ns && ns < bound_ns(class), "{ns} in {below}..{}", bound_ns(class));
            assert!(bound_ns(class) <= ns + ns / 8 + 1, "{ns} is far below {}", bound_ns(class));
        }
        assert_eq!(class_of(u64::MAX), CLASSES - 1);
    }

    #[test]
    fn what_was_recorded_is_counted() {
        let histogram = Histogram::default();
        for ns in [5, 5, 1_000] {
            histogram.record(Duration::from_nanos(ns));
        }
        assert_eq!(histogram.classes(), [(6, 2), (1_024, 1)]);
        assert_eq!(histogram.sum_ns(), 1_010);
    }
}
