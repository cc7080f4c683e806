//! What is signed, and what has to hold of certificates.

use super::certificate::{Commit, GaveUp, Phase, Qc, Signed, Tc};
use super::choice::Counts;
use super::words::Content;
use crate::base::crypto::{Check, Kind, Share, Signature, Statement};
use crate::base::membership::Committee;
use crate::base::types::{Digest, ReplicaId, View};
use crate::base::wire::Encode as _;
use crate::ledger::block::BlockId;
use crate::protocols::checkpoint::are_members_in_order;
use crate::protocols::protocol::Malformed;

/// Tells this protocol's signatures from those of others.
const NUMBER: u8 = 254;

/// The committee, and what its signatures are bound to.
#[derive(Clone, Debug)]
pub struct Domain {
    committee: Committee,
    counts: Counts,
}

impl Domain {
    /// Of a committee whose members weigh the same, or nothing.
    #[must_use]
    pub fn new(committee: Committee) -> Self {
        let right = Counts::of(committee.voter_count());
        let counts = Counts {
            fast: mutant!("two-delay-fast-at-quorum", committee.quorum(), right.fast),
            against: mutant!("two-delay-too-few-against", right.against - 1, right.against),
            against_beside_liar: mutant!(
                "two-delay-too-few-beside-liar",
                right.against_beside_liar - 1,
                right.against_beside_liar,
            ),
            ..right
        };
        Self { committee, counts }
    }

    /// Who takes part.
    #[must_use]
    pub fn committee(&self) -> &Committee {
        &self.committee
    }

    /// How many replicas count for what.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The leader of a view: the replicas in turn.
    #[must_use]
    pub fn leader(&self, view: View) -> ReplicaId {
        self.committee.turn(view.0.saturating_sub(1))
    }

    fn statement(&self, kind: Kind, view: View, phase: u8, content: &Digest) -> Statement {
        let (chain, epoch) = (self.committee.chain(), self.committee.epoch());
        Statement::new(&chain, epoch, NUMBER, kind, view, phase, content)
    }

    /// What a vote signs; `None` is blank.
    #[must_use]
    pub fn vote(&self, phase: Phase, view: View, block: Option<&BlockId>) -> Statement {
        let blank = Digest::of("quorate blank vote", &[]);
        self.statement(Kind::Vote, view, phase as u8, block.unwrap_or(&blank))
    }

    /// What a time-out signs, of a replica whose highest QC is of view `high`.
    #[must_use]
    pub fn time_out(&self, view: View, high: View) -> Statement {
        let content = Digest::of("quorate time-out", &high.to_bytes());
        self.statement(Kind::TimeOut, view, 0, &content)
    }

    /// What a testimony signs.
    #[must_use]
    pub fn testimony(&self, content: &Digest) -> Statement {
        self.statement(Kind::Testimony, View(0), 0, content)
    }

    /// That a replica whose word counts signed this.
    ///
    /// # Errors
    /// [`Malformed::WrongSender`] if its word does not count.
    pub fn signed(
        &self,
        signer: ReplicaId,
        statement: Statement,
        signature: Signature,
    ) -> Result<Check, Malformed> {
        if self.committee.weight(signer) == 0 {
            return Err(Malformed::WrongSender);
        }
        Ok(Check::Replica(Share { signer, statement, signature }))
    }

    fn votes(
        &self,
        phase: Phase,
        (view, block): (View, &BlockId),
        votes: &[Signed],
    ) -> Result<Vec<Check>, Malformed> {
        are_members_in_order(&self.committee, votes.iter().map(|(signer, _)| *signer))?;
        let statement = self.vote(phase, view, Some(block));
        votes.iter().map(|(signer, vote)| self.signed(*signer, statement, *vote)).collect()
    }

    /// What has to hold of a QC. The one of view 0 is for the genesis block alone.
    ///
    /// # Errors
    /// [`Malformed`] if it can be none.
    pub fn qc(&self, qc: &Qc) -> Result<Vec<Check>, Malformed> {
        if qc.view == View(0) {
            return match *qc == self.genesis_qc() {
                true => Ok(Vec::new()),
                false => Err(Malformed::NotGenesis),
            };
        }
        let of = (qc.view, &qc.block);
        let mut checks = self.votes(Phase::First, of, &qc.firsts)?;
        let is_first = |signer: &ReplicaId| qc.firsts.iter().any(|(first, _)| first == signer);
        if qc.fallbacks.iter().any(|(signer, _)| is_first(signer)) {
            return Err(Malformed::UnorderedSigners);
        }
        checks.extend(self.votes(Phase::Fallback, of, &qc.fallbacks)?);
        if checks.len() < self.qc_votes() {
            return Err(Malformed::NoQuorum);
        }
        Ok(checks)
    }

    /// The QC of the genesis block.
    pub(super) fn genesis_qc(&self) -> Qc {
        Qc::genesis(Content::genesis(&self.committee).id())
    }

    /// How many votes make a QC.
    pub(super) fn qc_votes(&self) -> usize {
        let quorum = self.committee.quorum();
        mutant!("two-delay-certified-at-q-minus-1", (quorum - 1).max(1), quorum)
    }

    /// What has to hold of a commit.
    ///
    /// # Errors
    /// [`Malformed`] if it can be none.
    pub fn commit(&self, commit: &Commit) -> Result<Vec<Check>, Malformed> {
        let needed = match commit.phase {
            Phase::First => self.counts.fast,
            Phase::Second => self.committee.quorum(),
            Phase::Fallback => return Err(Malformed::WrongPhase),
        };
        let checks = self.votes(commit.phase, (commit.view, &commit.block), &commit.votes)?;
        if checks.len() < needed {
            return Err(Malformed::NoQuorum);
        }
        Ok(checks)
    }

    /// What has to hold of a TC that comes with this QC.
    ///
    /// # Errors
    /// [`Malformed`] if it can be none, or names a later QC.
    pub fn tc(&self, tc: &Tc, qc: &Qc) -> Result<Vec<Check>, Malformed> {
        if tc.high() > qc.view || tc.entries.iter().any(|entry| entry.high >= tc.view) {
            return Err(Malformed::Contradiction);
        }
        are_members_in_order(&self.committee, tc.entries.iter().map(|entry| entry.replica))?;
        if tc.entries.len() < self.committee.quorum() {
            return Err(Malformed::NoQuorum);
        }
        let check = |entry: &GaveUp| {
            let statement = self.time_out(tc.view, entry.high);
            self.signed(entry.replica, statement, entry.signature)
        };
        tc.entries.iter().map(check).collect()
    }
}
