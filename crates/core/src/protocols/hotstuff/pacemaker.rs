//! Which view this replica is in, when it gives up on it, and what others' time-outs make of that.
//!
//! Two kinds, which differ in whom a replica tells that it gave up:
//!
//! - **time-out certificates** (DiemBFT v4): all. q time-outs of one view make the certificate
//!   at every replica, at a cost of n² messages;
//! - **linear** (the dissertation's COMPLAIN and NEXT-VIEW): one collector, which makes the
//!   certificate and sends it to all. A replica that waits in vain complains to the next collector,
//!   about the same view. After n complaints every collector has heard all of them, so that
//!   replicas that wait for different times need not meet. (To complain about the next view, as the
//!   dissertation has it, gives up views that nobody has entered: their votes are lost, and runs of
//!   views that a chain needs become rare.)
//!
//! Common to both:
//!
//! - A view is entered only by a certificate of the view before it, and entered at once however
//!   far ahead it is: `view := max(high QC, high TC) + 1`. Stepping view by view would make a
//!   replica that was away re-enter each one.
//! - **A wait grows with each full wait that was lost in a row** ([`Timing`]): a network that needs
//!   x times the base costs ⌈log₂ x⌉ views, at the default multiplier, and one more if it turned
//!   slow of a sudden: the first one lost is excused if it was four times what views took lately,
//!   as then it was a leader. A wait counts as lost if the view ended without a certificate after
//!   at least half of it: q others end a view a moment before one's own timer would.
//! - **A success takes back what was not needed**: the wait falls to the shortest that is four
//!   times what views took lately (`measured`). So the climb is not forgotten on a slow network,
//!   and after one lost view of a dead leader the wait is at once what it was before.
//! - Where successes bring no commit for as long as a rotation of leaders, they take back nothing.
//!   (If more than f leaders need a longer wait than the others, the waits would never reach them.)
//! - **A suspected leader** (`suspects`) is waited for less. One that failed: a fifth, but not less
//!   than twice what views took lately. One that is late: as long as a view may take before it
//!   counts as late. Such a wait, lost, lengthens none. It applies to whom this replica waits for
//!   in the view: its leader, and its collector where that is another one. It does not apply
//!   before any view was measured, where more views than f + 1 were lost in a row, or where no
//!   commit came for a rotation: then it is not the leaders.
//! - **Who is late** is judged where votes are broadcast or the leader collects them. Where they go
//!   to the next leader, the others hear of a view's end with the next proposal: what a view takes
//!   is then the concern of two, and nobody is late.
//! - A local time-out leaves the view as it is. The time-out is sent again until a certificate ends
//!   the view, by a timer of its own: after as long as the view was waited for, then twice that,
//!   and so on. It goes to those whose time-out of the view has not come, and to those who sent
//!   theirs again; and at once to a peer whose channel opens. (Linear: to one collector after
//!   another; the interval doubles after each round of them.)
//! - q time-outs **of one view** make a certificate. One place a peer, its highest: no peer can
//!   make this grow.
//! - The timer runs only while there is work; an idle cluster is silent.
//! - Where a leader has to wait itself before it proposes, it is waited for so much longer: a
//!   shortened wait would otherwise end before it may speak.
//!
//! With time-out certificates, f + 1 time-outs for views at or above mine say that at least one
//! correct replica gave up on a view, so this one joins the (f + 1)-th highest of them. (Purely
//! local timers can stall for ever.)
//!
//! Deviation from DiemBFT v4, which counts the views since the last commit: with dead leaders
//! evenly placed a three-chain commits once a rotation, and its waits would never come down.

mod measured;
mod suspects;
mod timing;

pub use timing::{ENOUGH, LONGEST, Timing, Waits};

use crate::base::membership::{Committee, faults};
use crate::base::per_peer::PerPeer;
use crate::base::types::{Duration, ReplicaId, Time, View};
use crate::protocols::hotstuff::certificate::{Qc, TimeOut};
use measured::Measured;
use suspects::{Suspects, Suspicion};
use timing::{AMPLE, MAX_STEPS};

/// Whom a replica tells that it gave up on a view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// All of them.
    #[default]
    TimeoutCertificates,
    /// One collector after another.
    Linear,
}

impl Kind {
    /// The kinds by their names in configuration.
    pub const NAMES: [(&'static str, Self); 2] =
        [("timeout-certificates", Self::TimeoutCertificates), ("linear", Self::Linear)];

    /// Its name in configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::TimeoutCertificates => "timeout-certificates",
            Self::Linear => "linear",
        }
    }
}

/// What a time-out of a peer led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Consequence {
    /// Nothing yet.
    None,
    /// Give up on this view as well.
    Join(View),
    /// q gave up on one view: these, with the QCs that came with them.
    Certificate(Vec<(TimeOut, Qc)>),
}

/// How a view ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With a certificate of its votes.
    Certified,
    /// With a certificate of time-outs.
    GivenUp,
}

/// A peer's highest time-out.
#[derive(Clone, Debug)]
struct Heard {
    time_out: TimeOut,
    /// The QC that came with it.
    high_qc: Qc,
    /// It came again: its sender may not have heard this replica's.
    again: bool,
}

/// The state of the pacemaker.
#[derive(Clone, Debug)]
pub struct Pacemaker {
    kind: Kind,
    timing: Timing,
    /// So many views may pass without a commit before that says something: a rotation of leaders
    /// and the views from a proposal to its commit.
    patience: u64,
    faults: usize,
    committee: Committee,
    view: View,
    /// The leader of this view, and who collects its votes.
    awaited: [ReplicaId; 2],
    /// How often the timer ran out in this view.
    attempts: u64,
    /// How long the view was waited for that was given up last.
    waited: Duration,
    /// Full waits lost in a row, as far as no success has taken them back.
    steps: u64,
    /// Views in a row that were given up, after whatever wait.
    lost: usize,
    committed: View,
    /// How much longer this view is waited for, as its leader waits first.
    allowance: Duration,
    /// Since when there is work in this view.
    busy_since: Time,
    deadline: Option<Time>,
    /// By peer.
    time_outs: PerPeer<Option<Heard>>,
    suspects: Suspects,
    measured: Measured,
}

/// By how much the wait for a suspect is shorter ...
const SHORTENED: u32 = 5;
/// ... but not below so many times what views took lately.
const LEAST: u32 = 2;

impl Pacemaker {
    /// A pacemaker before its first view, of a protocol that commits a block `depth` views after
    /// its own.
    #[must_use]
    pub fn new(committee: &Committee, kind: Kind, timing: Timing, depth: u64) -> Self {
        let (replicas, faults) = (committee.size(), faults(committee.voter_count()));
        Self {
            kind,
            timing,
            patience: depth + committee.rotation() as u64,
            faults,
            committee: committee.clone(),
            view: View(0),
            awaited: [ReplicaId(0); 2],
            attempts: 0,
            waited: Duration::ZERO,
            steps: 0,
            lost: 0,
            committed: View(0),
            allowance: Duration::ZERO,
            busy_since: Time(0),
            deadline: None,
            time_outs: PerPeer::new(replicas),
            suspects: Suspects::new(replicas, faults),
            measured: Measured::new(replicas, faults),
        }
    }

    /// Whom it tells.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The current view.
    #[must_use]
    pub fn view(&self) -> View {
        self.view
    }

    /// When to give up on the view, or to say so again; `None` while there is nothing to wait for.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    /// Whether this replica has given up its view.
    #[must_use]
    pub fn gave_up(&self) -> bool {
        self.attempts > 0
    }

    /// Enters the view behind a certificate of `ended`, if that is a step forward. `awaited` are
    /// the leader of the view entered and who collects its votes (the same, where that is nobody
    /// else).
    pub fn certified(&mut self, now: Time, ended: View, how: End, awaited: [ReplicaId; 2]) -> bool {
        if ended < self.view {
            return false;
        }
        if ended == self.view && self.deadline.is_some() && self.attempts == 0 {
            match how {
                End::Certified => self.succeeded(now),
                End::GivenUp => self.lose(now),
            }
        }
        self.busy_since = now;
        self.view = mutant!("view-stepping", self.view.next(), ended.next());
        self.awaited = awaited;
        self.attempts = 0;
        self.allowance = Duration::ZERO;
        if self.deadline.is_some() {
            self.arm(now);
        }
        true
    }

    /// The view had its certificate in time.
    fn succeeded(&mut self, now: Time) {
        let ([leader, collector], took) = (self.awaited, now.since(self.busy_since));
        self.measured.note(leader, took);
        if let Some(typical) = self.measured.typical()
            && leader == collector
        {
            self.suspects.note(leader, took.saturating_sub(self.allowance), typical);
        }
        self.lost = 0;
        if self.is_stuck() {
            return;
        }
        let (typical, ample) = (self.measured.typical(), self.ample());
        let enough =
            |steps: &u64| ample.is_some_and(|ample| self.timing.wait(*steps, typical) >= ample);
        self.steps = (0..self.steps).find(enough).unwrap_or(self.steps);
    }

    /// The view is given up. Called once a view.
    fn lose(&mut self, now: Time) {
        self.waited = self.wait();
        let waited = now.since(self.busy_since).saturating_mul(2) >= self.waited + self.allowance;
        let excused = self.lost == 0
            && !self.is_stuck()
            && self.ample().is_some_and(|ample| self.waited >= ample);
        if waited && !self.is_shortened() && !excused {
            self.steps = MAX_STEPS.min(self.steps + 1);
        }
        self.lost = self.lost.saturating_add(1);
    }

    /// A wait that is long enough, by what views took lately; `None` before any was measured.
    fn ample(&self) -> Option<Duration> {
        self.measured.lately().map(|took| took.saturating_mul(AMPLE))
    }

    /// Whether commits have not come for so long that successes say little.
    fn is_stuck(&self) -> bool {
        self.view.0.saturating_sub(self.committed.0) > self.patience
    }

    /// The leader of this view waits so long before it proposes: it is waited for so much longer.
    pub fn allow(&mut self, now: Time, allowance: Duration) {
        if std::mem::replace(&mut self.allowance, allowance) != allowance && self.deadline.is_some()
        {
            self.arm(now);
        }
    }

    /// The timer ran out, or f + 1 others gave up: this view is given up, or that is to be said
    /// again. Sets the timer for the next time.
    pub fn expired(&mut self, now: Time) -> View {
        if self.attempts == 0 {
            self.lose(now);
        }
        self.attempts += 1;
        self.arm(now);
        self.view
    }

    /// One replica after another, as the timer runs out again and again.
    #[must_use]
    pub fn turn(&self) -> ReplicaId {
        self.committee.turn(self.view.0 + self.attempts)
    }

    /// Who collects the time-outs of `view`; `None`: everybody. One after another from the view's
    /// successor on, whatever the election of leaders; those that failed as leaders come last.
    /// (Each replica judges them for itself, but after n complaints has told everybody.)
    #[must_use]
    pub fn collector(&self, view: View) -> Option<ReplicaId> {
        if self.kind != Kind::Linear {
            return None;
        }
        let voters: Vec<ReplicaId> = self.committee.voters().collect();
        let count = voters.len().max(1) as u64;
        let turns = (1..=count)
            .filter_map(|turn| voters.get((view.plus(turn).0 % count) as usize).copied());
        let (failed, others): (Vec<_>, Vec<_>) =
            turns.partition(|id| self.suspects.has_failed(*id));
        let waited = (self.attempts.saturating_sub(1) % count) as usize;
        others.into_iter().chain(failed).nth(waited)
    }

    /// Notes that a block of `view` was committed.
    pub fn committed(&mut self, view: View) {
        self.committed = self.committed.max(view);
    }

    /// Starts the timer if there is work and it is not running; stops it if there is none.
    pub fn set_busy(&mut self, now: Time, busy: bool) {
        match (busy, self.deadline) {
            (true, None) => {
                self.busy_since = now;
                self.arm(now);
            }
            (false, Some(_)) => self.deadline = None,
            _ => {}
        }
    }

    /// Starts the timer anew: that of the view, or of saying again that it is given up.
    fn arm(&mut self, now: Time) {
        let wait = match self.attempts {
            0 => self.wait() + self.allowance,
            attempts => self.pause(attempts),
        };
        self.deadline = Some(now.after(wait));
    }

    /// How long after a time-out was sent for the `attempts`-th time it is sent again: as long as
    /// the view was waited for, and twice as long each time (linear: each round of n).
    fn pause(&self, attempts: u64) -> Duration {
        let doublings = match self.kind {
            Kind::TimeoutCertificates => attempts - 1,
            Kind::Linear => (attempts - 1) / self.committee.voter_count().max(1) as u64,
        };
        let doubled = 1_u32.checked_shl(doublings.min(u64::from(u32::MAX)) as u32);
        let pause = self.waited.saturating_mul(doubled.unwrap_or(u32::MAX));
        pause.min(self.timing.longest())
    }

    /// How long this view is waited for, if its leader does not wait.
    #[must_use]
    pub fn wait(&self) -> Duration {
        let wait = self.full_wait();
        let shortened = match (self.suspicion(), self.measured.lately(), self.measured.typical()) {
            (Some(Suspicion::Failed), Some(took), _) => {
                (wait / SHORTENED).max(took.saturating_mul(LEAST))
            }
            (Some(Suspicion::Late), _, Some(typical)) => suspects::allowed(typical),
            _ => wait,
        };
        wait.min(shortened)
    }

    fn full_wait(&self) -> Duration {
        self.timing.wait(self.steps, self.measured.typical())
    }

    /// Whether somebody is waited for that is not worth the full wait.
    fn is_shortened(&self) -> bool {
        self.suspicion().is_some()
    }

    /// Why somebody who is waited for is not worth the full wait.
    fn suspicion(&self) -> Option<Suspicion> {
        let may = self.lost <= self.faults + 1 && !self.is_stuck();
        let has_measure = may && self.measured.lately().is_some();
        let mut awaited = self.awaited.iter().filter(|_| has_measure);
        awaited.find_map(|id| self.suspects.suspects(*id))
    }

    /// Notes that a block of `leader` was certified: it did its part.
    pub fn praise(&mut self, leader: ReplicaId) {
        self.suspects.praise(leader);
    }

    /// Notes that a view was given up for want of `replica`: its leader, or who was to collect its
    /// votes.
    pub fn blame(&mut self, replica: ReplicaId) {
        self.suspects.blame(replica);
    }

    /// Takes in a time-out (its own included) whose signature and QC were checked.
    pub fn time_out(&mut self, time_out: TimeOut, high_qc: Qc, own: View) -> Consequence {
        if self.committee.weight(time_out.replica) == 0 {
            return Consequence::None;
        }
        let Some(place) = self.time_outs.get_mut(time_out.replica) else {
            return Consequence::None;
        };
        let held = place.as_ref().map(|held| held.time_out.view);
        if held.is_some_and(|held| held > time_out.view) {
            return Consequence::None;
        }
        let view = time_out.view;
        *place = Some(Heard { time_out, high_qc, again: held == Some(view) });
        if view < self.view {
            return Consequence::None;
        }
        if let Some(time_outs) = self.quorum_of(view) {
            return Consequence::Certificate(time_outs);
        }
        if self.kind == Kind::Linear {
            return Consequence::None;
        }
        mutant!("no-join", None, self.join(own)).map_or(Consequence::None, Consequence::Join)
    }

    /// Whom to send a time-out of `view` again: those whose own has not come, and those who sent
    /// theirs again since they were last asked for.
    pub fn unheard(&mut self, view: View) -> Vec<ReplicaId> {
        let mut unheard = Vec::new();
        for (replica, place) in self.time_outs.of_each_mut() {
            let again = place.as_mut().is_some_and(|held| std::mem::take(&mut held.again));
            if again || place.as_ref().is_none_or(|held| held.time_out.view < view) {
                unheard.push(replica);
            }
        }
        unheard
    }

    /// Notes a time-out of a view that is over. Whether its sender should be told: it is more than
    /// one view behind, or has said so before, or this replica has given up its own view, or has no
    /// work. (Time-outs that were on their way when q others ended the view are the rule; to answer
    /// each would cost n² certificates a view change.)
    pub fn is_behind(&mut self, time_out: &TimeOut, high_qc: &Qc) -> bool {
        let Some(place) = self.time_outs.get_mut(time_out.replica) else { return false };
        match place {
            Some(held) if held.time_out.view >= time_out.view => true,
            _ => {
                let (time_out, high_qc) = (*time_out, high_qc.clone());
                *place = Some(Heard { time_out, high_qc, again: false });
                let busy = self.deadline.is_some() && self.attempts == 0;
                time_out.view.next() < self.view || !busy
            }
        }
    }

    /// q time-outs of `view`, if there are so many: those with the highest QCs.
    fn quorum_of(&self, view: View) -> Option<Vec<(TimeOut, Qc)>> {
        let counts = |held: &&Heard| {
            let of = held.time_out.view;
            mutant!("mixed-view-tc", of >= view, of == view)
        };
        let of_view = self.time_outs.iter().flatten().filter(counts);
        let mut time_outs: Vec<&Heard> = of_view.collect();
        time_outs.sort_by_key(|held| std::cmp::Reverse(held.high_qc.rank()));
        let replicas = time_outs.iter().map(|held| held.time_out.replica);
        let highest = time_outs[..self.committee.quorum_among(replicas)?].iter();
        Some(highest.map(|held| (held.time_out, held.high_qc.clone())).collect())
    }

    /// The highest view that f + 1 gave up, or one above it, if it is one to join: not below the
    /// current view and above `own`, the highest this replica gave up on itself.
    fn join(&self, own: View) -> Option<View> {
        let heard = self.time_outs.iter().flatten().map(|held| held.time_out);
        let mut views: Vec<_> = heard.map(|said| (said.view, said.replica)).collect();
        views.sort_unstable_by_key(|(view, _)| std::cmp::Reverse(*view));
        let mut weight = 0;
        let (witnessed, _) = views.into_iter().find(|(_, replica)| {
            weight += self.committee.weight(*replica);
            weight >= self.committee.honest_witness()
        })?;
        (witnessed >= self.view && witnessed > own).then_some(witnessed)
    }
}
