//! What others said when they entered a view without a certificate, and what is to be said.

use crate::base::per_peer::PerPeer;
use crate::base::types::{ReplicaId, Time, View};

/// NEW-VIEWs: those at hand, one place a peer; how long they are waited for; and the time-out
/// certificate that others are still to be told of.
#[derive(Clone, Debug)]
pub struct NewViews {
    highest: PerPeer<View>,
    /// Until when the leader of a view waits for locks. Every replica waits: with leaders by
    /// history, a certificate that it learns in the view may make it the leader.
    patience: Option<(View, Time)>,
    untold: Option<Untold>,
}

/// A time-out certificate that was taken in, before others are told of it.
#[derive(Clone, Copy, Debug)]
pub struct Untold {
    /// The view that it ends.
    pub ended: View,
    /// Who sent it; `None`: it was made here.
    pub tc_from: Option<ReplicaId>,
}

impl NewViews {
    pub fn new(replicas: usize) -> Self {
        Self { highest: PerPeer::new(replicas), patience: None, untold: None }
    }

    /// `replica` has entered `view`.
    pub fn heard(&mut self, replica: ReplicaId, view: View) {
        if let Some(place) = self.highest.get_mut(replica) {
            *place = view.max(*place);
        }
    }

    /// The replicas that have entered `view` last.
    pub fn in_view(&self, view: View) -> impl Iterator<Item = ReplicaId> {
        let heard = self.highest.of_each().filter(move |(_, heard)| **heard == view);
        heard.map(|(replica, _)| replica)
    }

    /// Waits for locks in a view until an instant, or (`None`) for none.
    pub fn wait(&mut self, patience: Option<(View, Time)>) {
        self.patience = patience;
    }

    /// Whether locks are waited for in `view`.
    pub fn waits_in(&self, view: View) -> bool {
        self.patience.is_some_and(|(waits, _)| waits == view)
    }

    /// When the wait for locks ends.
    pub fn deadline(&self) -> Option<Time> {
        self.patience.map(|(_, until)| until)
    }

    /// The wait for locks has ended, if it has.
    pub fn on_time(&mut self, now: Time) {
        self.patience.take_if(|(_, until)| *until <= now);
    }

    /// Others are to be told of a time-out certificate.
    pub fn tell_later(&mut self, untold: Untold) {
        self.untold = Some(untold);
    }

    /// The time-out certificate that others are to be told of now.
    pub fn take_untold(&mut self) -> Option<Untold> {
        self.untold.take()
    }
}
