//! What waits for the verdicts on its signatures.

use super::{Action, Fx, Refused, Replica};
use crate::block::SharedBlock;
use crate::certificate::Malformed;
use crate::crypto::{Check, Claim, Verified};
use crate::execution::Restoring;
use crate::frame::SharedFrame;
use crate::mempool::Origin;
use crate::protocol::{self, Protocol};
use crate::replica::message::{FullBlock, Offer};
use crate::replica::rejoin::Testimony;
use crate::state_machine::StateMachine;
use crate::types::{ReplicaId, Time};

/// Most verifications of one peer's messages under way.
const MAX_PENDING: usize = 64;

/// A fetched block with its frames, resting on its justify.
type ClaimedBlock = (Claim<SharedBlock>, Vec<SharedFrame>);

/// A thing that waits.
#[derive(Debug)]
pub(super) enum Pending<M> {
    /// The protocol's own batch.
    Protocol { ask: u64, checks: Vec<Check> },
    /// A message of the protocol with the bodies that came with it.
    Message { from: ReplicaId, claim: Claim<M>, frames: Vec<Claim<SharedFrame>> },
    /// Frames another replica sent.
    Frames { frames: Vec<Claim<SharedFrame>> },
    /// Blocks that were fetched.
    Chain { from: ReplicaId, blocks: Vec<ClaimedBlock> },
    /// A snapshot that is offered.
    Offer { from: ReplicaId, offer: Box<Offer>, checks: Vec<Check> },
    /// An answer to a replica that lost its data.
    Testimony { from: ReplicaId, testimony: Box<Testimony>, checks: Vec<Check> },
}

impl<M> Pending<M> {
    /// The checks it waits for, in the order in which [`resume`](Replica::resume) hands out the verdicts.
    fn checks(&self) -> impl Iterator<Item = &Check> {
        let (own, message, frames, blocks): (&[Check], _, &[_], &[ClaimedBlock]) = match self {
            Self::Protocol { checks, .. }
            | Self::Offer { checks, .. }
            | Self::Testimony { checks, .. } => (checks, None, &[], &[]),
            Self::Message { claim, frames, .. } => (&[], Some(claim), frames, &[]),
            Self::Frames { frames } => (&[], None, frames, &[]),
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
    left: &'a [bool],
}

impl Verdicts<'_> {
    fn settle<T>(&mut self, claim: Claim<T>) -> Option<Verified<T>> {
        let count = claim.checks().len().min(self.left.len());
        let (own, later) = self.left.split_at(count);
        self.left = later;
        claim.settle(own)
    }
}

/// An ask: what waits for it, and which of its checks were known to hold already.
#[derive(Debug)]
pub(super) struct Asked<M> {
    ask: u64,
    pending: Pending<M>,
    known: Vec<bool>,
    from: Option<ReplicaId>,
}

impl<P: Protocol, S: StateMachine> Replica<P, S> {
    /// Has the checks of `pending` verified that are not known to hold; then it goes on. `from` is the
    /// peer to whose account it goes.
    pub(super) fn verify(
        &mut self,
        pending: Pending<P::Message>,
        from: Option<ReplicaId>,
        fx: &mut Fx<P::Message>,
    ) {
        if let Some(peer) = from
            && let Some(count) = self.pending_of.get_mut(peer.index())
        {
            if mutant!("verifications-unbounded", false, *count >= MAX_PENDING) {
                fx.output(Action::Refused { from: peer, reason: Refused::Flood });
                return;
            }
            *count += 1;
        }
        let ask = self.next_ask;
        self.next_ask += 1;
        let mut unknown = Vec::new();
        let judge = |check: &Check| {
            let known = self.known.contains(check);
            if !known {
                unknown.push(check.clone());
            }
            known
        };
        let known = pending.checks().map(judge).collect();
        self.pending.push_back(Asked { ask, pending, known, from });
        if unknown.is_empty() {
            self.ready.push_back(ask);
        } else {
            fx.output(Action::Verify { ask, checks: unknown });
        }
    }

    /// The verdicts on the checks that were not known.
    pub(super) fn on_checked(
        &mut self,
        now: Time,
        ask: u64,
        verdicts: &[bool],
        fx: &mut Fx<P::Message>,
    ) {
        let Ok(place) = self.pending.binary_search_by_key(&ask, |asked| asked.ask) else { return };
        let Some(asked) = self.pending.remove(place) else { return };
        let Asked { pending, known: mut all, from, .. } = asked;
        if let Some(count) = from.and_then(|peer| self.pending_of.get_mut(peer.index())) {
            *count = count.saturating_sub(1);
        }
        let mut fresh = verdicts.iter();
        for (holds, check) in all.iter_mut().zip(pending.checks()) {
            if !*holds && fresh.next() == Some(&true) {
                *holds = true;
                self.known.insert(check.clone());
            }
        }
        self.resume(now, pending, &all, fx);
    }

    fn resume(
        &mut self,
        now: Time,
        pending: Pending<P::Message>,
        verdicts: &[bool],
        fx: &mut Fx<P::Message>,
    ) {
        let mut verdicts = Verdicts { left: verdicts };
        match pending {
            Pending::Protocol { ask, .. } => {
                let verdicts = verdicts.left.to_vec();
                self.consult(now, protocol::Input::Checked { ask, verdicts }, fx);
            }
            Pending::Message { from, claim, frames } => {
                let message = verdicts.settle(claim);
                let count = frames.len();
                let frames: Vec<_> =
                    frames.into_iter().filter_map(|frame| verdicts.settle(frame)).collect();
                match message {
                    Some(message) if frames.len() == count => {
                        self.on_verified(now, from, message, &frames, fx);
                    }
                    _ => fx.output(Action::Refused { from, reason: Refused::BadSignature }),
                }
            }
            Pending::Frames { frames } => {
                for frame in frames {
                    if let Some(frame) = verdicts.settle(frame) {
                        self.admit(now, &frame.into_inner(), Origin::Relayed);
                    }
                }
                self.release_arrivals(now, fx);
                self.consult(now, protocol::Input::Wake, fx);
            }
            Pending::Chain { from, blocks } => {
                let count = blocks.len();
                let mut good: Vec<_> = blocks
                    .into_iter()
                    .map_while(|(claim, frames)| Some((verdicts.settle(claim)?, frames)))
                    .collect();
                if good.len() < count {
                    // The bad one was to certify its parent.
                    good.pop();
                    fx.output(Action::Refused { from, reason: Refused::BadSignature });
                }
                self.on_chain_verified(now, from, good, fx);
            }
            Pending::Offer { from, offer, .. } => {
                if !self.catch_up.takes_offers(from) {
                    // Another was taken up meanwhile.
                } else if verdicts.left.iter().all(|verdict| *verdict) {
                    let limits = *self.execution.sessions().limits();
                    let expected = offer.attesting.state_root;
                    let block = (offer.block.height, offer.block.id());
                    let restoring = Restoring::new((self.fresh)(), limits, expected).behind(block);
                    let message = self.catch_up.accept(now, from, offer, restoring);
                    fx.output(Action::Send { to: from, message });
                } else {
                    self.catch_up.answered(from, None);
                    fx.output(Action::Refused { from, reason: Refused::BadSignature });
                }
            }
            Pending::Testimony { from, testimony, .. } => {
                if verdicts.left.iter().all(|verdict| *verdict) {
                    self.on_testimony(now, from, *testimony, fx);
                } else {
                    fx.output(Action::Refused { from, reason: Refused::BadSignature });
                }
            }
        }
    }

    /// The frames among `frames` that are not here, as claims; those that are need no check.
    pub(super) fn unknown_frames(&self, frames: Vec<SharedFrame>) -> Vec<Claim<SharedFrame>> {
        let chain = self.domain.committee().chain();
        frames
            .into_iter()
            .filter(|frame| !self.mempool.contains(&frame.id()))
            .map(|frame| frame.claim(&chain))
            .collect()
    }

    /// What the signatures of fetched blocks rest on.
    pub(super) fn chain_claims(
        &self,
        blocks: Vec<FullBlock>,
    ) -> Result<Vec<ClaimedBlock>, Malformed> {
        blocks
            .into_iter()
            .map(|full| Ok((self.protocol.claim_block(full.block)?, full.frames)))
            .collect()
    }

    /// Sends a peer's message on to where it belongs, or refuses it.
    pub(super) fn claim_message(
        &mut self,
        from: ReplicaId,
        message: P::Message,
        frames: Vec<SharedFrame>,
        fx: &mut Fx<P::Message>,
    ) {
        match self.protocol.claim(from, message) {
            Err(reason) => {
                fx.output(Action::Refused { from, reason: Refused::Malformed(reason) });
            }
            Ok(claim) => {
                let frames = self.unknown_frames(frames);
                self.verify(Pending::Message { from, claim, frames }, Some(from), fx);
            }
        }
    }
}
