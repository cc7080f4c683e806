//! From dealings and complaints to the committee's keys and a member's share.

use std::collections::BTreeMap;

use quorate_core::planted;
use zeroize::Zeroizing;

use super::complaint::{Complaint, ComplaintProblem};
use super::dealing::{Dealing, evaluate, secret_key};
use super::encryption::DecryptionKey;
use super::{DealingFault, Round};
use crate::bls::curve::{G2, Scalar, is_infinity_g2, sum_g2, write_key};
use crate::bls::{KEY_BYTES, SecretKey};

/// A key generation: its dealings and complaints so far. It holds nothing secret. Its size is
/// bounded by the number of members.
#[derive(Clone, Debug)]
pub struct Generation {
    round: Round,
    /// By dealer.
    dealings: BTreeMap<usize, Dealing>,
    /// The dealers that cheated, each with the first member that showed it.
    disqualified: BTreeMap<usize, usize>,
}

/// The public result of a key generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The committee's public key.
    pub group: [u8; KEY_BYTES],
    /// The public keys of the members, in the order of their ids.
    pub members: Vec<[u8; KEY_BYTES]>,
    /// The dealers whose polynomials are in the key.
    pub qualified: Vec<usize>,
}

/// The reason why dealings and complaints make no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failed {
    /// So few dealers qualify that others could know the key.
    #[error("{qualified} dealers qualify, and a key needs {needed}: begin another key generation")]
    TooFew {
        /// The number of qualified dealers.
        qualified: usize,
        /// The least number: the quorum.
        needed: usize,
    },
    /// The dealings cancel out. Once nobody complains any more, members that made theirs together
    /// caused it.
    #[error("the dealings cancel out, so their dealers made them together: begin another one")]
    Degenerate,
    /// The shares of a member cancel out. Once all that have to have complained, that member chose
    /// its own dealing by what the others dealt to it. Before that, another dealer may have chosen
    /// its commitments so: the share that it gave this member does not fit then.
    #[error("the shares of member {0} cancel out")]
    OwnShare(usize),
}

/// The reason why a member has no share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShareError {
    /// There is no result.
    #[error(transparent)]
    Failed(#[from] Failed),
    /// The key is not the one that shares were encrypted to.
    #[error("the key is not the one that the others encrypted the shares to")]
    Key,
    /// The share of a qualified dealer does not fit: the member has to complain first.
    #[error("the share that member {0} dealt does not fit")]
    DoesNotFit(usize),
}

impl Generation {
    /// A key generation without dealings.
    #[must_use]
    pub fn new(round: Round) -> Self {
        Self { round, dealings: BTreeMap::new(), disqualified: BTreeMap::new() }
    }

    /// What the members agreed on.
    #[must_use]
    pub fn round(&self) -> &Round {
        &self.round
    }

    /// Takes the dealing of the member `dealer`. A dealer's first one counts. Returns whether this
    /// is the one that counts: `false` for another one later.
    ///
    /// # Errors
    /// [`DealingFault`].
    pub fn take_dealing(&mut self, dealer: usize, bytes: &[u8]) -> Result<bool, DealingFault> {
        if let Some(first) = self.dealings.get(&dealer) {
            return Ok(first.as_bytes() == bytes);
        }
        let dealing = self.round.read(dealer, bytes)?;
        self.dealings.insert(dealer, dealing);
        Ok(true)
    }

    /// The dealing of a member that counts.
    #[must_use]
    pub fn dealing(&self, dealer: usize) -> Option<&Dealing> {
        self.dealings.get(&dealer)
    }

    /// The complaints that `recipient` has to make, with its key: about each share that does not
    /// fit.
    ///
    /// # Errors
    /// [`ShareError::Key`] if this is not the member's key. Then every share would look wrong.
    pub fn complaints(
        &self,
        recipient: usize,
        key: &DecryptionKey,
    ) -> Result<Vec<Complaint>, ShareError> {
        self.is_key_of(recipient, key)?;
        let wrong = self.dealings.values().filter(|dealing| {
            self.round.share(dealing, recipient, &dealing.shared_with(key)).is_none()
        });
        Ok(wrong.map(|dealing| self.round.complain(dealing, recipient, key)).collect())
    }

    /// Takes a complaint. If it holds, its dealer is disqualified.
    ///
    /// # Errors
    /// [`ComplaintProblem`] if it does not hold.
    pub fn take_complaint(&mut self, complaint: &Complaint) -> Result<(), ComplaintProblem> {
        let dealing = self.dealings.get(&complaint.dealer).ok_or(ComplaintProblem::NoDealing)?;
        self.round.judge(dealing, complaint)?;
        self.disqualified.entry(complaint.dealer).or_insert(complaint.recipient);
        Ok(())
    }

    /// The dealers that cheated, each with the first member that showed it.
    #[must_use]
    pub fn disqualified(&self) -> &BTreeMap<usize, usize> {
        &self.disqualified
    }

    /// The keys of the committee, from what was taken. Members complain first: until they have,
    /// a dealing whose shares fit nobody may make it fail.
    ///
    /// # Errors
    /// [`Failed`].
    pub fn outcome(&self) -> Result<Outcome, Failed> {
        let qualified: Vec<usize> = self.qualified().map(Dealing::dealer).collect();
        let needed = self.round.quorum();
        if qualified.len() < planted!("key-of-one-dealer", 1, needed) {
            return Err(Failed::TooFew { qualified: qualified.len(), needed });
        }
        let sums: Vec<G2> = (0..needed)
            .map(|at| {
                let column = self.qualified().filter_map(|it| it.commitments().get(at).copied());
                sum_g2(&column.collect::<Vec<_>>())
            })
            .collect();
        let key = |point: &G2| match is_infinity_g2(point) {
            true => Err(Failed::Degenerate),
            false => Ok(write_key(*point)),
        };
        // Were the leading coefficient 0, fewer than a quorum could sign.
        let keys = sums.iter().map(key).collect::<Result<Vec<_>, _>>()?;
        let group = *keys.first().ok_or(Failed::Degenerate)?;
        let members = (0..self.round.members()).map(|place| {
            let point = evaluate(&sums, place);
            if is_infinity_g2(&point) { Err(Failed::OwnShare(place)) } else { Ok(write_key(point)) }
        });
        Ok(Outcome { group, members: members.collect::<Result<_, _>>()?, qualified })
    }

    /// The share of `recipient`, with its key: what it signs with. It is a function of the key and
    /// of what was taken, so a member that lost it computes it again.
    ///
    /// # Errors
    /// [`ShareError`].
    pub fn share(&self, recipient: usize, key: &DecryptionKey) -> Result<SecretKey, ShareError> {
        self.is_key_of(recipient, key)?;
        self.outcome()?;
        let mut sum = Zeroizing::new(Scalar::ZERO);
        for dealing in self.qualified() {
            let share = self.round.share(dealing, recipient, &dealing.shared_with(key));
            let share = share.ok_or(ShareError::DoesNotFit(dealing.dealer()))?;
            *sum = *sum + *share;
        }
        secret_key(*sum).ok_or(ShareError::Failed(Failed::OwnShare(recipient)))
    }

    fn qualified(&self) -> impl Iterator<Item = &Dealing> {
        self.dealings.values().filter(|it| !self.disqualified.contains_key(&it.dealer()))
    }

    fn is_key_of(&self, recipient: usize, key: &DecryptionKey) -> Result<(), ShareError> {
        let is = self.round.keys.get(recipient) == Some(&key.public_key());
        if is { Ok(()) } else { Err(ShareError::Key) }
    }
}
