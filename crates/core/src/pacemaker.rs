//! The time-out-certificate pacemaker (DiemBFT v4; F1): which view this replica is in, when it
//! gives up on it, and what others' time-outs make of that.
//!
//! - A view is entered only by a certificate of the view before it, and entered at once however
//!   far ahead it is: `view := max(high QC, high TC) + 1`. Stepping view by view would make a
//!   replica that was away re-enter each one.
//! - The timer grows with the distance to the last *commit*, so that an empty certificate does
//!   not reset it: `base · multiplier ^ max(view − committed view − depth − slack, 0)`, up to a
//!   longest wait. The slack, four views for each fault tolerated (of up to four), is what dead
//!   leaders cost a three-chain even when all others lead in time; without it the timers of a
//!   cluster with one dead replica would never come down to the base.
//! - A local time-out leaves the view as it is: the time-out is sent again and again until a
//!   certificate ends the view.
//! - f + 1 time-outs for views at or above mine: at least one correct replica gave up on a view,
//!   so this one joins the (f + 1)-th highest of them. (Purely local timers can stall for ever.)
//! - q time-outs **of one view** make a certificate. One place a peer, its highest: no peer can
//!   make this grow.
//! - The timer runs only while there is work; an idle cluster is silent.
//! - A leader whose last view was given up is waited for less (a fifth), in its own views and in
//!   those whose votes it collects, but every 64th time fully: a dead replica costs little for
//!   as long as it stays dead, and a slow one gets its chance (the dissertation's missing failure
//!   detector, D14). Where more than f leaders failed, it was not the leaders: nobody's wait is
//!   shortened. Each replica judges for itself; only liveness rests on it.

mod timing;

pub use timing::{Adaptive, ENOUGH, LONGEST, Timing, Waits};

use crate::certificate::{Qc, Tc, TimeOut};
use crate::committee::Committee;
use crate::leader::Election;
use crate::types::{ReplicaId, Time, View};

/// What a time-out of a peer led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Consequence {
    /// Nothing yet.
    None,
    /// Give up on this view as well.
    Join(View),
    /// q gave up on one view.
    Certificate(Tc),
}

/// The state of the pacemaker.
#[derive(Clone, Debug)]
pub struct Pacemaker {
    timing: Timing,
    /// Views from a proposal to its commit, and the slack.
    depth: u64,
    quorum: usize,
    honest_witness: usize,
    view: View,
    committed: View,
    deadline: Option<Time>,
    /// By peer: its highest time-out and the QC that came with it.
    time_outs: Vec<Option<(TimeOut, Qc)>>,
    election: Election,
    /// By leader: how many of its views in a row were given up.
    failures: Vec<u32>,
}

/// By how much the wait for a leader that failed is shorter.
const SHORTENED: u32 = 5;
/// Each so many failures in a row it gets the full wait.
const SECOND_CHANCE: u32 = 64;

impl Pacemaker {
    /// A pacemaker before its first view.
    #[must_use]
    pub fn new(committee: &Committee, election: Election, timing: Timing, depth: u64) -> Self {
        Self {
            election,
            failures: vec![0; committee.size()],
            timing,
            depth: depth + 4 * committee.faults().min(4) as u64,
            quorum: committee.quorum(),
            honest_witness: committee.honest_witness(),
            view: View(0),
            committed: View(0),
            deadline: None,
            time_outs: vec![None; committee.size()],
        }
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

    /// Enters the view behind a certificate of `certified`, if that is a step forward.
    pub fn certified(&mut self, now: Time, certified: View) -> bool {
        if certified < self.view {
            return false;
        }
        self.view = certified.next();
        if self.deadline.is_some() {
            self.arm(now);
        }
        true
    }

    /// Notes that a block of `view` was committed. Back-off is measured from here.
    pub fn committed(&mut self, view: View) {
        self.committed = self.committed.max(view);
    }

    /// Starts the timer if there is work and it is not running; stops it if there is none.
    pub fn set_busy(&mut self, now: Time, busy: bool) {
        match (busy, self.deadline) {
            (true, None) => self.arm(now),
            (false, Some(_)) => self.deadline = None,
            _ => {}
        }
    }

    /// Starts the current view's timer anew.
    pub fn arm(&mut self, now: Time) {
        let mut wait = self.timing.wait(self.view, self.committed, self.depth);
        if self.suspects(self.view) || self.suspects(self.view.next()) {
            wait /= SHORTENED;
        }
        self.deadline = Some(now.after(wait));
    }

    /// Notes that the block of `view` was certified: its leader did its part.
    pub fn praise(&mut self, view: View) {
        let leader = self.leader(view);
        if let Some(failures) = self.failures.get_mut(leader.index()) {
            *failures = 0;
        }
    }

    /// Notes that `view` was given up. If its proposal had come (this replica `voted` for it), the
    /// one to blame is the next leader, who was to collect the votes.
    pub fn blame(&mut self, view: View, voted: bool) {
        let leader = self.leader(if voted { view.next() } else { view });
        if let Some(failures) = self.failures.get_mut(leader.index()) {
            *failures = failures.saturating_add(1);
        }
    }

    /// Whether the leader of `view` is not worth the full wait.
    fn suspects(&self, view: View) -> bool {
        let failed = self.failures.iter().filter(|failures| **failures > 0).count();
        let failures = self.failures.get(self.leader(view).index()).copied().unwrap_or(0);
        failed < self.honest_witness && !failures.is_multiple_of(SECOND_CHANCE)
    }

    fn leader(&self, view: View) -> ReplicaId {
        self.election.without_history(view, self.failures.len())
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
        if let Some(tc) = self.certificate(view) {
            return Consequence::Certificate(tc);
        }
        self.join(own).map_or(Consequence::None, Consequence::Join)
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

    fn certificate(&self, view: View) -> Option<Tc> {
        let of_view = || self.time_outs.iter().flatten().filter(|(held, _)| held.view == view);
        if of_view().count() < self.quorum {
            return None;
        }
        let high_qc = of_view().map(|(_, qc)| qc).max_by_key(|qc| qc.view())?.clone();
        let time_outs: Vec<TimeOut> = of_view().map(|(held, _)| *held).collect();
        Some(Tc::of_time_outs(view, &time_outs, high_qc))
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
