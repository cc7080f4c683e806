//! When a replica gives up on a view, and when it asks for what it may have missed.

use std::collections::VecDeque;

use crate::base::types::{Duration, Time};

/// How long a replica waits for a block to be executed before it gives up on the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// The first wait; each view change in a row doubles it (section 4.4 of the paper).
    pub base: Duration,
    /// No wait is longer.
    pub max: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { base: Duration::from_secs(1), max: Duration::from_secs(60) }
    }
}

/// The first wait before what may be lost is asked for ...
const REPEAT_AFTER: Duration = Duration::from_millis(100);
/// ... and how often that is doubled at most.
const MAX_DOUBLINGS: u32 = 5;
/// A wait is at least so many times as long as blocks took.
const MARGIN: u32 = 4;

/// The timers of a replica. Both run only while it waits for something.
///
/// The longest wait of a view is by what happened before it. What its own primary does makes later
/// ones shorter and never longer: else each block could take some times as long as the last, up to
/// the longest wait of all. (*Making Byzantine Fault Tolerant Systems Tolerate Byzantine Faults*,
/// Clement, Wong, Alvisi, Dahlin and Marchetti, NSDI 2009, section 2, on primaries that are slow on
/// purpose.) Of n primaries in turn at most f are faulty: the median over n views is bounded by
/// what correct ones took.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    patience: Patience,
    /// View changes in a row, before this view, in which nothing was executed.
    failures: u32,
    /// How long blocks of this view took lately, at the longest; none where none was committed.
    slowest: Option<Duration>,
    /// The same of the last views in which blocks were committed, as they ended; the latest last.
    before: VecDeque<Duration>,
    /// How many of them count.
    views: usize,
    /// Since when it waits: the view timer.
    since: Option<Time>,
    /// When it asks again, and how often it did.
    repeat: Option<(Time, u32)>,
}

impl Clock {
    /// Nothing is waited for. The primaries of so many views in a row are different ones.
    pub fn new(patience: Patience, views: usize) -> Self {
        let (slowest, before) = (None, VecDeque::new());
        Self { patience, failures: 0, slowest, before, views, since: None, repeat: None }
    }

    /// What blocks took in a usual view before this one: as long as there were few views, nothing.
    fn usual(&self) -> Duration {
        let mut all: Vec<_> = self.before.iter().copied().collect();
        all.sort_unstable();
        let (missing, middle) = (self.views - all.len(), self.views.saturating_sub(1) / 2);
        let at = middle.checked_sub(missing).and_then(|at| all.get(at));
        at.copied().unwrap_or_default()
    }

    fn wait(&self) -> Duration {
        let usual = self.usual().saturating_mul(MARGIN);
        let doubled = self.patience.base.saturating_mul(1 << self.failures.min(16));
        let first = doubled.max(usual);
        let wait = match self.slowest {
            Some(slowest) => first.min(self.patience.base.max(usual).max(slowest * MARGIN)),
            None => first,
        };
        wait.min(self.patience.max)
    }

    /// Whether something is waited for from now on, and whether the view's primary is to blame if
    /// it does not come.
    pub fn set(&mut self, now: Time, waits: bool, is_timed: bool) {
        if !waits {
            (self.since, self.repeat) = (None, None);
            return;
        }
        self.repeat.get_or_insert((now.after(REPEAT_AFTER), 0));
        if is_timed {
            self.since.get_or_insert(now);
        } else {
            self.since = None;
        }
    }

    /// A block was committed: only that counts as progress, no message does.
    pub fn progressed(&mut self, now: Time) {
        if let Some(since) = self.since.take() {
            // It fades by an eighth a block.
            let faded = self.slowest.unwrap_or_default() * 7 / 8;
            self.slowest = Some(now.since(since).max(faded));
        }
        self.repeat = None;
    }

    /// A view is given up.
    pub fn failed(&mut self) {
        self.ends();
        self.failures = mutant!("pbft-no-back-off", 0, self.failures.saturating_add(1));
    }

    /// A view begins.
    pub fn entered(&mut self) {
        self.ends();
    }

    fn ends(&mut self) {
        (self.since, self.repeat) = (None, None);
        let Some(slowest) = self.slowest.take() else { return };
        self.failures = 0;
        self.before.push_back(slowest);
        if self.before.len() > self.views {
            self.before.pop_front();
        }
    }

    /// Whether the view timer has run out.
    pub fn has_run_out(&self, now: Time) -> bool {
        self.since.is_some_and(|since| now >= since.after(self.wait()))
    }

    /// Whether it is time to ask for what may be lost: then the next time is set.
    pub fn repeats(&mut self, now: Time) -> bool {
        match self.repeat {
            Some((due, times)) if now >= due => {
                let next = times.saturating_add(1);
                let wait = REPEAT_AFTER * (1 << next.min(MAX_DOUBLINGS));
                self.repeat = Some((now.after(wait), next));
                true
            }
            _ => false,
        }
    }

    /// The next instant at which one of the two is due.
    pub fn deadline(&self) -> Option<Time> {
        let view = self.since.map(|since| since.after(self.wait()));
        view.into_iter().chain(self.repeat.map(|(due, _)| due)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: Duration = Duration::from_secs(1);

    fn clock() -> Clock {
        Clock::new(Patience { base: BASE, max: BASE * 60 }, 4)
    }

    /// Something is waited for, and comes so much later.
    fn block(clock: &mut Clock, now: &mut Time, took: Duration) {
        clock.set(*now, true, true);
        *now = now.after(took);
        assert!(!clock.has_run_out(*now), "a block that takes {took:?} comes too late");
        clock.progressed(*now);
    }

    #[test]
    fn a_primary_cannot_stretch_the_waits_for_its_own_blocks() {
        let (mut clock, mut now, mut took) = (clock(), Time(0), BASE / 10);
        while took < clock.wait() {
            assert!(took < BASE, "a block may take {took:?} by now");
            block(&mut clock, &mut now, took);
            took = took * 39 / 10;
        }
        assert_eq!(clock.wait(), BASE);
    }

    /// f of n primaries take as long as they may, view by view.
    #[test]
    fn slow_primaries_stretch_no_waits_of_later_views() {
        let (mut clock, mut now) = (clock(), Time(0));
        for view in 0..40 {
            clock.entered();
            for _ in 0..9 {
                let took = if view % 4 == 0 { clock.wait() * 9 / 10 } else { BASE / 100 };
                block(&mut clock, &mut now, took);
            }
            clock.failed();
            assert!(clock.wait() <= BASE * 2, "view {view}: {:?}", clock.wait());
        }
    }

    /// Where everything takes longer than the first wait, some views are lost, and then none.
    #[test]
    fn a_slow_network_is_learnt() {
        let (mut clock, mut now, slow) = (clock(), Time(0), BASE * 5);
        let mut lost = Vec::new();
        for _ in 0..6 {
            lost.push(0);
            while clock.wait() <= slow {
                clock.failed();
                clock.entered();
                lost.iter_mut().last().into_iter().for_each(|lost| *lost += 1);
            }
            (0..20).for_each(|_| block(&mut clock, &mut now, slow));
            clock.failed();
            clock.entered();
        }
        assert_eq!(lost, [3, 2, 2, 0, 0, 0]);
        // And that it is fast again.
        for _ in 0..4 {
            (0..20).for_each(|_| block(&mut clock, &mut now, BASE / 100));
            clock.entered();
        }
        assert_eq!(clock.wait(), BASE);
    }
}
