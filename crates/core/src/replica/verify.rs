//! What waits for the verdicts on its signatures.

use super::snapshot::Offer;
use super::turns::{Class, Cost, Piece};
use super::{Action, Fx, Refused, Replica};
use crate::base::crypto::{Check, Claim, Verified};
use crate::base::types::{ReplicaId, Time};
use crate::ledger::execution::Restoring;
use crate::ledger::frame::SharedFrame;
use crate::ledger::mempool::Origin;
use crate::ledger::state_machine::StateMachine;
use crate::protocols::protocol::{
    self, BlockOf, FullBlockOf, Malformed, MessageOf, Protocol, Types,
};

/// A fetched block with its frames, resting on its justify.
type ClaimedBlock<T> = (Claim<BlockOf<T>>, Vec<SharedFrame>);

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
    /// An answer to a replica that lost its data.
    Testimony { from: ReplicaId, testimony: Box<T::Testimony>, checks: Vec<Check> },
}

impl<T: Types> Pending<T> {
    /// How soon it is verified.
    fn class(&self) -> Class {
        match self {
            Self::Protocol { .. } | Self::Message { .. } | Self::Testimony { .. } => {
                Class::Protocol
            }
            Self::Frames { .. } | Self::Chain { .. } | Self::Offer { .. } => Class::Other,
        }
    }

    /// The checks it waits for, in the order in which [`resume`](Replica::resume) hands out the verdicts.
    fn checks(&self) -> impl Iterator<Item = &Check> {
        let (own, message, frames, blocks): (&[Check], _, &[_], &[ClaimedBlock<T>]) = match self {
            Self::Protocol { checks, .. }
            | Self::Offer { checks, .. }
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
pub(super) struct Asked<T: Types> {
    ask: u64,
    pending: Pending<T>,
    known: Vec<bool>,
    /// On the checks that were not known, as far as they came.
    verdicts: Vec<bool>,
    /// How many are still to come.
    left: usize,
    cost: Option<Cost>,
}

/// A piece of an ask that the verifier has.
#[derive(Debug)]
pub(super) struct Given {
    /// Its own number.
    ask: u64,
    /// The ask it is of.
    of: u64,
    start: usize,
    checks: usize,
    /// Whether it took somebody's turn.
    counts: bool,
}

impl<P: Protocol, S: StateMachine> Replica<P, S> {
    /// Has the checks of `pending` verified that are not known to hold; then it goes on. `from` is the
    /// peer to whose account it goes, with the bytes of its message.
    pub(super) fn verify(
        &mut self,
        now: Time,
        pending: Pending<P::Types>,
        from: Option<(ReplicaId, usize)>,
        fx: &mut Fx<P::Types>,
    ) {
        let mut unknown = Vec::new();
        let judge = |check: &Check| {
            let known = self.known.contains(check);
            if !known {
                unknown.push(check.clone());
            }
            known
        };
        let known = pending.checks().map(judge).collect();
        let cost = from.map(|(peer, bytes)| Cost { peer, checks: unknown.len(), bytes });
        if let Some(cost) = cost
            && !self.turns.admit(now, cost)
        {
            fx.output(Action::Refused { from: cost.peer, reason: Refused::Flood });
            return;
        }
        let ask = self.next_number();
        let (class, left) = (pending.class(), unknown.len());
        let verdicts = vec![false; left];
        self.pending.push_back(Asked { ask, pending, known, verdicts, left, cost });
        match cost {
            _ if unknown.is_empty() => self.ready.push_back(ask),
            Some(cost) => self.turns.wait(cost.peer, class, ask, unknown),
            None => self.give(Piece { ask, start: 0, checks: unknown }, false, fx),
        }
        self.give_more(now, fx);
    }

    fn next_number(&mut self) -> u64 {
        self.next_ask += 1;
        self.next_ask - 1
    }

    /// Gives the verifier what is next, as far as it has little to do.
    fn give_more(&mut self, now: Time, fx: &mut Fx<P::Types>) {
        while let Some(piece) = self.turns.next(now) {
            self.give(piece, true, fx);
        }
    }

    fn give(&mut self, piece: Piece, counts: bool, fx: &mut Fx<P::Types>) {
        let Piece { ask: of, start, checks } = piece;
        let ask = self.next_number();
        self.given.push_back(Given { ask, of, start, checks: checks.len(), counts });
        fx.output(Action::Verify { ask, checks });
    }

    /// The verdicts on checks that were given to the verifier.
    pub(super) fn on_checked(
        &mut self,
        now: Time,
        ask: u64,
        verdicts: &[bool],
        fx: &mut Fx<P::Types>,
    ) {
        let Ok(place) = self.given.binary_search_by_key(&ask, |given| given.ask) else { return };
        let Some(given) = self.given.remove(place) else { return };
        if given.counts {
            self.turns.came_back(given.checks);
        }
        let asked = self.pending.binary_search_by_key(&given.of, |asked| asked.ask).ok();
        if let Some(asked) = asked.and_then(|place| self.pending.get_mut(place)) {
            let own = asked.verdicts.iter_mut().skip(given.start).take(given.checks);
            own.zip(verdicts).for_each(|(own, verdict)| *own = *verdict);
            asked.left = asked.left.saturating_sub(given.checks);
            if asked.left == 0 {
                self.settle(now, given.of, fx);
            }
        }
        self.give_more(now, fx);
    }

    /// All verdicts of an ask are there.
    pub(super) fn settle(&mut self, now: Time, ask: u64, fx: &mut Fx<P::Types>) {
        let Ok(place) = self.pending.binary_search_by_key(&ask, |asked| asked.ask) else { return };
        let Some(asked) = self.pending.remove(place) else { return };
        let Asked { pending, known: mut all, verdicts, cost, .. } = asked;
        if let Some(cost) = cost {
            self.turns.settle(cost);
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

    /// A signature that a peer sent does not hold.
    fn bad_signature(&mut self, now: Time, from: ReplicaId, fx: &mut Fx<P::Types>) {
        self.turns.distrust(now, from);
        fx.output(Action::Refused { from, reason: Refused::BadSignature });
    }

    fn resume(
        &mut self,
        now: Time,
        pending: Pending<P::Types>,
        verdicts: &[bool],
        fx: &mut Fx<P::Types>,
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
                    _ => self.bad_signature(now, from, fx),
                }
            }
            Pending::Frames { relayed_by, frames } => {
                let mut is_bad = false;
                for frame in frames {
                    match verdicts.settle(frame) {
                        Some(frame) => drop(self.admit(now, &frame.into_inner(), Origin::Relayed)),
                        None => is_bad = true,
                    }
                }
                if let Some(from) = relayed_by.filter(|_| is_bad) {
                    self.bad_signature(now, from, fx);
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
                    self.bad_signature(now, from, fx);
                }
                self.on_chain_verified(now, from, good, fx);
            }
            Pending::Offer { from, offer, .. } => {
                if !self.catch_up.takes_offers(from) {
                    // Another was taken up meanwhile.
                } else if verdicts.left.iter().all(|verdict| *verdict) {
                    let limits = *self.execution.sessions().limits();
                    let expected = P::attested_root(&offer.shown);
                    let block = (offer.block.height(), offer.block.id());
                    let restoring = Restoring::new((self.fresh)(), limits, expected).behind(block);
                    let message = self.catch_up.accept(now, from, offer, restoring);
                    fx.output(Action::Send { to: from, message });
                } else {
                    self.catch_up.answered(from, None);
                    self.bad_signature(now, from, fx);
                }
            }
            Pending::Testimony { from, testimony, .. } => {
                if verdicts.left.iter().all(|verdict| *verdict) {
                    self.on_testimony(now, from, *testimony, fx);
                } else {
                    self.bad_signature(now, from, fx);
                }
            }
        }
    }

    /// The frames among `frames` that are not here, as claims; those that are need no check.
    pub(super) fn unknown_frames(&self, frames: Vec<SharedFrame>) -> Vec<Claim<SharedFrame>> {
        let chain = self.membership.latest().chain();
        frames
            .into_iter()
            .filter(|frame| !self.mempool.contains(&frame.id()))
            .map(|frame| frame.claim(&chain))
            .collect()
    }

    /// What the signatures of fetched blocks rest on.
    pub(super) fn chain_claims(
        &self,
        blocks: Vec<FullBlockOf<P::Types>>,
    ) -> Result<Vec<ClaimedBlock<P::Types>>, Malformed> {
        blocks
            .into_iter()
            .map(|full| Ok((self.protocol.claim_block(full.block)?, full.frames)))
            .collect()
    }

    /// Sends a peer's message on to where it belongs, or refuses it.
    pub(super) fn claim_message(
        &mut self,
        now: Time,
        from: ReplicaId,
        message: MessageOf<P>,
        frames: Vec<SharedFrame>,
        fx: &mut Fx<P::Types>,
    ) {
        match self.protocol.claim(from, message) {
            Err(reason) => {
                fx.output(Action::Refused { from, reason: Refused::Malformed(reason) });
            }
            Ok(claim) => {
                let bytes = bytes_of(&frames);
                if bytes > self.settings.inline_bytes {
                    fx.output(Action::Refused { from, reason: Refused::Unfit });
                    return;
                }
                let frames = self.unknown_frames(frames);
                let pending = Pending::Message { from, claim, frames };
                self.verify(now, pending, Some((from, bytes)), fx);
            }
        }
    }
}

/// Bytes of frames.
pub(super) fn bytes_of(frames: &[SharedFrame]) -> usize {
    frames.iter().map(|frame| frame.encoded_bytes().len()).sum()
}
