//! What replicas say to each other about epochs, and what they keep of it.

use crate::base::crypto::Signature;
use crate::base::types::{Height, ReplicaId};
use crate::ledger::block::BlockId;
use crate::protocols::snow::snowman::place::Place;

/// The most blocks that a report or a proposal names, from the base on. An epoch decides no block
/// further up.
pub const REACH: usize = 32;
/// The most blocks that a replica remembers of what it stands by: [`BELOW`](super::BELOW) accepted
/// ones, the head, and what may be above that.
pub const MAX_CHAIN: usize = 320;

/// A replica with its signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signed {
    /// The replica.
    pub signer: ReplicaId,
    /// Its signature.
    pub signature: Signature,
}

/// What a replica signs that is stuck: nothing above `base` was accepted for many polls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Complaint {
    /// The odd epoch that is to begin.
    pub epoch: u64,
    /// The last block that the signer accepted.
    pub base: Place,
}

/// Complaints of f + 1 replicas about one block. It begins an odd epoch, and convinces anybody that
/// a correct replica accepted that block, and was stuck.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// What they signed.
    pub complaint: Complaint,
    /// Their signatures, ascending by their ids.
    pub signatures: Vec<Signed>,
}

/// What a replica stands by at the beginning of a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The odd epoch.
    pub epoch: u64,
    /// The round, from 1 on.
    pub round: u32,
    /// The block that the chain begins above.
    pub base: Place,
    /// The blocks above the base that the signer stands by, lowest first, up to [`REACH`]: those
    /// that it preferred when it entered the epoch, or those that it voted for since.
    pub chain: Vec<BlockId>,
}

/// A report with its signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedReport {
    /// Whose.
    pub from: ReplicaId,
    /// What it signs.
    pub report: Report,
    /// Its signature.
    pub signature: Signature,
}

/// What a vote is for: the chain up to this block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ballot {
    /// The odd epoch.
    pub epoch: u64,
    /// The round.
    pub round: u32,
    /// The block.
    pub place: Place,
}

/// What the leader of a round proposes, and the reports that allow it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// What to vote for.
    pub ballot: Ballot,
    /// The block of the reports.
    pub base: Place,
    /// The blocks above the base up to that of the ballot, lowest first.
    pub chain: Vec<BlockId>,
    /// Reports of at least a replicas, ascending by their ids.
    pub reports: Vec<SignedReport>,
}

/// The votes of a replicas: the block is final, and the epoch is over. It convinces anybody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// What they voted for.
    pub ballot: Ballot,
    /// Their signatures, ascending by their ids.
    pub signatures: Vec<Signed>,
}

/// A message about epochs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// The sender is stuck.
    Complaint {
        /// What it signs.
        complaint: Complaint,
        /// Its signature.
        signature: Signature,
    },
    /// What the sender stands by, and why there is such an epoch.
    Report {
        /// It begins the epoch.
        certificate: Certificate,
        /// The sender's report.
        signed: SignedReport,
    },
    /// From the leader of a round.
    Proposal(Proposal),
    /// To all.
    Vote {
        /// What the vote is for.
        ballot: Ballot,
        /// Its signature.
        signature: Signature,
    },
    /// To those who do not know that the epoch is over.
    Decided(Decided),
}

/// Successive blocks, of which each is the parent of the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The height of the first one.
    pub first: Height,
    /// Their names, lowest first.
    pub ids: Vec<BlockId>,
}

impl Chain {
    /// The block at a height.
    #[must_use]
    pub fn at(&self, height: Height) -> Option<BlockId> {
        let place = usize::try_from(height.0.checked_sub(self.first.0)?).ok()?;
        self.ids.get(place).copied()
    }

    /// The last block.
    #[must_use]
    pub fn tip(&self) -> Option<Place> {
        let block = *self.ids.last()?;
        Some(Place { height: self.first.plus(self.ids.len() as u64 - 1), block })
    }

    /// Whether the tip of `other` is one of these blocks.
    #[must_use]
    pub fn reaches(&self, other: &Self) -> bool {
        other.tip().is_some_and(|tip| self.at(tip.height) == Some(tip.block))
    }

    /// The blocks above `base`: none if `base` is not one of these. `None`: these begin above it,
    /// so it is not known.
    #[must_use]
    pub fn above(&self, base: Place) -> Option<Vec<BlockId>> {
        let place = usize::try_from(base.height.0.checked_sub(self.first.0)?).ok()?;
        let is_on_it = self.ids.get(place) == Some(&base.block);
        Some(if is_on_it { self.ids[place + 1..].to_vec() } else { Vec::new() })
    }
}

/// An odd epoch that is not over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Odd {
    /// It began the epoch; with the highest block, if there are several.
    pub certificate: Certificate,
    /// The round.
    pub round: u32,
    /// What the replica preferred when it entered: it answers so until the epoch is over.
    pub stand: Chain,
    /// Its last vote: the round, and the chain from the base up to the block.
    pub vote: Option<(u32, Chain)>,
}

impl Odd {
    /// Its number.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.certificate.complaint.epoch
    }

    /// The block that it is about.
    #[must_use]
    pub fn base(&self) -> Place {
        self.certificate.complaint.base
    }
}

/// What a replica must never forget of epochs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remembered {
    /// The last decision that it knows of.
    pub decided: Option<Decided>,
    /// The last odd epoch that is over here.
    pub over: u64,
    /// The odd epoch that it is in.
    pub odd: Option<Odd>,
}

impl Remembered {
    /// The epoch: odd while a decision is sought.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        let even = if self.over == 0 { 0 } else { self.over.saturating_add(1) };
        self.odd.as_ref().map_or(even, Odd::epoch)
    }
}
