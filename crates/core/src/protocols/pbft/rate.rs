//! The minimum rate of a primary.
//!
//! A faulty primary may order each block just before the view timer runs out. (Clement, Wong,
//! Alvisi, Dahlin and Marchetti, *Making Byzantine Fault Tolerant Systems Tolerate Byzantine
//! Faults*, "Aardvark", NSDI 2009, section 2.) Aardvark asks each primary for a throughput that it
//! learns from the primaries before (section 4).
//!
//! # The rule
//! The primary *owes* a block while frames wait at a backup, all that was ordered is executed, and
//! nothing is under way. The backup allows it [`MARGIN`] times what the *group* takes for a block:
//! the mean time from when a block is known to be ordered to its commit. Then the backup passes the
//! frames on to the primary. The time from then until the primary orders a block is *lost*. Over
//! [`PERIOD`] blocks no more may be lost than the same allowance for each block. A primary that
//! exceeds it, and lost [`ENOUGH`] first waits, is too slow.
//!
//! So while frames wait, a primary orders a block within 2 · [`MARGIN`] times what the group takes
//! for one, on average. The allowance is at least 1 / [`FLOOR`] of the first wait.
//!
//! # Why it is not Aardvark's rule
//! Aardvark compares requests per second, so slow clients look like a slow primary. It can afford
//! that, because it changes views regularly anyway. Here a correct primary keeps its view:
//! - **Quiet or slow clients** cost nothing: without frames that wait, nothing is owed.
//! - **A slow network** slows down the group and the primary alike, and only their ratio counts.
//! - **A long queue** costs nothing: while blocks are under way, nothing is owed.
//! - **A client that shuns the primary** costs nothing: the backup passes its frames on before it
//!   counts lost time. A primary that has frames, and nothing under way, orders at once.
//!
//! # Expectations fall
//! Some group may be such that every primary looks slow. Each time that a replica gives up a
//! primary for its rate, it halves the rate that it asks for. After [`RISES_AFTER`] blocks at the
//! full rate it takes one halving back. So the view changes end that bring nothing.
//!
//! # Its limits
//! - Each replica judges for itself, and a view ends when f + 1 agree. Fewer liars than that cannot
//!   end the view of a correct primary.
//! - No replica can shorten what the group takes: that needs q replicas. The primary can make it
//!   longer. It may show its blocks to some backups first, and the commit waits for the others.
//!   Those fetch the block after 100 ms, so the group looks slower by that at most.
//! - The rate counts blocks. A primary that orders small blocks at the full rate is not caught.

use std::collections::VecDeque;

use crate::base::types::{Duration, Height, Time};

/// The primary may take so many times what the group takes for a block.
const MARGIN: u32 = 8;
/// The allowance is at least the first wait divided by this: machines pause at times.
const FLOOR: u32 = 32;
/// Time that is lost counts for so many blocks.
const PERIOD: u64 = 64;
/// A primary that lost fewer first waits than this is not worth a view change.
const ENOUGH: u32 = 2;
/// After so many blocks at the full rate, expectations rise again.
const RISES_AFTER: u64 = 1024;
/// Expectations are halved so often at most.
const MOST_HALVINGS: u32 = 16;

/// What the primary owes.
#[derive(Clone, Copy, Debug)]
struct Debt {
    since: Time,
    /// When the frames were passed on to it: time is lost from then on.
    passed_on: Option<Time>,
}

/// How fast the primary of the current view orders, beside what the group takes for a block.
#[derive(Clone, Debug)]
pub(super) struct Rate {
    /// The first wait for a primary.
    base: Duration,
    /// What the group takes for a block: the mean of the last ones. It outlasts views.
    share: Option<Duration>,
    /// The blocks that are known to be ordered, ascending, and since when.
    under_way: VecDeque<(Height, Time)>,
    /// Blocks up to here are committed.
    head: Height,
    debt: Option<Debt>,
    /// What was lost in this period.
    lost: Duration,
    /// How many blocks were committed in this period.
    blocks: u64,
    is_too_slow: bool,
    /// How often the rate that is asked for was halved.
    halvings: u32,
    /// How many blocks in a row came at the full rate.
    good: u64,
}

impl Rate {
    /// Nothing is known of the group. `base` is the first wait for a primary.
    pub fn new(base: Duration) -> Self {
        Self {
            base,
            share: None,
            under_way: VecDeque::new(),
            head: Height(0),
            debt: None,
            lost: Duration::ZERO,
            blocks: 0,
            is_too_slow: false,
            halvings: 0,
            good: 0,
        }
    }

    /// What a primary may take for a block. `None` as long as nothing is known of the group.
    fn allowance(&self) -> Option<Duration> {
        let share = self.share?.saturating_mul(MARGIN);
        Some(share.max(self.base / FLOOR))
    }

    /// Blocks up to `ordered` are known to be ordered, and those up to `head` are committed. Says
    /// whether the primary `owes` a block.
    pub fn observe(&mut self, now: Time, ordered: Height, head: Height, owes: bool) {
        while let Some((_, since)) = self.under_way.pop_front_if(|(height, _)| *height <= head) {
            self.learn(now.since(since));
        }
        let last = self.under_way.back().map_or(head, |(height, _)| *height);
        self.under_way.extend((last.next().0..=ordered.0).map(|height| (Height(height), now)));
        if !owes {
            let lost_since = |debt: Debt| {
                planted!("lost-before-frames-are-passed-on", Some(debt.since), debt.passed_on)
            };
            let since = self.debt.take().and_then(lost_since);
            self.lost += since.map_or(Duration::ZERO, |since| now.since(since));
        } else {
            self.debt.get_or_insert(Debt { since: now, passed_on: None });
        }
        if head > self.head {
            self.blocks += (head.0 - self.head.0).min(PERIOD);
            self.head = head;
            self.judge();
        }
    }

    /// The group took so long for a block. A block that was known and committed in one instant was
    /// fetched, and says nothing.
    fn learn(&mut self, took: Duration) {
        if took > Duration::ZERO {
            self.share = Some(self.share.map_or(took, |share| (share * 7 + took) / 8));
        }
    }

    fn judge(&mut self) {
        let Some(allowance) = self.allowance() else { return };
        let allowed = allowance.saturating_mul(self.blocks as u32);
        let asked_for = allowed.saturating_mul(1 << self.halvings);
        if self.lost >= self.base * ENOUGH && self.lost > asked_for {
            self.is_too_slow = planted!("slow-primary-kept", false, true);
        } else if self.blocks >= PERIOD {
            self.good = if self.lost <= allowed { self.good + self.blocks } else { 0 };
            if self.good >= RISES_AFTER {
                (self.good, self.halvings) = (0, self.halvings.saturating_sub(1));
            }
            (self.lost, self.blocks) = (Duration::ZERO, 0);
        }
    }

    /// Whether it is time to pass on to the primary the frames that wait here: once a debt.
    pub fn passes_on(&mut self, now: Time) -> bool {
        let due = self.due().is_some_and(|due| now >= due);
        if let Some(debt) = self.debt.as_mut().filter(|_| due) {
            debt.passed_on = Some(now);
        }
        due
    }

    fn due(&self) -> Option<Time> {
        let debt = self.debt.filter(|debt| debt.passed_on.is_none())?;
        Some(debt.since.after(self.allowance()?))
    }

    /// Whether the primary is to be given up for its rate.
    pub fn is_too_slow(&self) -> bool {
        self.is_too_slow
    }

    /// The primary is given up for its rate: less is expected of the next ones.
    pub fn blames(&mut self) {
        let more = (self.halvings + 1).min(MOST_HALVINGS);
        self.halvings = planted!("expectations-never-fall", 0, more);
        self.good = 0;
    }

    /// The view ends, or another one begins.
    pub fn ends(&mut self) {
        self.under_way.clear();
        (self.debt, self.lost, self.blocks) = (None, Duration::ZERO, 0);
        self.is_too_slow = false;
    }

    /// When frames are to be passed on.
    pub fn deadline(&self) -> Option<Time> {
        self.due()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const BASE: Duration = Duration::from_secs(1);

    /// A backup whose primary orders one block at a time.
    struct Backup {
        rate: Rate,
        now: Time,
        head: Height,
        /// How many views it gave up.
        blamed: u32,
    }

    impl Backup {
        fn new() -> Self {
            Self { rate: Rate::new(BASE), now: Time(0), head: Height(0), blamed: 0 }
        }

        /// Frames wait, and the primary orders a block so much later, or so much after it has them
        /// from this replica; the group takes `share` for the block.
        fn block(&mut self, ordered_after: Duration, given: Option<Duration>, share: Duration) {
            let begins = self.now;
            self.rate.observe(self.now, self.head, self.head, true);
            let due = self.rate.deadline().filter(|due| *due < begins.after(ordered_after));
            let mut ordered = begins.after(ordered_after);
            if let Some(due) = due {
                self.now = due;
                assert!(self.rate.passes_on(due) && !self.rate.passes_on(due));
                ordered = given.map_or(ordered, |given| ordered.min(due.after(given)));
            }
            self.now = ordered;
            self.rate.observe(self.now, self.head.next(), self.head, false);
            self.now = self.now.after(share);
            self.head = self.head.next();
            self.rate.observe(self.now, self.head, self.head, false);
            if self.rate.is_too_slow() {
                self.rate.blames();
                self.rate.ends();
                self.blamed += 1;
            }
        }
    }

    #[test]
    fn a_primary_that_crawls_is_blamed() {
        let mut backup = Backup::new();
        (0..100).for_each(|_| backup.block(MS, None, MS * 2));
        assert_eq!(backup.blamed, 0);
        let begins = backup.now;
        while backup.blamed == 0 {
            backup.block(MS * 900, None, MS * 2);
            assert!(backup.now.since(begins) < BASE * 6, "it crawls on");
        }
        // From the first block on as well.
        let mut backup = Backup::new();
        (0..6).for_each(|_| backup.block(MS * 900, None, MS * 2));
        assert_eq!(backup.blamed, 1);
    }

    /// The rate that is promised: twice the allowance and the group's own time a block.
    #[test]
    fn whoever_is_slower_than_promised_is_blamed_and_nobody_who_is_faster() {
        for share in [MS / 10, MS, MS * 10, MS * 100] {
            let allowance = (share * MARGIN).max(BASE / FLOOR);
            for (percent, blamed) in [(190, false), (220, true)] {
                let mut backup = Backup::new();
                (0..100).for_each(|_| backup.block(share / 2, None, share));
                (0..200).for_each(|_| backup.block(allowance * percent / 100, None, share));
                assert_eq!(backup.blamed > 0, blamed, "{share:?}, {percent} %");
            }
        }
    }

    /// Each block takes longer than the last, without end. That is the network's affair.
    #[test]
    fn a_network_that_slows_down_without_bound_blames_nobody() {
        let (mut backup, mut delay) = (Backup::new(), MS);
        for _ in 0..2_000 {
            backup.block(delay * 2, None, delay * 2);
            delay = (delay * 11 / 10).min(BASE * 1_000);
        }
        // From one block to the next a hundred times slower.
        let mut backup = Backup::new();
        (0..100).for_each(|_| backup.block(MS, None, MS * 2));
        (0..100).for_each(|_| backup.block(MS * 100, None, MS * 200));
        assert_eq!(backup.blamed, 0);
    }

    /// Nothing waits for hours: nothing is owed, and no timer runs.
    #[test]
    fn a_quiet_cluster_blames_nobody() {
        let mut backup = Backup::new();
        for _ in 0..200 {
            backup.block(MS, None, MS * 2);
            backup.now = backup.now.after(BASE * 3_600);
            backup.rate.observe(backup.now, backup.head, backup.head, false);
            assert_eq!(backup.rate.deadline(), None);
        }
        assert_eq!(backup.blamed, 0);
    }

    /// Frames reach the primary from this replica alone: it orders them as soon as it has them.
    #[test]
    fn a_client_that_shuns_the_primary_blames_nobody() {
        let mut backup = Backup::new();
        (0..100).for_each(|_| backup.block(MS, None, MS * 2));
        (0..1_000).for_each(|_| backup.block(MS * 500, Some(MS * 3), MS * 2));
        assert_eq!(backup.blamed, 0);
    }

    /// All primaries look slow. The view changes that bring nothing end, and so does the mildness.
    #[test]
    fn expectations_fall_and_rise_again() {
        let mut backup = Backup::new();
        (0..5_000).for_each(|_| backup.block(MS * 900, None, MS * 2));
        let fruitless = backup.blamed;
        assert!((2..=6).contains(&fruitless), "{fruitless}");
        (0..5_000).for_each(|_| backup.block(MS * 900, None, MS * 2));
        assert_eq!(backup.blamed, fruitless, "it goes on");
        (0..RISES_AFTER * 10).for_each(|_| backup.block(MS, None, MS * 2));
        (0..4).for_each(|_| backup.block(MS * 900, None, MS * 2));
        assert_eq!(backup.blamed, fruitless + 1, "it stays mild");
    }
}
