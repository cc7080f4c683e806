//! The view changes at hand.

use super::words::{NewView, SignedChange};
use crate::base::crypto::Signature;
use crate::base::membership::Committee;
use crate::base::per_peer::PerPeer;
use crate::base::types::{ReplicaId, View};

/// Of each replica the view change to the highest view, and what began the current view.
#[derive(Clone, Debug)]
pub(super) struct Changes {
    committee: Committee,
    latest: PerPeer<Option<SignedChange>>,
    /// What the current view began with, for those who missed it.
    began: Option<(NewView, Signature)>,
}

impl Changes {
    /// None.
    pub fn new(committee: Committee) -> Self {
        let latest = PerPeer::new(committee.size());
        Self { committee, latest, began: None }
    }

    /// Takes in a view change. The one to the highest view stays, of several the latest.
    pub fn add(&mut self, signed: SignedChange) {
        if let Some(place) = self.latest.get_mut(signed.from)
            && place.as_ref().is_none_or(|held| held.change.view <= signed.change.view)
        {
            *place = Some(signed);
        }
    }

    /// The view change of a replica.
    pub fn of(&self, replica: ReplicaId) -> Option<&SignedChange> {
        self.latest.get(replica)?.as_ref()
    }

    /// The view changes to exactly this view, ascending by their senders.
    pub fn to(&self, view: View) -> Vec<SignedChange> {
        let all = self.latest.iter().flatten();
        all.filter(|signed| signed.change.view == view).cloned().collect()
    }

    /// Whether q replicas have given up on all views below this one.
    pub fn has_quorum(&self, view: View) -> bool {
        let gave_up = self.latest.iter().flatten().filter(|signed| signed.change.view >= view);
        let weight: usize = gave_up.map(|signed| self.committee.weight(signed.from)).sum();
        weight >= self.committee.quorum()
    }

    /// The view to join, if f + 1 others want later views than this one: at least one of them is
    /// correct. The smallest of those views (section 4.5.2 of the paper).
    pub fn joined(&self, view: View, me: ReplicaId) -> Option<View> {
        let others = self.latest.iter().flatten();
        let later = others.filter(|signed| signed.change.view > view && signed.from != me);
        let weight: usize = later.clone().map(|signed| self.committee.weight(signed.from)).sum();
        let smallest = later.map(|signed| signed.change.view).min();
        smallest.filter(|_| weight >= self.committee.honest_witness())
    }

    /// A view begins.
    pub fn begin(&mut self, new_view: NewView, signature: Signature) {
        self.began = Some((new_view, signature));
    }

    /// What the view began with, if that is known.
    pub fn began(&self, view: View) -> Option<&(NewView, Signature)> {
        self.began.as_ref().filter(|(new_view, _)| new_view.view == view)
    }
}
