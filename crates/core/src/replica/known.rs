//! Signatures that were verified, so that none is verified twice.
//!
//! A vote is seen several times: by its collector, in the certificate of the next proposal, in
//! time-outs that carry that certificate. The cache works on single signatures rather than on
//! whole certificates, so that a certificate of which all but one vote are known costs one check.

use std::collections::BTreeMap;

use crate::base::crypto::Check;

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
    /// The place of each in the ring, by the first bytes of its signature. Of two that begin alike
    /// the later one is known: the other is verified once more.
    places: BTreeMap<u64, usize>,
    /// The checks in the order they were remembered, the oldest at `next` once it is full.
    ring: Vec<Check>,
    next: usize,
    capacity: usize,
}

impl KnownSignatures {
    /// Nothing is known yet of so many replicas, nor ever, unless it is `enabled`.
    #[must_use]
    pub fn new(enabled: bool, replicas: usize) -> Self {
        let capacity = (OF_EACH * replicas).min(CAPACITY);
        Self { enabled, places: BTreeMap::new(), ring: Vec::new(), next: 0, capacity }
    }

    /// Whether `check` was verified.
    #[must_use]
    pub fn contains(&self, check: &Check) -> bool {
        let place = self.places.get(&beginning(check));
        place.and_then(|place| self.ring.get(*place)) == Some(check)
    }

    /// How many are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Remembers a check that held.
    pub fn insert(&mut self, check: Check) {
        let may_be_kept = planted!("made-up-keys-remembered", true, check.may_be_kept());
        if !self.enabled || !may_be_kept || self.contains(&check) {
            return;
        }
        let is_full = mutant!("known-unbounded", false, self.ring.len() >= self.capacity);
        let place = if is_full { self.next } else { self.ring.len() };
        if let Some(oldest) = self.ring.get(place).map(beginning)
            && self.places.get(&oldest) == Some(&place)
        {
            self.places.remove(&oldest);
        }
        self.places.insert(beginning(&check), place);
        match self.ring.get_mut(place) {
            Some(oldest) => *oldest = check,
            None => self.ring.push(check),
        }
        self.next = (place + 1) % self.capacity.max(1);
    }
}

/// The first bytes of a check's signature, which tell it from others.
fn beginning(check: &Check) -> u64 {
    let first = check.signature().and_then(|signature| signature.as_bytes().first_chunk());
    first.map_or(0, |first| u64::from_le_bytes(*first))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;

    use super::*;
    use crate::base::crypto::Round;
    use crate::base::types::Digest;

    /// A dealing may be tens of thousands of bytes, and anybody can make up some that hold.
    #[test]
    fn dealings_that_hold_are_not_remembered() {
        let mut known = KnownSignatures::new(true, 4);
        let (context, keys) = (Digest::default(), vec![[0; 32]; 4]);
        let round = Arc::new(Round { context, keys, quorum: 3 });
        let dealing = Check::Dealing { round, dealer: 0, dealing: Bytes::new() };
        known.insert(dealing.clone());
        assert!(!known.contains(&dealing));
        assert_eq!(known.len(), 0);
    }
}
