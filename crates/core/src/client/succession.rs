//! Following the committees of a chain, from one that the client knows.
//!
//! # What is believed
//! A committee is believed because a quorum of the one before it signed the root of a state that
//! names it ([`Handover`]). So a client that knows genesis comes to the current committee, however
//! often the members changed, and trusts nobody but the quorums between.
//!
//! # What stolen keys can do
//! f stolen keys of each epoch forge nothing: a handover needs a quorum. But **q keys of one past
//! epoch forge all that follows it**, for a client that knows no later epoch. That is why a member
//! should erase the key of an epoch once the next one runs, and why a client should *pin* a
//! committee that it has seen ([`Succession::pin`]): it then refuses every other history of that
//! epoch. (*Long-range attacks* in the literature on proof of stake.)

use std::collections::BTreeMap;

use crate::base::crypto::{Claim, Verified};
use crate::base::membership::Committee;
use crate::base::types::{Digest, Epoch};
use crate::protocols::protocol::{Handover, Malformed, Verifier};

/// Why a handover is not followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotFollowed {
    /// It is not the end of the epoch that the client has come to, or proves nothing.
    #[error("it does not prove how epoch {epoch} ended: {reason}")]
    Malformed {
        /// The epoch that the client has come to.
        epoch: Epoch,
        /// The defect.
        reason: Malformed,
    },
    /// The client knows another committee of that epoch.
    #[error(
        "it leads to another committee of epoch {0} than the one that is pinned: keys of an earlier \
         epoch were stolen"
    )]
    Pinned(Epoch),
}

/// What makes the verifier of an epoch from its committee.
type Make<V> = Box<dyn Fn(&Committee) -> V + Send + Sync>;

/// The committees of a chain, up to the last one that the client has come to.
pub struct Succession<V> {
    verifier: V,
    make: Make<V>,
    pinned: BTreeMap<Epoch, Digest>,
}

impl<V: Verifier> Succession<V> {
    /// Begins with a committee that the client knows. `make` makes the verifier of an epoch.
    #[must_use]
    pub fn new(known: &Committee, make: Make<V>) -> Self {
        Self { verifier: make(known), make, pinned: BTreeMap::new() }
    }

    /// Whatever else is proved, this is the digest of the committee of `epoch`.
    #[must_use]
    pub fn pin(mut self, epoch: Epoch, committee: Digest) -> Self {
        self.pinned.insert(epoch, committee);
        self
    }

    /// What the evidence of the epoch that the client has come to is checked by.
    #[must_use]
    pub fn verifier(&self) -> &V {
        &self.verifier
    }

    /// The committee of that epoch.
    #[must_use]
    pub fn committee(&self) -> &Committee {
        self.verifier.committee()
    }

    /// The end of that epoch, resting on signatures of its committee.
    ///
    /// # Errors
    /// [`NotFollowed`].
    pub fn claim(
        &self,
        handover: Handover<V::Types>,
    ) -> Result<Claim<Handover<V::Types>>, NotFollowed> {
        let epoch = self.committee().epoch();
        let checks = handover.claim(&self.verifier);
        let checks = checks.map_err(|reason| NotFollowed::Malformed { epoch, reason })?;
        let next = &handover.next;
        if self.pinned.get(&next.epoch()).is_some_and(|pinned| *pinned != next.digest()) {
            return Err(NotFollowed::Pinned(next.epoch()));
        }
        Ok(Claim::new(handover, checks))
    }

    /// Comes to the next epoch. Nothing happens if this is not the end of the one before it.
    pub fn follow(&mut self, handover: &Verified<Handover<V::Types>>) {
        if handover.ended() == self.committee().epoch() {
            self.verifier = (self.make)(&handover.next);
        }
    }
}

impl<V: std::fmt::Debug> std::fmt::Debug for Succession<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Succession")
            .field("verifier", &self.verifier)
            .field("pinned", &self.pinned)
            .finish_non_exhaustive()
    }
}
