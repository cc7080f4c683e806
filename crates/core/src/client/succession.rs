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

use bytes::Bytes;

use crate::base::crypto::{Claim, Scheme, Verified};
use crate::base::membership::Committee;
use crate::base::types::{Digest, Epoch};
use crate::base::wire::{Decode as _, DecodeError};
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
    /// It is not what a handover looks like.
    #[error("how epoch {epoch} ended cannot be read: {reason}")]
    Unreadable {
        /// The epoch that the client has come to.
        epoch: Epoch,
        /// The defect.
        reason: DecodeError,
    },
    /// A signature under it does not hold.
    #[error("a signature under the end of epoch {0} does not hold")]
    Signature(Epoch),
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

/// A [`Succession`] of whatever protocol, for encoded handovers.
pub trait Follower: Send + Sync {
    /// The committee of the epoch that the client has come to.
    fn committee(&self) -> &Committee;

    /// Comes to the next epoch by this end of the one that the client has come to. Signatures are
    /// [checked by their keys](Committee::by_key): `scheme` need know no member. Returns whether it
    /// did; the end of an earlier epoch is passed over.
    ///
    /// # Errors
    /// [`NotFollowed`]; the client is where it was.
    fn follow(&mut self, handover: Bytes, scheme: &dyn Scheme) -> Result<bool, NotFollowed>;
}

impl<V: Verifier> Follower for Succession<V> {
    fn committee(&self) -> &Committee {
        self.verifier.committee()
    }

    fn follow(&mut self, handover: Bytes, scheme: &dyn Scheme) -> Result<bool, NotFollowed> {
        let committee = self.verifier.committee().clone();
        let epoch = committee.epoch();
        let handover = Handover::from_bytes(handover)
            .map_err(|reason| NotFollowed::Unreadable { epoch, reason })?;
        if handover.ended() < epoch && handover.next.chain() == committee.chain() {
            return Ok(false);
        }
        let claim = self.claim(handover)?;
        let checks = claim.checks().iter().cloned().map(|check| committee.by_key(check));
        let verdicts = scheme.verify(&checks.collect::<Vec<_>>());
        let verified = claim.settle(&verdicts).ok_or(NotFollowed::Signature(epoch))?;
        Succession::follow(self, &verified);
        Ok(true)
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
