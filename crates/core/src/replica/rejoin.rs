//! Coming back without memory.
//!
//! A replica whose data folder was lost cannot know what it said. On an operator's explicit word it
//! asks all others where they stand, waits for q of them, and has its protocol
//! [recollect](crate::protocols::protocol::Protocol::recollect) what it must keep away from. Until
//! its protocol lets it speak again it counts toward f.
//!
//! Its state may have been restored from a backup: then it need not fetch that. What it said is in
//! no backup, so it comes back in the same way.
//!
//! Where members change, what it does not know is what it said in any epoch. It asks in each that
//! it enters, until q members of one testify (`voice`).

use std::collections::BTreeMap;

use super::beginning::Beginning;
use crate::base::crypto::Statement;
use crate::base::membership::Committee;
use crate::base::types::{Digest, Duration, ReplicaId, Time};
use crate::protocols::protocol::Types;

/// The testimonies at hand.
#[derive(Clone, Debug)]
pub struct Rejoin<Y> {
    nonce: Digest,
    committee: Committee,
    testimonies: BTreeMap<ReplicaId, Y>,
    deadline: Time,
}

/// How long to wait before asking again.
const PATIENCE: Duration = Duration::from_millis(500);

impl<Y> Rejoin<Y> {
    /// Begins to collect answers to `nonce`, which must never have been used before.
    #[must_use]
    pub fn new(nonce: Digest, committee: &Committee) -> Self {
        let (committee, testimonies) = (committee.clone(), BTreeMap::new());
        Self { nonce, committee, testimonies, deadline: Time(0) }
    }

    /// When to ask (again).
    #[must_use]
    pub fn deadline(&self) -> Time {
        self.deadline
    }

    /// Notes that all were asked.
    pub fn asked(&mut self, now: Time) {
        self.deadline = now.after(PATIENCE);
    }

    /// What the answers must repeat.
    #[must_use]
    pub fn nonce(&self) -> Digest {
        self.nonce
    }

    /// Takes in an answer whose signature and claims were checked. Returns the answers once q have
    /// come, in the order of the replicas' ids.
    pub fn testimony(&mut self, from: ReplicaId, testimony: Y) -> Option<Vec<Y>> {
        self.testimonies.insert(from, testimony);
        let weight = self.committee.weight_of(self.testimonies.keys().copied());
        if weight < mutant!("rejoin-one-testimony", 1, self.committee.quorum()) {
            return None;
        }
        Some(std::mem::take(&mut self.testimonies).into_values().collect())
    }
}

/// A testimony, to whom it goes, and the nonce that it repeats.
pub(super) type Testimony<Y> = (ReplicaId, Digest, Y);

/// A peer gets one testimony in this time: each costs a signature on the deciding thread. A replica
/// that lost its data asks again later than that.
const TESTIFY_EVERY: Duration = Duration::from_millis(100);

/// Lost memories: this replica's own, and those of others, who ask it for testimonies.
#[derive(Debug)]
pub(super) struct Amnesia<T: Types> {
    /// What to ask with next. `None`: it has its memory.
    own: Option<Digest>,
    /// The testimonies of this epoch that it waits for, and what its protocol begins with then.
    asks: Option<(Rejoin<T::Testimony>, Beginning<T>)>,
    /// Its testimonies that are being signed, by who asked: nobody's asking takes another's place.
    to_sign: BTreeMap<ReplicaId, (Statement, Testimony<T::Testimony>)>,
    /// When each peer that asked was last given one.
    given: BTreeMap<ReplicaId, Time>,
}

impl<T: Types> Amnesia<T> {
    /// Nobody has lost its memory.
    pub fn none() -> Self {
        let (to_sign, given) = (BTreeMap::new(), BTreeMap::new());
        Self { own: None, asks: None, to_sign, given }
    }

    /// Whether this replica is without memory.
    pub fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// When this replica asks again, if it waits for testimonies.
    pub fn deadline(&self) -> Option<Time> {
        self.asks.as_ref().map(|(rejoin, _)| rejoin.deadline())
    }

    /// This replica is without memory, and asks with `nonce` at first.
    pub fn begin(&mut self, nonce: Digest) {
        self.own = Some(nonce);
    }

    /// It waits for testimonies of an epoch, whose protocol begins so then. What was asked in an
    /// earlier epoch counts no more.
    pub fn wait(&mut self, committee: &Committee, beginning: Beginning<T>) {
        if let Some(nonce) = self.own {
            self.asks = Some((Rejoin::new(nonce, committee), beginning));
            self.own = Some(Digest::of("quorate next nonce", &nonce.0));
        }
    }

    /// All are asked now. Returns the nonce to ask with.
    pub fn ask(&mut self, now: Time) -> Option<Digest> {
        let (rejoin, _) = self.asks.as_mut()?;
        rejoin.asked(now);
        Some(rejoin.nonce())
    }

    /// Whether this replica waits for an answer to `nonce`.
    pub fn awaits(&self, nonce: Digest) -> bool {
        let expected = self.asks.as_ref().map(|(rejoin, _)| rejoin.nonce());
        mutant!("nonce-not-compared", expected.is_some(), expected == Some(nonce))
    }

    /// Takes in an answer, as [`Rejoin::testimony`] does.
    pub fn heard(&mut self, from: ReplicaId, testimony: T::Testimony) -> Option<Vec<T::Testimony>> {
        self.asks.as_mut()?.0.testimony(from, testimony)
    }

    /// The epoch whose testimonies it waits for has ended. Returns what its protocol begins with.
    pub fn stop_asking(&mut self) -> Option<Beginning<T>> {
        self.asks.take().map(|(_, beginning)| beginning)
    }

    /// This replica has a memory again. Returns what its protocol begins with besides.
    pub fn end(&mut self) -> Option<Beginning<T>> {
        self.own = None;
        self.stop_asking()
    }

    /// Whether a peer that asks is given a testimony now.
    pub fn may_testify(&mut self, now: Time, to: ReplicaId) -> bool {
        let may = self.given.get(&to).is_none_or(|last| now >= last.after(TESTIFY_EVERY));
        if may {
            self.given.insert(to, now);
        }
        may
    }

    /// A testimony is being signed. It takes the place of one that the same peer asked for before.
    pub fn sign(&mut self, statement: Statement, testimony: Testimony<T::Testimony>) {
        self.to_sign.insert(testimony.0, (statement, testimony));
    }

    /// The testimony whose statement was signed, if it is that of one.
    pub fn signed(&mut self, statement: &Statement) -> Option<Testimony<T::Testimony>> {
        let mut all = self.to_sign.iter();
        let to = *all.find(|(_, (signed, _))| signed == statement)?.0;
        self.to_sign.remove(&to).map(|(_, testimony)| testimony)
    }
}
