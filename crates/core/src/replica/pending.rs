//! What waits for the verdicts on its signatures.

use super::snapshot::Offer;
use super::turns::Class;
use crate::base::crypto::{Check, Claim, Verified};
use crate::base::membership::Rules;
use crate::base::types::ReplicaId;
use crate::ledger::frame::SharedFrame;
use crate::protocols::protocol::{BlockOf, SharedHandover, Types};

/// A fetched block with its frames, resting on its justify.
pub(super) type ClaimedBlock<T> = (Claim<BlockOf<T>>, Vec<SharedFrame>);

/// A thing that waits.
#[derive(Debug)]
pub(super) enum Pending<T: Types> {
    /// The protocol's own batch.
    Protocol { ask: u64, checks: Vec<Check> },
    /// A message of the protocol with the bodies that came with it.
    Message { from: ReplicaId, claim: Claim<T::Message>, frames: Vec<Claim<SharedFrame>> },
    /// Frames another replica sent. It passes on what it verified; what it was asked for may be of
    /// a block, whose voters alone have verified it.
    Frames { relayed_by: Option<ReplicaId>, frames: Vec<Claim<SharedFrame>> },
    /// Blocks that were fetched.
    Chain { from: ReplicaId, blocks: Vec<ClaimedBlock<T>> },
    /// A snapshot that is offered.
    Offer { from: ReplicaId, offer: Box<Offer<T>>, checks: Vec<Check> },
    /// The end of an epoch that was not seen here.
    Handover { from: ReplicaId, handover: SharedHandover<T>, checks: Vec<Check> },
    /// An answer to a replica that lost its data.
    Testimony { from: ReplicaId, testimony: Box<T::Testimony>, checks: Vec<Check> },
}

impl<T: Types> Pending<T> {
    /// How soon it is verified.
    pub(super) fn class(&self) -> Class {
        match self {
            Self::Protocol { .. } | Self::Message { .. } | Self::Testimony { .. } => {
                Class::Protocol
            }
            Self::Frames { .. }
            | Self::Chain { .. }
            | Self::Offer { .. }
            | Self::Handover { .. } => Class::Other,
        }
    }

    /// The checks it waits for, in the order in which `resume` hands out the verdicts.
    pub(super) fn checks(&self) -> impl Iterator<Item = &Check> {
        let (own, message, frames, blocks): (&[Check], _, &[_], &[ClaimedBlock<T>]) = match self {
            Self::Protocol { checks, .. }
            | Self::Offer { checks, .. }
            | Self::Handover { checks, .. }
            | Self::Testimony { checks, .. } => (checks, None, &[], &[]),
            Self::Message { claim, frames, .. } => (&[], Some(claim), frames, &[]),
            Self::Frames { frames, .. } => (&[], None, frames, &[]),
            Self::Chain { blocks, .. } => (&[], None, &[], blocks),
        };
        own.iter()
            .chain(message.into_iter().flat_map(Claim::checks))
            .chain(frames.iter().flat_map(Claim::checks))
            .chain(blocks.iter().flat_map(|(claim, _)| claim.checks()))
    }
}

/// Verdicts that are still to be handed out, beside the checks they are on.
pub(super) struct Verdicts<'a> {
    pub(super) left: &'a [bool],
}

impl Verdicts<'_> {
    /// Whether the peer that relayed the next frame is to blame if it does not hold. It verified
    /// what its epoch's rules know of it, and this replica verifies all that its program knows: of
    /// a later format than the first, only the client's signature counts against the peer. But
    /// members with a threshold key have all verified steps of key generations from their first
    /// epoch on (`verifies_steps`).
    pub(super) fn is_forged_by_its_relay(
        &self,
        frame: &Claim<SharedFrame>,
        verifies_steps: bool,
    ) -> bool {
        let (is_unsigned, frame) = (self.left.first() != Some(&true), frame.unverified());
        let is_step = || frame.is_step(Rules::EVERY_FORMAT);
        is_unsigned || !frame.is_unverified_under(Rules::FIRST) || verifies_steps && is_step()
    }

    pub(super) fn settle<T>(&mut self, claim: Claim<T>) -> Option<Verified<T>> {
        let count = claim.checks().len().min(self.left.len());
        let (own, later) = self.left.split_at(count);
        self.left = later;
        claim.settle(own)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::base::crypto::{PublicKey, Signature};
    use crate::base::types::{Digest, Sequence, SessionId};
    use crate::ledger::frame::Frame;

    /// All members that have a threshold key verified the proofs of a step before they passed it
    /// on. Elsewhere it is a command like any other, and its client's signature is all that counts.
    #[test]
    fn a_relay_is_to_blame_for_steps_whose_proofs_do_not_hold_where_all_verify_them() {
        let claim = |command: &[u8]| {
            let (key, session, first) = (PublicKey([1; 32]), SessionId(1), Sequence(1));
            let sign = |_: &_| Signature::NONE;
            let frame = Frame::build(key, session, first, [command], &Digest::default(), sign);
            Claim::new(Arc::new(frame.expect("a frame")), Vec::new())
        };
        let (step, plain) = (claim(b"quorate generation 1"), claim(b"plain"));
        let (signed, unsigned) = (Verdicts { left: &[true, false] }, Verdicts { left: &[false] });
        assert!(signed.is_forged_by_its_relay(&step, true));
        assert!(!signed.is_forged_by_its_relay(&step, false));
        assert!(signed.is_forged_by_its_relay(&plain, false));
        assert!(unsigned.is_forged_by_its_relay(&step, false));
    }
}
