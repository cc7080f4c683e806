//! What waits for the verdicts on its signatures.

use super::{Action, Fx, Refused, Replica};
use crate::block::SharedBlock;
use crate::certificate::{Malformed, Qc};
use crate::crypto::{Check, Claim, Verified};
use crate::frame::SharedFrame;
use crate::mempool::Origin;
use crate::protocol::{self, Protocol};
use crate::replica::message::{FullBlock, Offer};
use crate::state_machine::StateMachine;
use crate::types::{ReplicaId, Time, View};

/// Most verifications of one peer's messages under way.
const MAX_PENDING: usize = 64;

/// A fetched block with its frames, resting on its justify.
type ClaimedBlock = (Claim<SharedBlock>, Vec<SharedFrame>);

/// A thing that waits.
#[derive(Debug)]
pub(super) enum Pending<M> {
    /// The protocol's own batch.
    Protocol { ask: u64 },
    /// A message of the protocol with the bodies that came with it.
    Message { from: ReplicaId, claim: Claim<M>, frames: Vec<Claim<SharedFrame>> },
    /// Frames another replica sent.
    Frames { frames: Vec<Claim<SharedFrame>> },
    /// Blocks that were fetched.
    Chain { from: ReplicaId, blocks: Vec<ClaimedBlock> },
    /// A snapshot that is offered.
    Offer { from: ReplicaId, offer: Box<Offer> },
    /// An answer to a replica that lost its data.
    Testimony { from: ReplicaId, view: View, high_qc: Qc },
}

/// Verdicts that are still to be handed out, beside the checks they are on.
pub(super) struct Verdicts<'a> {
    left: std::slice::Iter<'a, bool>,
}

impl Verdicts<'_> {
    fn take(&mut self, count: usize) -> Vec<bool> {
        self.left.by_ref().take(count).copied().collect()
    }

    fn settle<T>(&mut self, claim: Claim<T>) -> Option<Verified<T>> {
        let verdicts = self.take(claim.checks().len());
        claim.settle(&verdicts)
    }
}

/// An ask: what waits for it, and its checks, each with whether it was known to hold already.
#[derive(Debug)]
pub(super) struct Asked<M> {
    pending: Pending<M>,
    checks: Vec<(bool, Check)>,
    from: Option<ReplicaId>,
}

impl<P: Protocol, S: StateMachine> Replica<P, S> {
    /// Has the checks verified that are not known to hold; then `pending` goes on. `from` is the
    /// peer to whose account it goes.
    pub(super) fn verify(
        &mut self,
        pending: Pending<P::Message>,
        checks: Vec<Check>,
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
        let checks: Vec<(bool, Check)> =
            checks.into_iter().map(|check| (self.known.contains(&check), check)).collect();
        let unknown: Vec<Check> =
            checks.iter().filter(|(known, _)| !known).map(|(_, check)| check.clone()).collect();
        self.pending.insert(ask, Asked { pending, checks, from });
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
        let Some(Asked { pending, checks, from }) = self.pending.remove(&ask) else { return };
        if let Some(count) = from.and_then(|peer| self.pending_of.get_mut(peer.index())) {
            *count = count.saturating_sub(1);
        }
        let mut fresh = verdicts.iter();
        let all: Vec<bool> = checks
            .into_iter()
            .map(|(known, check)| {
                let holds = known || fresh.next() == Some(&true);
                if holds && !known {
                    self.known.insert(check);
                }
                holds
            })
            .collect();
        self.resume(now, pending, &all, fx);
    }

    fn resume(
        &mut self,
        now: Time,
        pending: Pending<P::Message>,
        verdicts: &[bool],
        fx: &mut Fx<P::Message>,
    ) {
        let mut verdicts = Verdicts { left: verdicts.iter() };
        match pending {
            Pending::Protocol { ask } => {
                let verdicts = verdicts.left.copied().collect();
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
            Pending::Offer { from, offer } => {
                if verdicts.left.all(|verdict| *verdict) {
                    let message = self.catch_up.accept(now, from, offer);
                    fx.output(Action::Send { to: from, message });
                } else {
                    self.catch_up.answered(from, None);
                    fx.output(Action::Refused { from, reason: Refused::BadSignature });
                }
            }
            Pending::Testimony { from, view, high_qc } => {
                if verdicts.left.all(|verdict| *verdict) {
                    self.on_testimony(now, from, view, high_qc, fx);
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
                let mut checks = claim.checks().to_vec();
                checks.extend(frames.iter().flat_map(|frame| frame.checks().iter().cloned()));
                self.verify(Pending::Message { from, claim, frames }, checks, Some(from), fx);
            }
        }
    }
}
