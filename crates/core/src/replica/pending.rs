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
    /// a later format than the first, only the client's signature counts against the peer.
    pub(super) fn is_forged_by_its_relay(&self, frame: &Claim<SharedFrame>) -> bool {
        let is_unsigned = self.left.first() != Some(&true);
        is_unsigned || !frame.unverified().is_unverified_under(Rules::FIRST)
    }

    pub(super) fn settle<T>(&mut self, claim: Claim<T>) -> Option<Verified<T>> {
        let count = claim.checks().len().min(self.left.len());
        let (own, later) = self.left.split_at(count);
        self.left = later;
        claim.settle(own)
    }
}
