//! The signature scheme of clients and of members that change: whatever is checked names its keys.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quorate_core::base::crypto::{
    Check, Form, Round, Scheme, Share, ShareKeys, Signature, Signers,
};
use quorate_core::base::types::Digest;

use crate::bls::threshold::{Committee, generation};
use crate::committee_scheme::{join_shares, verify_bls};
use crate::ed25519::Ed25519;

/// How many threshold keys of committees are kept, read and checked: those of the epoch, of the one
/// before, of the next, and some of a client that follows epochs.
const KEPT: usize = 8;

/// Verifies signatures of members by the keys that a check names
/// ([`by_key`](quorate_core::Committee::by_key)), and all that a change of members rests on. It
/// belongs to no epoch. Threads share it by reference.
///
/// Members sign with Ed25519, or with shares of a threshold key of their epoch. Reading such a key
/// costs a check of every share and of all together, so the latest are kept. Anybody may propose
/// keys that its members are to have: these take no place of a committee's.
#[derive(Default)]
pub struct MembersScheme {
    ed25519: Ed25519,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// By the digest of the shares, the latest last.
    of_committees: Vec<(Digest, Arc<Committee>)>,
    /// The latest that some change proposes.
    proposed: Option<(Digest, Arc<Committee>)>,
}

impl Kept {
    /// Keys that were proposed are a committee's once its members have signed with them.
    fn find(&mut self, digest: &Digest, is_proposed: bool) -> Option<Arc<Committee>> {
        let is = |(kept, _): &&(Digest, Arc<Committee>)| kept == digest;
        if let Some((_, committee)) = self.of_committees.iter().find(is) {
            return Some(Arc::clone(committee));
        }
        let (digest, committee) = self.proposed.as_ref().filter(is)?.clone();
        if !is_proposed {
            self.proposed = None;
            self.keep(digest, Arc::clone(&committee), false);
        }
        Some(committee)
    }

    fn keep(&mut self, digest: Digest, committee: Arc<Committee>, is_proposed: bool) {
        if is_proposed {
            self.proposed = Some((digest, committee));
            return;
        }
        if self.of_committees.len() == KEPT {
            self.of_committees.remove(0);
        }
        self.of_committees.push((digest, committee));
    }
}

impl MembersScheme {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The committee of these shares; `None` if they do not lie on one polynomial.
    fn committee(&self, keys: &ShareKeys, is_proposed: bool) -> Option<Arc<Committee>> {
        let digest = keys.digest();
        // Two lines, so that the lock is free while keys are read.
        let known = self.kept().find(&digest, is_proposed);
        if known.is_some() {
            return known;
        }
        let shares: Vec<&[u8]> = keys.keys().map(<[u8; _]>::as_slice).collect();
        let committee = Arc::new(Committee::of_shares(&shares, keys.quorum())?);
        self.kept().keep(digest, Arc::clone(&committee), is_proposed);
        Some(committee)
    }

    /// Verifies what is signed by shares, one batch for each threshold key.
    fn verify_joined(&self, checks: &[Check], verdicts: &mut [bool]) {
        let joined = checks.iter().enumerate().filter_map(|(index, check)| match check {
            Check::Joined { keys, check } => Some((keys, index, &**check)),
            _ => None,
        });
        let mut joined: Vec<(&Arc<ShareKeys>, usize, &Check)> = joined.collect();
        joined.sort_by_key(|(keys, index, _)| (keys.digest(), *index));
        for same in joined.chunk_by(|one, next| one.0 == next.0) {
            let Some((keys, ..)) = same.first() else { continue };
            // What members sign as they vote is checked by the keys of a committee.
            let is_proposed = !same.iter().all(|(_, _, check)| check.is_joined());
            let Some(committee) = self.committee(keys, is_proposed) else { continue };
            let checks = same.iter().map(|(_, index, check)| (*index, *check));
            let place = |signer| keys.place(signer).unwrap_or(usize::MAX);
            verify_bls(committee.claims(), checks, &place, verdicts);
        }
    }
}

impl Scheme for MembersScheme {
    fn verify(&self, checks: &[Check]) -> Vec<bool> {
        let mut verdicts = self.ed25519.verify(checks);
        self.verify_joined(checks, &mut verdicts);
        for (check, verdict) in checks.iter().zip(&mut verdicts) {
            match check {
                Check::Dealing { round, dealer, dealing } => {
                    *verdict = read(round).is_some_and(|it| it.read(*dealer, dealing).is_ok());
                }
                Check::Complaint { round, dealer, dealing, recipient, evidence } => {
                    let complaint = generation::Complaint {
                        dealer: *dealer,
                        recipient: *recipient,
                        evidence: *evidence,
                    };
                    *verdict = read(round).is_some_and(|it| holds(it, dealing, &complaint));
                }
                Check::EncryptionKey { context, key, proof } => {
                    let key = generation::EncryptionKey::read(key);
                    *verdict = key.is_some_and(|key| key.has_proved(&context.0, proof));
                }
                _ => {}
            }
        }
        verdicts
    }

    /// Always `None`: members' own signatures are not joined.
    fn combine(&self, _: Form, _: &[Share]) -> Option<Signature> {
        None
    }

    fn combine_by(&self, keys: &ShareKeys, form: Form, shares: &[Share]) -> Option<Signature> {
        if shares.iter().map(|share| share.signer).collect::<Signers>().len() != shares.len() {
            return None;
        }
        let committee = self.committee(keys, false)?;
        join_shares(&committee, form, shares, &|signer| keys.place(signer))
    }
}

/// What dealers agreed on, for arithmetic; `None` if nobody can deal by it.
fn read(round: &Round) -> Option<generation::Round> {
    generation::Round::new(round.context.0, &round.keys, round.quorum).ok()
}

fn holds(round: generation::Round, dealing: &[u8], complaint: &generation::Complaint) -> bool {
    let mut taken = generation::Generation::new(round);
    taken.take_dealing(complaint.dealer, dealing).is_ok() && taken.take_complaint(complaint).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bls::threshold;

    fn some() -> Arc<Committee> {
        let dealt = threshold::deal(4, 3).expect("randomness");
        let shares: Vec<_> = dealt.shares.iter().map(|share| share.public_key()).collect();
        let shares: Vec<&[u8]> = shares.iter().map(<[u8; _]>::as_slice).collect();
        Arc::new(Committee::of_shares(&shares, 3).expect("of one polynomial"))
    }

    /// Anybody can make up keys that are sound. They must not push out those that votes are checked
    /// by, which would be read anew for each vote.
    #[test]
    fn keys_that_are_proposed_take_no_place_of_a_committees() {
        let (mut kept, keys) = (Kept::default(), some());
        let digest = |number: usize| Digest::of("test", &number.to_le_bytes());
        kept.keep(digest(0), Arc::clone(&keys), false);
        (1..100).for_each(|number| kept.keep(digest(number), Arc::clone(&keys), true));
        assert!(kept.find(&digest(0), false).is_some());
        assert!(kept.find(&digest(98), true).is_none());
        // What was proposed and is signed with stays.
        assert!(kept.find(&digest(99), false).is_some());
        kept.keep(digest(100), Arc::clone(&keys), true);
        assert!(kept.find(&digest(99), false).is_some() && kept.find(&digest(100), true).is_some());
        (200..200 + KEPT).for_each(|number| kept.keep(digest(number), Arc::clone(&keys), false));
        assert!(kept.find(&digest(0), false).is_none(), "the oldest goes");
    }
}
