//! Verifications under way: which checks are known to hold, which the verifier has, and what waits
//! for them. Peers take turns, and each has an account ([`turns`](super::turns)).

use std::collections::VecDeque;

use super::known::KnownSignatures;
use super::pending::Pending;
use super::turns::{Cost, Piece, Turns, weight_of};
use crate::base::crypto::Check;
use crate::base::types::{ReplicaId, Time};
use crate::protocols::protocol::Types;

/// An ask: what waits for it, and which of its checks were known to hold already.
#[derive(Debug)]
struct Asked<T: Types> {
    /// How many epochs had begun.
    era: u64,
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
struct Given {
    /// Its own number.
    ask: u64,
    /// The ask it is of.
    of: u64,
    start: usize,
    checks: usize,
    /// What they weigh.
    weight: usize,
    /// Whether it took somebody's turn.
    counts: bool,
}

/// Something whose verdicts are all there, one a check, in order.
#[derive(Debug)]
pub(super) struct Settled<T: Types> {
    /// Whether it was asked for in the current epoch.
    pub(super) is_current: bool,
    pub(super) pending: Pending<T>,
    pub(super) verdicts: Vec<bool>,
}

/// The verifications of a replica.
#[derive(Debug)]
pub(super) struct Verifications<T: Types> {
    known: KnownSignatures,
    /// What waits for verdicts, by the number of the ask, ascending.
    asked: VecDeque<Asked<T>>,
    /// Asks that turned out to need no verdict.
    ready: VecDeque<u64>,
    /// What the verifier has, by the number under which it was given, ascending.
    given: VecDeque<Given>,
    /// What the verifier is given next.
    turns: Turns,
    next_ask: u64,
    /// How many epochs have begun since the start.
    era: u64,
}

impl<T: Types> Verifications<T> {
    /// None yet, of `peers` replicas; what held is remembered if `remembers`.
    pub(super) fn new(remembers: bool, peers: usize) -> Self {
        Self {
            known: KnownSignatures::new(remembers, peers),
            asked: VecDeque::new(),
            ready: VecDeque::new(),
            given: VecDeque::new(),
            turns: Turns::new(peers),
            next_ask: 0,
            era: 0,
        }
    }

    /// An epoch of so many replicas begins.
    pub(super) fn begin_epoch(&mut self, peers: usize) {
        self.era += 1;
        self.grow(peers);
    }

    /// Has accounts for so many replicas.
    pub(super) fn grow(&mut self, peers: usize) {
        self.turns.grow(peers);
    }

    /// How many of peers' messages are under way.
    pub(super) fn messages(&self) -> usize {
        self.turns.messages()
    }

    /// How many checks are known to hold.
    pub(super) fn known(&self) -> usize {
        self.known.len()
    }

    /// This check holds.
    pub(super) fn learn(&mut self, check: Check) {
        self.known.insert(check);
    }

    /// A signature that a peer sent does not hold: it comes last for a while.
    pub(super) fn distrust(&mut self, now: Time, peer: ReplicaId) {
        self.turns.distrust(now, peer);
    }

    /// Has the checks of `pending` verified that are not known to hold. `from` is the peer to whose
    /// account it goes, with the bytes of its message. `give` hands checks to the verifier, under a
    /// number.
    ///
    /// # Errors
    /// The peer, if its account is used up.
    pub(super) fn ask(
        &mut self,
        now: Time,
        pending: Pending<T>,
        from: Option<(ReplicaId, usize)>,
        give: &mut dyn FnMut(u64, Vec<Check>),
    ) -> Result<(), ReplicaId> {
        let mut unknown = Vec::new();
        let judge = |check: &Check| {
            let known = self.known.contains(check);
            if !known {
                unknown.push(check.clone());
            }
            known
        };
        let known = pending.checks().map(judge).collect();
        let cost = from.map(|(peer, bytes)| Cost { peer, checks: weight_of(&unknown), bytes });
        if let Some(cost) = cost
            && !self.turns.admit(now, cost)
        {
            return Err(cost.peer);
        }
        let ask = self.next_number();
        let (class, left) = (pending.class(), unknown.len());
        let verdicts = vec![false; left];
        let era = self.era;
        self.asked.push_back(Asked { era, ask, pending, known, verdicts, left, cost });
        match cost {
            _ if unknown.is_empty() => self.ready.push_back(ask),
            Some(cost) => self.turns.wait(cost.peer, class, ask, unknown),
            None => self.give(Piece { ask, start: 0, checks: unknown }, false, give),
        }
        self.give_more(now, give);
        Ok(())
    }

    fn next_number(&mut self) -> u64 {
        self.next_ask += 1;
        self.next_ask - 1
    }

    /// Gives the verifier what is next, as far as it has little to do.
    pub(super) fn give_more(&mut self, now: Time, give: &mut dyn FnMut(u64, Vec<Check>)) {
        while let Some(piece) = self.turns.next(now) {
            self.give(piece, true, give);
        }
    }

    fn give(&mut self, piece: Piece, counts: bool, give: &mut dyn FnMut(u64, Vec<Check>)) {
        let weight = piece.weight();
        let Piece { ask: of, start, checks } = piece;
        let ask = self.next_number();
        self.given.push_back(Given { ask, of, start, checks: checks.len(), weight, counts });
        give(ask, checks);
    }

    /// The verdicts on checks that were given to the verifier. Returns what has all of its own now.
    pub(super) fn checked(&mut self, ask: u64, verdicts: &[bool]) -> Option<Settled<T>> {
        let place = self.given.binary_search_by_key(&ask, |given| given.ask).ok()?;
        let given = self.given.remove(place)?;
        if given.counts {
            self.turns.came_back(given.weight);
        }
        let place = self.asked.binary_search_by_key(&given.of, |asked| asked.ask).ok()?;
        let asked = self.asked.get_mut(place)?;
        let own = asked.verdicts.iter_mut().skip(given.start).take(given.checks);
        own.zip(verdicts).for_each(|(own, verdict)| *own = *verdict);
        asked.left = asked.left.saturating_sub(given.checks);
        if asked.left > 0 {
            return None;
        }
        self.settle(given.of)
    }

    /// Something whose checks were all known to hold.
    pub(super) fn ready(&mut self) -> Option<Settled<T>> {
        let ask = self.ready.pop_front()?;
        self.settle(ask)
    }

    /// All verdicts of an ask are there.
    fn settle(&mut self, ask: u64) -> Option<Settled<T>> {
        let place = self.asked.binary_search_by_key(&ask, |asked| asked.ask).ok()?;
        let Asked { era, pending, known: mut verdicts, verdicts: fresh, cost, .. } =
            self.asked.remove(place)?;
        if let Some(cost) = cost {
            self.turns.settle(cost);
        }
        let mut fresh = fresh.iter();
        for (holds, check) in verdicts.iter_mut().zip(pending.checks()) {
            if !*holds && fresh.next() == Some(&true) {
                *holds = true;
                self.known.insert(check.clone());
            }
        }
        Some(Settled { is_current: era == self.era, pending, verdicts })
    }
}
