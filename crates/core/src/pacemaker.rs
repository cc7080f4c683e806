//! Which view this replica is in, when it gives up on it, and what others' time-outs make of that.
//!
//! Two kinds, which differ in whom a replica tells that it gave up:
//!
//! - **time-out certificates** (DiemBFT v4; F1): all. q time-outs of one view make the certificate
//!   at every replica, at a cost of n² messages;
//! - **linear** (the dissertation's COMPLAIN and NEXT-VIEW, D2): one collector, which makes the
//!   certificate and sends it to all. A replica that waits in vain complains to the next collector,
//!   about the same view. After n complaints every collector has heard all of them, so that replicas
//!   that wait for different times need not meet. (To complain about the next view, as the
//!   dissertation has it, gives up views that nobody has entered: their votes are lost, and runs of
//!   views that a chain needs become rare.)
//!
//! Common to both:
//!
//! - A view is entered only by a certificate of the view before it, and entered at once however
//!   far ahead it is: `view := max(high QC, high TC) + 1`. Stepping view by view would make a
//!   replica that was away re-enter each one.
//! - The timer grows with the distance to the last *commit* (see [`Timing`]), so that an empty
//!   certificate does not reset it, with a slack of four views for each fault tolerated (of up to
//!   four): that is what dead leaders cost a three-chain even when all others lead in time; without
//!   it the timers of a cluster with one dead replica would never come down to the base.
//! - A local time-out leaves the view as it is: the time-out is sent again and again until a
//!   certificate ends the view, at growing intervals (those of as many views), so that a minority cut
//!   off for long says little; and at once to a peer whose channel opens.
//! - q time-outs **of one view** make a certificate. One place a peer, its highest: no peer can
//!   make this grow.
//! - The timer runs only while there is work; an idle cluster is silent.
//! - A leader whose last view was given up is waited for less (a fifth), in its own views and in
//!   those whose votes it collects, but every 64th time fully: a dead replica costs little for
//!   as long as it stays dead, and a slow one gets its chance (the dissertation's missing failure
//!   detector, D14). Where more than f leaders failed, it was not the leaders: nobody's wait is
//!   shortened. Each replica judges for itself; only liveness rests on it.
//! - Where a leader has to wait itself before it proposes, it is waited for so much longer: a
//!   shortened wait would otherwise end before it may speak.
//!
//! With time-out certificates, f + 1 time-outs for views at or above mine say that at least one
//! correct replica gave up on a view, so this one joins the (f + 1)-th highest of them. (Purely local
//! timers can stall for ever.)

mod timing;

pub use timing::{Adaptive, ENOUGH, LONGEST, Timing, Waits};

use crate::certificate::{Qc, TimeOut};
use crate::committee::Committee;
use crate::types::{Duration, ReplicaId, Time, View};

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

/// The state of the pacemaker.
#[derive(Clone, Debug)]
pub struct Pacemaker {
    kind: Kind,
    timing: Timing,
    /// Views from a proposal to its commit, and the slack.
    depth: u64,
    quorum: usize,
    honest_witness: usize,
    view: View,
    /// The leaders of this view and the next.
    leaders: [ReplicaId; 2],
    /// How often the timer ran out in this view.
    attempts: u64,
    committed: View,
    /// How much longer this view is waited for, as its leader waits first.
    allowance: Duration,
    /// Since when there is work in this view.
    busy_since: Time,
    deadline: Option<Time>,
    /// By peer: its highest time-out and the QC that came with it.
    time_outs: Vec<Option<(TimeOut, Qc)>>,
    /// By leader: how many of its views in a row were given up.
    failures: Vec<u32>,
}

/// By how much the wait for a leader that failed is shorter.
const SHORTENED: u32 = 5;
/// Each so many failures in a row it gets the full wait.
const SECOND_CHANCE: u32 = 64;

impl Pacemaker {
    /// A pacemaker before its first view, of a protocol that commits a block `depth` views after
    /// its own.
    #[must_use]
    pub fn new(committee: &Committee, kind: Kind, timing: Timing, depth: u64) -> Self {
        Self {
            kind,
            failures: vec![0; committee.size()],
            timing,
            depth: depth + 4 * committee.faults().min(4) as u64,
            quorum: committee.quorum(),
            honest_witness: committee.honest_witness(),
            view: View(0),
            leaders: [ReplicaId(0); 2],
            attempts: 0,
            committed: View(0),
            allowance: Duration::ZERO,
            busy_since: Time(0),
            deadline: None,
            time_outs: vec![None; committee.size()],
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

    /// When to give up on the view; `None` while there is nothing to wait for.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    /// Enters the view behind a certificate of `certified`, if that is a step forward. `leaders`
    /// are those of the view entered and the next.
    pub fn certified(&mut self, now: Time, certified: View, leaders: [ReplicaId; 2]) -> bool {
        if certified < self.view {
            return false;
        }
        if certified == self.view && self.deadline.is_some() && self.attempts == 0 {
            self.timing.succeeded(now.since(self.busy_since));
        }
        self.busy_since = now;
        self.view = mutant!("view-stepping", self.view.next(), certified.next());
        self.leaders = leaders;
        self.attempts = 0;
        self.allowance = Duration::ZERO;
        if self.deadline.is_some() {
            self.arm(now);
        }
        true
    }

    /// The leader of this view waits so long before it proposes: it is waited for so much longer.
    pub fn allow(&mut self, now: Time, allowance: Duration) {
        if std::mem::replace(&mut self.allowance, allowance) != allowance && self.deadline.is_some()
        {
            self.arm(now);
        }
    }

    /// The timer ran out: the view to give up.
    pub fn expired(&mut self) -> View {
        if self.attempts == 0 {
            self.timing.timed_out();
        }
        self.attempts += 1;
        self.view
    }

    /// One replica after another, as the timer runs out again and again.
    #[must_use]
    pub fn turn(&self) -> ReplicaId {
        let turn = (self.view.0 + self.attempts) % self.failures.len().max(1) as u64;
        ReplicaId(turn as u16)
    }

    /// Who collects the time-outs of `view`; `None`: everybody. One after another from the view's
    /// successor on, whatever the election of leaders; those that failed as leaders come last. (Each
    /// replica judges them for itself, but after n complaints has told everybody.)
    #[must_use]
    pub fn collector(&self, view: View) -> Option<ReplicaId> {
        if self.kind != Kind::Linear {
            return None;
        }
        let replicas = self.failures.len() as u64;
        let turns = (1..=replicas).map(|turn| ReplicaId((view.plus(turn).0 % replicas) as u16));
        let (suspects, others): (Vec<_>, Vec<_>) = turns.partition(|id| self.suspects(*id));
        let waited = (self.attempts.saturating_sub(1) % replicas) as usize;
        others.into_iter().chain(suspects).nth(waited)
    }

    /// Notes that a block of `view` was committed. Back-off is measured from here.
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

    /// Starts the current view's timer anew.
    pub fn arm(&mut self, now: Time) {
        self.deadline = Some(now.after(self.wait() + self.allowance));
    }

    /// How long this view is waited for, if its leader does not wait.
    #[must_use]
    pub fn wait(&self) -> Duration {
        let attempted = self.view.plus(self.attempts);
        let wait = self.timing.wait(attempted, self.committed, self.depth);
        let is_shortened = self.leaders.iter().any(|leader| self.suspects(*leader));
        if is_shortened { wait / SHORTENED } else { wait }
    }

    /// Notes that a block of `leader` was certified: it did its part.
    pub fn praise(&mut self, leader: ReplicaId) {
        if let Some(failures) = self.failures.get_mut(leader.index()) {
            *failures = 0;
        }
    }

    /// Notes that a view was given up for want of `leader`.
    pub fn blame(&mut self, leader: ReplicaId) {
        if let Some(failures) = self.failures.get_mut(leader.index()) {
            *failures = failures.saturating_add(1);
        }
    }

    /// Whether a leader is not worth the full wait.
    fn suspects(&self, leader: ReplicaId) -> bool {
        let failed = self.failures.iter().filter(|failures| **failures > 0).count();
        let failures = self.failures.get(leader.index()).copied().unwrap_or(0);
        failed < self.honest_witness && !failures.is_multiple_of(SECOND_CHANCE)
    }

    /// Takes in a time-out (its own included) whose signature and QC were checked.
    pub fn time_out(&mut self, time_out: TimeOut, high_qc: Qc, own: View) -> Consequence {
        let Some(place) = self.time_outs.get_mut(time_out.replica.index()) else {
            return Consequence::None;
        };
        if place.as_ref().is_some_and(|(held, _)| held.view > time_out.view) {
            return Consequence::None;
        }
        let view = time_out.view;
        *place = Some((time_out, high_qc));
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

    /// Notes a time-out of a view that is over. Whether its sender should be told: it is more than
    /// one view behind, or has said so before. (Time-outs that were on their way when q others
    /// ended the view are the rule; to answer each would cost n² certificates a view change.)
    pub fn is_behind(&mut self, time_out: &TimeOut, high_qc: &Qc) -> bool {
        let Some(place) = self.time_outs.get_mut(time_out.replica.index()) else { return false };
        match place {
            Some((held, _)) if held.view >= time_out.view => true,
            _ => {
                *place = Some((*time_out, high_qc.clone()));
                time_out.view.next() < self.view
            }
        }
    }

    /// q time-outs of `view`, if there are so many: those with the highest QCs.
    fn quorum_of(&self, view: View) -> Option<Vec<(TimeOut, Qc)>> {
        let counts =
            |held: &TimeOut| mutant!("mixed-view-tc", held.view >= view, held.view == view);
        let of_view = self.time_outs.iter().flatten().filter(|(held, _)| counts(held));
        if of_view.clone().count() < self.quorum {
            return None;
        }
        let mut time_outs: Vec<&(TimeOut, Qc)> = of_view.collect();
        time_outs.sort_by_key(|(_, qc)| std::cmp::Reverse(qc.rank()));
        Some(time_outs.into_iter().take(self.quorum).cloned().collect())
    }

    /// The (f + 1)-th highest view others gave up on, if it is one to join: not below the current
    /// view and above `own`, the highest this replica gave up on itself.
    fn join(&self, own: View) -> Option<View> {
        let mut views: Vec<View> =
            self.time_outs.iter().flatten().map(|(held, _)| held.view).collect();
        views.sort_unstable();
        let witnessed = *views.iter().rev().nth(self.honest_witness - 1)?;
        (witnessed >= self.view && witnessed > own).then_some(witnessed)
    }
}
