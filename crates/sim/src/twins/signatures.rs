//! What the replicas of a scenario sign with.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use quorate_core::base::crypto::{Check, Scheme, Share, Signature, Signer, Statement};
use quorate_core::base::membership::ReplicaKey;
use quorate_core::{Committee, Epoch, ReplicaId};

use crate::keys::CHAIN;

/// The keys of a committee, and the scheme that they are of. Certificates are lists.
#[derive(Clone)]
pub struct Signatures {
    committee: Committee,
    keys: Keys,
}

#[derive(Clone)]
enum Keys {
    Mixed,
    Real { signers: Arc<[Box<dyn Signer>]>, scheme: Arc<dyn Scheme> },
}

impl Signatures {
    /// Sums of 64 bits that anybody could forge, for scenarios in which nobody does: twins are the
    /// only liars here, and they sign with their own key. They cost next to nothing.
    ///
    /// # Panics
    /// If `replicas` is 0 or above 256: a [`Shape`](super::Shape) is neither.
    #[must_use]
    pub fn mixed(replicas: usize) -> Self {
        let key = |id: usize| {
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&(id as u64 + 1).to_le_bytes());
            ReplicaKey::from(bytes)
        };
        let committee = Committee::new(CHAIN, Epoch(0), (0..replicas).map(key).collect());
        let committee = crate::planted::committee(committee.expect("1 to 256 distinct keys"));
        Self { committee, keys: Keys::Mixed }
    }

    /// The signatures of a real scheme. `signers[i]` has the secret of the committee's replica i.
    /// `None` if they are not as many.
    #[must_use]
    pub fn real(
        keys: Vec<ReplicaKey>,
        signers: Vec<Box<dyn Signer>>,
        scheme: Arc<dyn Scheme>,
    ) -> Option<Self> {
        let committee = Committee::new(CHAIN, Epoch(0), keys).ok()?;
        (signers.len() == committee.size())
            .then(|| Self { committee, keys: Keys::Real { signers: signers.into(), scheme } })
    }

    /// Who signs.
    #[must_use]
    pub fn committee(&self) -> &Committee {
        &self.committee
    }

    pub(super) fn sign(&self, replica: ReplicaId, statement: &Statement) -> Signature {
        match &self.keys {
            Keys::Mixed => mixed(replica, statement),
            Keys::Real { signers, .. } => signers[replica.index()].sign(statement),
        }
    }

    /// Which checks hold; `known` are those that did before.
    pub(super) fn verify(&self, known: &Known, checks: &[Check]) -> Vec<bool> {
        match &self.keys {
            Keys::Mixed => checks.iter().map(holds).collect(),
            Keys::Real { scheme, .. } => {
                let mut known = known.0.borrow_mut();
                let new: Vec<Check> =
                    checks.iter().filter(|check| !known.contains(*check)).cloned().collect();
                let verdicts = scheme.verify(&new);
                let good = new.into_iter().zip(verdicts).filter(|(_, verdict)| *verdict);
                known.extend(good.map(|(check, _)| check));
                checks.iter().map(|check| known.contains(check)).collect()
            }
        }
    }
}

/// Signatures that were verified in a run: each is, once, as replicas do that keep a certificate
/// cache. All slots share one here.
#[derive(Debug, Default)]
pub(super) struct Known(RefCell<BTreeSet<Check>>);

fn holds(check: &Check) -> bool {
    match check {
        Check::Replica(Share { signer, statement, signature }) => {
            mixed(*signer, statement) == *signature
        }
        // Certificates are lists, and there are no clients.
        _ => false,
    }
}

/// A multiply-and-rotate sum of who and what.
fn mixed(replica: ReplicaId, statement: &Statement) -> Signature {
    let mut sum = u64::from(replica.0).wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut add = |word: u64| {
        sum = (sum ^ word).wrapping_mul(0xBF58_476D_1CE4_E5B9).rotate_left(29);
    };
    let (words, rest) = statement.as_bytes().as_chunks::<8>();
    words.iter().for_each(|word| add(u64::from_le_bytes(*word)));
    rest.iter().for_each(|byte| add(u64::from(*byte)));
    Signature::new(&sum.to_le_bytes()).unwrap_or(Signature::NONE)
}
