//! Changes of the members, and directives on clients, on their way in: what their signatures may
//! cost. What is said of changes here is said of directives, too; members give no word on those.
//!
//! A change may carry hundreds of signatures, and anybody may send one. So they are verified in an
//! order in which a stranger cannot have many of them verified:
//!
//! 1. whoever signed as an administrator must be one, by name, and of a change enough must have
//!    signed, which costs nothing to see;
//! 2. the client's signature and those of the administrators are verified one by one, up to the
//!    first that does not hold. That one is the client's own fault, as with any frame
//!    ([`standing`](super::standing));
//! 3. only then the members' words are verified: administrators stand for them.
//!
//! A stranger may send a change again that administrators did sign. So all signatures under changes
//! have an allowance together ([`CHANGE_SIGNATURES_A_SECOND`]); beyond it a client hears that the
//! replica is busy.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use quorate_core::base::crypto::Check;
use quorate_core::base::wire::Decode as _;
use quorate_core::client::message::Refusal;
use quorate_core::ledger::change::SignedChange;
use quorate_core::ledger::frame::SharedFrame;
use quorate_core::protocols::protocol::Types;

use quorate_transport::ConnectionId;

use super::inbox::FromClient;
use super::requests::{Claimed, Requests};

/// Signatures under changes that are verified a second: three of the largest changes, and a few
/// hundredths of a core.
pub(super) const CHANGE_SIGNATURES_A_SECOND: u32 = 1024;

/// Why a change is not looked at.
const STRANGER: &str = "it is not signed by administrators alone, each of them once";
const ANOTHER_EPOCH: &str = "it is a change of another epoch: make it anew";
const BUSY: &str = "it is busy with other changes; try again";
const FORGED: &str = "the signature of an administrator does not hold";
const UNREADABLE: &str = "the change cannot be read";

impl<T: Types> Requests<T> {
    /// Whether the approvals of an encoded change hold.
    pub(super) fn look_at_change(
        &mut self,
        connection: ConnectionId,
        change: &Bytes,
        now: Instant,
    ) -> Result<(), &'static str> {
        if self.standings.is_ended(connection) {
            return Err(STRANGER);
        }
        let change = SignedChange::from_bytes(change.clone()).map_err(|_| UNREADABLE)?;
        let committee = self.epochs.committee();
        if change.change.ends != committee.epoch() {
            return Err(ANOTHER_EPOCH);
        }
        if !change.is_of_administrators(&committee) {
            return Err(STRANGER);
        }
        let checks = change.approval_checks(&self.chain);
        if !self.changes.has(checks.len(), now) {
            return Err(BUSY);
        }
        // What is forged costs what was verified of it, and who sent it its standing: else
        // strangers could use the allowance up, and nobody could change the members.
        for check in &checks {
            self.changes.take(1, now);
            if self.scheme.verify(std::slice::from_ref(check)) != [true] {
                self.is_forged(connection);
                return Err(FORGED);
            }
        }
        Ok(())
    }

    /// Verifies the changes among `claimed`, and returns the rest.
    pub(super) fn settle_changes(
        &mut self,
        arrived: Instant,
        claimed: Vec<Claimed>,
        ready: &mut Vec<FromClient>,
    ) -> Vec<Claimed> {
        // One that cannot be read, or has no signatures, costs what any frame does.
        let is_change = |one: &Claimed| rests_on_more(one.claim.unverified());
        if !self.epochs.is_governed() || !claimed.iter().any(is_change) {
            return claimed;
        }
        let (changes, rest): (Vec<_>, Vec<_>) = claimed.into_iter().partition(is_change);
        for Claimed { connection, claim, relay } in changes {
            let frame = Arc::clone(claim.unverified());
            if self.standings.is_ended(connection) {
                continue;
            }
            let claim = Arc::clone(&frame).claim_with_approvals(&self.chain);
            let Some(approvals) = self.approvals_of(&frame) else {
                self.is_bad(connection, &frame);
                continue;
            };
            if !self.changes.has(claim.checks().len(), arrived) {
                self.metrics.refuse("client_change_beyond_allowance");
                self.refuse(connection, frame.session(), frame.first(), Refusal::Busy);
                continue;
            }
            if !self.change_holds(approvals, claim.checks(), arrived) {
                self.is_bad(connection, &frame);
                continue;
            }
            self.standings.good(connection);
            let verdicts = vec![true; claim.checks().len()];
            let settled = claim.settle(&verdicts);
            ready.extend(settled.map(|frame| FromClient::Frame {
                connection,
                frame,
                relay,
                arrived,
            }));
        }
        rest
    }

    /// How many administrators signed a change or a directive; `None` if others are among them, or
    /// too few for anybody to look at the words of members.
    fn approvals_of(&self, frame: &SharedFrame) -> Option<usize> {
        let committee = self.epochs.committee();
        let (is_theirs, approvals) = match (frame.change(), frame.directive()) {
            (Some(Ok(change)), _) => {
                let is_approved = change.is_approved(&committee) || change.ready.is_empty();
                (is_approved && change.is_of_administrators(&committee), change.approvals.len())
            }
            (_, Some(Ok(directive))) => {
                (directive.is_of_administrators(&committee), directive.approvals.len())
            }
            _ => return None,
        };
        is_theirs.then_some(approvals)
    }

    /// Whether all signatures of a change hold. Those that are verified count for the allowance: up
    /// to the first that does not hold, and the members' words only behind it.
    fn change_holds(&mut self, approvals: usize, checks: &[Check], now: Instant) -> bool {
        let (own, others) = checks.split_at((1 + approvals).min(checks.len()));
        for check in own {
            self.changes.take(1, now);
            if self.scheme.verify(std::slice::from_ref(check)) != [true] {
                return false;
            }
        }
        self.changes.take(others.len(), now);
        self.scheme.verify(others).iter().all(|holds| *holds)
    }
}

/// Whether a frame is a change or a directive with signatures besides its client's.
fn rests_on_more(frame: &SharedFrame) -> bool {
    match (frame.change(), frame.directive()) {
        (Some(Ok(change)), _) => !change.approvals.is_empty() || !change.ready.is_empty(),
        (_, Some(Ok(directive))) => !directive.approvals.is_empty(),
        _ => false,
    }
}
