//! Signatures that were verified, so that none is verified twice (F3).
//!
//! A vote is seen several times: by its collector, in the certificate of the next proposal, in
//! time-outs that carry that certificate. The cache works on single signatures rather than on
//! whole certificates, so that a certificate of which all but one vote are known costs one check.

use std::collections::{BTreeSet, VecDeque};

use crate::crypto::Check;

/// How many signatures of each replica are remembered: those of the views that are going on, and of
/// some that are carried along. More only makes each look-up slower.
const OF_EACH: usize = 64;
/// How many signatures are remembered at most.
const CAPACITY: usize = 4096;

/// The signatures verified lately.
#[derive(Clone, Debug)]
pub struct KnownSignatures {
    /// Without it everything is verified each time it is seen.
    enabled: bool,
    set: BTreeSet<Check>,
    order: VecDeque<Check>,
    capacity: usize,
}

impl KnownSignatures {
    /// Nothing is known yet of so many replicas, nor ever, unless it is `enabled`.
    #[must_use]
    pub fn new(enabled: bool, replicas: usize) -> Self {
        let capacity = (OF_EACH * replicas).min(CAPACITY);
        Self { enabled, set: BTreeSet::new(), order: VecDeque::new(), capacity }
    }

    /// Whether `check` was verified.
    #[must_use]
    pub fn contains(&self, check: &Check) -> bool {
        self.set.contains(check)
    }

    /// How many are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.set.len()
    }

    /// Remembers a check that held.
    pub fn insert(&mut self, check: Check) {
        if self.enabled && self.set.insert(check.clone()) {
            self.order.push_back(check);
            if mutant!("known-unbounded", false, self.order.len() > self.capacity)
                && let Some(oldest) = self.order.pop_front()
            {
                self.set.remove(&oldest);
            }
        }
    }
}
