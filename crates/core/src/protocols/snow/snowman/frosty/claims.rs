//! What has to hold of messages about epochs.

use super::choice;
use super::leader;
use super::words::{
    Ballot, Certificate, Complaint, Decided, Proposal, Report, Signed, SignedReport, Word,
};
use crate::base::crypto::{Check, Kind, Share, Signature, Statement};
use crate::base::types::{Digest, Height, ReplicaId};
use crate::base::wire::Encode as _;
use crate::protocols::checkpoint::are_members_in_order;
use crate::protocols::protocol::Malformed;
use crate::protocols::snow::snowman::domain::Domain;
use crate::protocols::snow::snowman::place::Place;
use crate::protocols::snow::snowman::{MAX_DEPTH, Snowman};

const COMPLAINT: u8 = 4;
const REPORT: u8 = 5;
const BALLOT: u8 = 6;

impl Domain {
    /// What is signed of a complaint.
    #[must_use]
    pub fn complaint(&self, complaint: &Complaint) -> Statement {
        let content = Digest::of("quorate frosty complaint", &complaint.to_bytes());
        self.statement(Kind::Vote, COMPLAINT, &content)
    }

    /// What is signed of a report.
    #[must_use]
    pub fn report(&self, report: &Report) -> Statement {
        let content = Digest::of("quorate frosty report", &report.to_bytes());
        self.statement(Kind::Vote, REPORT, &content)
    }

    /// What is signed of a vote.
    #[must_use]
    pub fn ballot(&self, ballot: &Ballot) -> Statement {
        let content = Digest::of("quorate frosty vote", &ballot.to_bytes());
        self.statement(Kind::Vote, BALLOT, &content)
    }

    /// The weight of complaints that begins an epoch: f + 1.
    pub(in crate::protocols::snow::snowman) fn enough_complaints(&self) -> usize {
        planted!("frosty-complaint-of-one", 1, self.committee().witness_of_a_fifth())
    }

    /// The weight of votes that decides: a.
    pub(in crate::protocols::snow::snowman) fn enough_votes(&self) -> usize {
        let committee = self.committee();
        let needed = committee.quorum_of_a_fifth();
        planted!("frosty-decided-by-a-witness", committee.witness_of_a_fifth(), needed)
    }

    fn all(
        &self,
        signatures: &[Signed],
        needed: usize,
        statement: Statement,
    ) -> Result<Vec<Check>, Malformed> {
        self.are_enough(signatures.iter().map(|signed| signed.signer), needed)?;
        let check = |signed: &Signed| one(signed.signer, statement, signed.signature);
        Ok(signatures.iter().map(check).collect())
    }

    fn are_enough(
        &self,
        signers: impl Iterator<Item = ReplicaId> + Clone,
        needed: usize,
    ) -> Result<(), Malformed> {
        are_members_in_order(self.committee(), signers.clone())?;
        let weight: usize = signers.map(|signer| self.committee().weight(signer)).sum();
        if weight < needed { Err(Malformed::NoQuorum) } else { Ok(()) }
    }

    /// What has to hold of a certificate.
    ///
    /// # Errors
    /// [`Malformed`] if it begins no odd epoch, or fewer than f + 1 members signed it in order.
    pub fn certificate(&self, certificate: &Certificate) -> Result<Vec<Check>, Malformed> {
        is_odd(certificate.complaint.epoch)?;
        let statement = self.complaint(&certificate.complaint);
        self.all(&certificate.signatures, self.enough_complaints(), statement)
    }

    /// What has to hold of a decision.
    ///
    /// # Errors
    /// [`Malformed`] if it is of no odd epoch, or fewer than a members signed it in order.
    pub fn decided(&self, decided: &Decided) -> Result<Vec<Check>, Malformed> {
        is_odd(decided.ballot.epoch)?;
        self.all(&decided.signatures, self.enough_votes(), self.ballot(&decided.ballot))
    }

    /// What has to hold of a proposal: its leader may make it, and the reports allow it.
    ///
    /// # Errors
    /// [`Malformed`] says what does not.
    pub fn proposal(&self, from: ReplicaId, it: &Proposal) -> Result<Vec<Check>, Malformed> {
        let Proposal { ballot: Ballot { epoch, round, place }, base, chain, reports } = it;
        if leader(self.committee(), *epoch, *round) != from {
            return Err(Malformed::WrongSender);
        }
        let signers = reports.iter().map(|signed| signed.from);
        self.are_enough(signers, self.committee().quorum_of_a_fifth())?;
        let fits = |Report { epoch: of, round: in_round, base: on, .. }: &Report| {
            (of, in_round, on) == (epoch, round, base)
        };
        let block = *chain.last().unwrap_or(&base.block);
        let tip = Place { height: base.height.plus(chain.len() as u64), block };
        let is_consistent = tip == *place && reports.iter().all(|signed| fits(&signed.report));
        let is_allowed = choice::is_allowed(self.committee(), it);
        if !is_consistent || !planted!("frosty-proposal-unjustified", true, is_allowed) {
            return Err(Malformed::Contradiction);
        }
        Ok(reports.iter().map(|signed| self.reported(signed)).collect())
    }

    fn reported(&self, SignedReport { from, report, signature }: &SignedReport) -> Check {
        one(*from, self.report(report), *signature)
    }
}

fn one(signer: ReplicaId, statement: Statement, signature: Signature) -> Check {
    Check::Replica(Share { signer, statement, signature })
}

fn is_odd(epoch: u64) -> Result<(), Malformed> {
    if epoch.is_multiple_of(2) { Err(Malformed::WrongPhase) } else { Ok(()) }
}

impl Snowman {
    /// What has to hold of a message about epochs. Without the fallback there are none.
    pub(in crate::protocols::snow::snowman) fn word_checks(
        &self,
        from: ReplicaId,
        word: &Word,
    ) -> Result<Vec<Check>, Malformed> {
        let Some(frosty) = &self.frosty else { return Err(Malformed::WrongPhase) };
        let kept = &frosty.kept;
        let decided = kept.decided.as_ref().map_or(0, |decided| decided.ballot.epoch);
        let odd = kept.odd.as_ref();
        match word {
            Word::Complaint { complaint, signature } => {
                is_odd(complaint.epoch)?;
                Ok(vec![one(from, self.domain.complaint(complaint), *signature)])
            }
            Word::Report { certificate, signed } => {
                let SignedReport { from: signer, report, .. } = signed;
                let Complaint { epoch, base } = certificate.complaint;
                if *signer != from {
                    return Err(Malformed::WrongSender);
                }
                if (report.epoch, report.base) != (epoch, base) || report.round == 0 {
                    return Err(Malformed::Contradiction);
                }
                let is_known =
                    odd.is_some_and(|odd| odd.certificate.complaint == certificate.complaint);
                let mut checks = match is_known || epoch < kept.epoch() {
                    // It is not looked at: where the epoch is over, the sender is told so.
                    true => is_odd(epoch).map(|()| Vec::new())?,
                    false => self.domain.certificate(certificate)?,
                };
                self.is_in_reach(base.height)?;
                checks.push(self.domain.reported(signed));
                Ok(checks)
            }
            Word::Proposal(proposal) => {
                let odd = odd.filter(|odd| odd.epoch() == proposal.ballot.epoch);
                let round = odd.ok_or(Malformed::WrongEpoch)?.round;
                if proposal.ballot.round < round {
                    return Err(Malformed::Stale);
                }
                self.domain.proposal(from, proposal)
            }
            Word::Vote { ballot, signature } => {
                let is_another = odd.is_none_or(|odd| odd.epoch() != ballot.epoch);
                if planted!("frosty-votes-of-any-epoch", false, is_another) {
                    return Err(Malformed::WrongEpoch);
                }
                Ok(vec![one(from, self.domain.ballot(ballot), *signature)])
            }
            Word::Decided(it) if it.ballot.epoch <= decided => Err(Malformed::Stale),
            Word::Decided(it) => self.domain.decided(it),
        }
    }

    /// A replica that is far behind a base has no part in its epoch: it catches up first.
    fn is_in_reach(&self, height: Height) -> Result<(), Malformed> {
        let highest = self.accepted.head().height().plus(MAX_DEPTH);
        if height > highest { Err(Malformed::Stale) } else { Ok(()) }
    }
}
