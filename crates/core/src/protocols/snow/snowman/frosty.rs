//! Frosty's fallback: where sampling decides nothing for long, a quorum decides once, and sampling
//! goes on (arXiv 2404.14250, abstract: the *liveness module*). About √n liars that know what the
//! others prefer can keep both sides of a choice even, and with them Snowman, as long as they like.
//!
//! # Epochs
//! In even epochs replicas sample. A replica with many unsuccessful polls ([`Fallback::undecided`])
//! that accepts nothing signs a complaint: the next odd epoch, and its last accepted block.
//! Complaints of f + 1 about one block, the *base*, are a certificate. Everybody who sees it enters
//! the epoch. One of f + 1 complaints is a correct replica's, so liars begin no epoch by
//! themselves, and a correct replica accepted the base. Complaints are said again while their
//! sender is stuck. Replicas that are behind come to the same block, so that f + 1 name one.
//!
//! A replica in an odd epoch polls no more. It goes on to answer polls, **with what it preferred
//! when it entered**. An odd epoch has rounds, each with a leader in turn:
//! 1. Each replica signs a *report* to all: the blocks above the base that it stands by. Those are
//!    the ones it preferred when it entered, or those it voted for since, if these conflict.
//! 2. The leader takes reports of a replicas. If more than half of them stand by a block above the
//!    base, it proposes the highest such block, else any one block on the base. The proposal has
//!    the reports in it, and the rule ([`choice`]) is a function of them.
//! 3. A replica that has the blocks votes for the first proposal of its round, to all. Votes of a
//!    replicas decide: the block is final, with all below it, and the next even epoch begins.
//!
//! A round that takes too long is given up, each after twice the time of the one before, once a
//! replicas are in it. A replica that hears of f + 1 in later rounds goes there. So all are within
//! one round of each other. A decision is a certificate, too: a peer that speaks of an epoch that
//! is over is answered with it.
//!
//! # Why the block is the right one
//! Let f < n / 5 lie, and let a be the least number with 3a > 2 (n + f)
//! ([`quorum_of_a_fifth`](crate::base::membership::quorum_of_a_fifth)). Say that a replica *stands
//! by* a block if it would name it, or one above it, in the answer to a poll.
//! - *Sampling.* Among everybody, α is a. A correct replica accepts a block b after β polls in a
//!   row in which a seats name it, so a − f correct replicas stand by b, up to the error that
//!   sampling has anyway: they answered at different instants. Once a − f stand by b, they stay. A
//!   poll in which a seats name known blocks has 2a − n − f of theirs at least, and n + f − a
//!   others at most. The first number is larger, as 3a > 2 (n + f). So b has most seats, and
//!   nothing turns them. Samples of fewer need a like share
//!   ([`Parameters::for_fallback`](crate::protocols::snow::parameters::Parameters::for_fallback)).
//! - *Rounds.* Suppose that some votes of correct replicas are for blocks that are not on a chain
//!   with b. Take the first such round. Its proposal has reports of a replicas. Of the a − f that
//!   stand by b, n − a may be missing there. The other 2a − n − f report b: they entered with it,
//!   and answer so since; and all their votes before were for chains with b, by the choice of the
//!   round. Everybody else is n + f − a at most. So more than half stand by b, and the proposal
//!   goes up to b at least. That contradicts the choice.
//! - *Votes.* The same holds of a block that votes of a replicas decided: a − f are correct, and
//!   report it in all later rounds.
//!
//! So what a correct replica accepted, before, during or after the epoch, is on one chain with what
//! the epoch decides. It does not matter when the replicas enter, or whether all do.
//!
//! # Deviations
//! - The paper runs a known quorum protocol in odd epochs. This one has one phase of votes, which
//!   is enough as fewer than a fifth lie, and finalises up to one block beyond what most prefer.
//! - Where n is not 5f + 1, a is less than n − f: some may be silent besides those that lie.
//! - A certificate about a block more than [`BELOW`] below the own accepted one is passed over: its
//!   replicas are not stuck but behind. They are sent the stable checkpoint, and may leave the
//!   epoch undecided once they accepted [`REACH`](words::REACH) blocks above its base: it decides
//!   nothing above those, and what it decides is on one chain with what a correct replica accepted.
//! - A replica that enters a later epoch before it knows the decision of its own stands by what it
//!   voted for, as that may be the decision.
//!
//! # Bounds
//! A peer has one place each for its complaint, report and vote: the last counts. A list names
//! [`MAX_CHAIN`] blocks, a certificate n replicas. An epoch begins only if a
//! correct replica complained of it, and it does so only when the one before is decided. The
//! epoch, the round, the stand and the vote are in the memory, before a report or a vote leaves. A
//! restart begins the next round, so no round has two reports or votes of a correct replica.

pub mod choice;
mod claims;
mod encoding;
mod epochs;
mod rounds;
pub mod words;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::place::Place;
use crate::base::crypto::{Signature, Statement};
use crate::base::membership::{Committee, MAX_REPLICAS};
use crate::base::per_peer::PerPeer;
use crate::base::types::{Duration, ReplicaId, Time};
use words::{
    Ballot, Certificate, Complaint, MAX_CHAIN, Odd, Proposal, Remembered, Report, SignedReport,
};

/// So many blocks below its accepted one a replica can list. A base further below is passed over.
pub const BELOW: u64 = 128;
/// After so many waits in vain a replica may leave an epoch whose reach it has outgrown.
const LEAVES_AFTER: u32 = 2;
/// Each wait is twice as long as the one before, so often.
const MAX_DOUBLINGS: u32 = 6;
/// How often a peer is helped at most.
const HELPED_EVERY: Duration = Duration::from_millis(20);

/// How patient replicas are before they fall back on a quorum, and in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fallback {
    /// So many unsuccessful polls with nothing accepted meanwhile, and a replica complains.
    pub undecided: u32,
    /// How long the first round of an odd epoch may take.
    pub round: Duration,
}

impl Default for Fallback {
    /// Honest conflicts take fewer unsuccessful polls. These follow each other more and more
    /// slowly: on a quick network a complaint comes after about two seconds.
    fn default() -> Self {
        Self { undecided: 40, round: Duration::from_millis(500) }
    }
}

/// What is being signed.
#[derive(Clone, Debug)]
enum Unsigned {
    Complaint(Complaint),
    Report(Certificate, Report),
    Vote(Ballot),
}

/// Where a replica is with epochs.
#[derive(Clone, Debug)]
pub(super) struct Frosty {
    settings: Fallback,
    /// What must not be forgotten.
    pub kept: Arc<Remembered>,
    /// Unsuccessful polls since a block was accepted, and at how many the next complaint is due.
    undecided: u32,
    due: u32,
    complaints: PerPeer<Option<(Complaint, Signature)>>,
    /// Of the epoch.
    reports: PerPeer<Option<SignedReport>>,
    votes: PerPeer<Option<(Ballot, Signature)>>,
    /// Of the round, while this replica lacks blocks to vote for it.
    proposal: Option<Proposal>,
    has_proposed: bool,
    /// Since it started, this replica has entered a round.
    has_begun: bool,
    round_ends: Time,
    /// How often a round of this epoch took too long.
    waits: u32,
    unsigned: BTreeMap<Statement, Unsigned>,
    helped: PerPeer<Option<Time>>,
    counts: Counts,
}

/// What happened since this replica started.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    /// Complaints that it said, without repetitions.
    complaints: u64,
    /// Odd epochs that it entered.
    begun: u64,
    /// Decisions of odd epochs that it learned.
    decided: u64,
}

impl Frosty {
    /// In epoch 0.
    pub fn new(replicas: usize, settings: Fallback) -> Self {
        Self {
            settings,
            kept: Arc::default(),
            undecided: 0,
            due: settings.undecided,
            complaints: PerPeer::new(replicas),
            reports: PerPeer::new(replicas),
            votes: PerPeer::new(replicas),
            proposal: None,
            has_proposed: false,
            has_begun: false,
            round_ends: Time(0),
            waits: 0,
            unsigned: BTreeMap::new(),
            helped: PerPeer::new(replicas),
            counts: Counts::default(),
        }
    }

    /// The odd epoch that this replica is in.
    pub fn odd(&self) -> Option<&Odd> {
        self.kept.odd.as_ref()
    }

    /// The block of the last decision.
    pub fn decided(&self) -> Option<Place> {
        self.kept.decided.as_ref().map(|decided| decided.ballot.place)
    }

    /// A poll was not successful.
    pub fn failed(&mut self) {
        self.undecided = self.undecided.saturating_add(1);
    }

    /// A block was accepted.
    pub fn accepted(&mut self) {
        (self.undecided, self.due) = (0, self.settings.undecided);
    }

    /// When the round is over.
    pub fn deadline(&self) -> Option<Time> {
        self.odd().map(|_| self.round_ends)
    }

    /// What tells people where this replica is. The epochs of the members are others.
    pub fn details(&self) -> [(&'static str, u64); 6] {
        let round = self.odd().map_or(0, |odd| odd.round.into());
        let Counts { complaints, begun, decided } = self.counts;
        [
            ("in_fallback", self.odd().is_some().into()),
            ("fallback_epoch", self.kept.epoch()),
            ("fallback_round", round),
            ("fallback_complaints", complaints),
            ("fallback_epochs_begun", begun),
            ("fallback_epochs_decided", decided),
        ]
    }
}

/// Who leads a round.
pub(super) fn leader(committee: &Committee, epoch: u64, round: u32) -> ReplicaId {
    let turn = (epoch / 2).wrapping_add(round.into()) % committee.size() as u64;
    ReplicaId(turn as u16)
}

/// The most bytes of what a replica keeps of epochs.
pub(super) const fn memory_bytes(replicas: usize) -> usize {
    const { assert!(MAX_REPLICAS <= u16::MAX as usize) };
    let (digest, number, count, round) = (32, 8, 4, 4);
    let place = number + digest;
    let signatures = count + replicas * (2 + 1 + Signature::MAX_BYTES);
    let chain = number + count + MAX_CHAIN * digest;
    let decided = number + round + place + signatures;
    let odd = (number + place + signatures) + round + chain + 1 + round + chain;
    (1 + decided) + number + (1 + odd)
}
