//! Whose signatures are verified next, and how much a peer may have waiting.
//!
//! A verifier takes what it is given in order, so little is given to it at a time and the rest
//! waits here. What the replica itself asks goes first and is never counted. Then come messages of
//! the protocol, then bodies, blocks and offers, then whatever is sent by a peer whose signature
//! was bad lately; within each of these the peers take turns. Long lists of checks are cut, so that
//! a vote waits for a few hundred checks, not for a whole answer with blocks. Checks count by
//! their [weight](Check::weight).
//!
//! Each peer has an account of messages, checks and bytes. One message always fits an empty
//! account. A peer whose signature was bad has [one message](DISTRUSTED_MESSAGES) at a time for a
//! while; no correct replica passes on what it did not verify.

use std::collections::VecDeque;

use crate::base::crypto::Check;
use crate::base::per_peer::PerPeer;
use crate::base::types::{Duration, ReplicaId, Time};

/// Most messages of one peer under way.
const MESSAGES: usize = 64;
/// The most that the checks may weigh that these need, one message aside.
const CHECKS: usize = 8192;
/// Most bytes that these may have, one message aside: the longest has as many.
const BYTES: usize = super::message::MAX_PEER_MESSAGE_BYTES;
/// Most messages under way of a peer whose signature was bad.
const DISTRUSTED_MESSAGES: usize = 1;
/// How long a bad signature counts.
const DISTRUSTED_FOR: Duration = Duration::from_secs(10);
/// The weight of checks given to the verifier at once, for a message that is no part of the
/// protocol, if there are several.
const PIECE: usize = 128;
/// The weight of checks at the verifier beyond which nothing of a class is added: of the protocol's
/// messages, of other ones, of those of distrusted peers.
const AT_WORK: [usize; CLASSES] = [1024, 512, 1];

const CLASSES: usize = 3;

/// How soon a message is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// The protocol's.
    Protocol = 0,
    /// The others.
    Other = 1,
}

/// Checks that go to the verifier together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// The ask they are of.
    pub ask: u64,
    /// The place of the first among the ask's checks.
    pub start: usize,
    /// The checks.
    pub checks: Vec<Check>,
}

impl Piece {
    /// What they weigh.
    pub(super) fn weight(&self) -> usize {
        weight_of(&self.checks)
    }
}

/// What checks weigh together.
pub(super) fn weight_of(checks: &[Check]) -> usize {
    checks.iter().map(|check| planted!("proofs-weigh-nothing", 1, check.weight())).sum()
}

/// What one message costs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    /// Who sent it.
    pub peer: ReplicaId,
    /// What the checks weigh that it needs.
    pub checks: usize,
    /// Bytes it has.
    pub bytes: usize,
}

#[derive(Debug, Default)]
struct Account {
    messages: usize,
    checks: usize,
    bytes: usize,
    distrusted_until: Time,
    waiting: [VecDeque<Piece>; 2],
}

/// The peers' accounts, and what waits.
#[derive(Debug)]
pub(super) struct Turns {
    accounts: PerPeer<Account>,
    /// Whose turn it is, in each class.
    turn: [usize; CLASSES],
    at_work: usize,
}

impl Turns {
    /// Nothing waits yet of so many replicas.
    pub(super) fn new(replicas: usize) -> Self {
        Self { accounts: PerPeer::new(replicas), turn: [0; CLASSES], at_work: 0 }
    }

    /// Has accounts for so many replicas.
    pub(super) fn grow(&mut self, replicas: usize) {
        self.accounts.grow(replicas);
    }

    /// Messages under way.
    pub(super) fn messages(&self) -> usize {
        self.accounts.iter().map(|account| account.messages).sum()
    }

    /// Whether a message fits its sender's account, which it is then put on.
    pub(super) fn admit(&mut self, now: Time, cost: Cost) -> bool {
        let Some(account) = self.accounts.get_mut(cost.peer) else { return false };
        let most = if now < account.distrusted_until { DISTRUSTED_MESSAGES } else { MESSAGES };
        let is_full = account.messages >= most
            || account.messages > 0
                && (account.checks + cost.checks > CHECKS || account.bytes + cost.bytes > BYTES);
        if mutant!("verifications-unbounded", false, is_full) {
            return false;
        }
        account.messages += 1;
        account.checks += cost.checks;
        account.bytes += cost.bytes;
        true
    }

    /// A message is settled: its account is relieved of it.
    pub(super) fn settle(&mut self, cost: Cost) {
        let Some(account) = self.accounts.get_mut(cost.peer) else { return };
        account.messages = account.messages.saturating_sub(1);
        account.checks = account.checks.saturating_sub(cost.checks);
        account.bytes = account.bytes.saturating_sub(cost.bytes);
    }

    /// A signature that `peer` sent does not hold.
    pub(super) fn distrust(&mut self, now: Time, peer: ReplicaId) {
        if let Some(account) = self.accounts.get_mut(peer) {
            account.distrusted_until = now.after(DISTRUSTED_FOR);
        }
    }

    /// Has the checks of a peer's message wait for their turn.
    pub(super) fn wait(&mut self, peer: ReplicaId, class: Class, ask: u64, checks: Vec<Check>) {
        let Some(account) = self.accounts.get_mut(peer) else { return };
        let waiting = &mut account.waiting[class as usize];
        if class == Class::Protocol {
            return waiting.push_back(Piece { ask, start: 0, checks });
        }
        let mut rest = checks.into_iter().enumerate().peekable();
        while let Some((start, first)) = rest.next() {
            let mut weight = weight_of(std::slice::from_ref(&first));
            let mut checks = vec![first];
            let mut fits = |check: &Check| {
                weight += weight_of(std::slice::from_ref(check));
                weight <= PIECE
            };
            while let Some((_, check)) = rest.next_if(|(_, check)| fits(check)) {
                checks.push(check);
            }
            waiting.push_back(Piece { ask, start, checks });
        }
    }

    /// What is given to the verifier now, if anything is.
    pub(super) fn next(&mut self, now: Time) -> Option<Piece> {
        let peers = self.accounts.replicas();
        for (class, most) in AT_WORK.iter().enumerate() {
            if self.at_work >= *most {
                continue;
            }
            for step in 0..peers {
                let peer = (self.turn[class] + step) % peers;
                let Some(account) = self.accounts.get_mut(ReplicaId(peer as u16)) else { break };
                let distrusted = now < account.distrusted_until;
                let [protocol, other] = &mut account.waiting;
                let piece = match (class, distrusted) {
                    (0, false) => protocol.pop_front(),
                    (1, false) => other.pop_front(),
                    (2, true) => protocol.pop_front().or_else(|| other.pop_front()),
                    _ => None,
                };
                if let Some(piece) = piece {
                    self.turn[class] = (peer + 1) % peers;
                    self.at_work += piece.weight();
                    return Some(piece);
                }
            }
        }
        None
    }

    /// Checks of this weight came back from the verifier.
    pub(super) fn came_back(&mut self, weight: usize) {
        self.at_work = self.at_work.saturating_sub(weight);
    }
}

#[cfg(test)]
mod tests;
