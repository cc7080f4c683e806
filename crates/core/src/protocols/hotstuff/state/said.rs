//! What this replica says under its name: votes and time-outs.

use crate::base::types::View;
use crate::protocols::hotstuff::certificate::{Qc, TimeOut, Vote};
use crate::protocols::protocol::Ballot;

/// The words of this replica that are being signed, and the last ones that were, to be said again.
///
/// A word is on record (in the safety record) before it is here, and the record is on disk before
/// the word leaves.
#[derive(Clone, Debug, Default)]
pub struct Said {
    /// The safety record must be written before this step's outputs leave.
    must_write: bool,
    /// Ballots whose votes are being signed.
    votes_to_sign: Vec<Ballot>,
    /// The last vote that can be part of a certificate.
    vote: Option<Vote>,
    /// The time-out being signed, with the high QC that goes with it.
    time_out_to_sign: Option<(View, Qc)>,
    /// The last time-out, and the QC that goes with it.
    time_out: Option<(TimeOut, Qc)>,
}

impl Said {
    /// The safety record must be written before this step's outputs leave.
    pub fn write_first(&mut self) {
        self.must_write = true;
    }

    /// Whether the safety record must be written, once a step.
    pub fn take_must_write(&mut self) -> bool {
        std::mem::take(&mut self.must_write)
    }

    /// The vote for a ballot is being signed.
    pub fn sign_vote(&mut self, ballot: Ballot) {
        self.votes_to_sign.push(ballot);
    }

    /// The ballot whose vote was signed, of those that are being signed.
    pub fn signed_vote(&mut self, is_signed: impl Fn(&Ballot) -> bool) -> Option<Ballot> {
        let at = self.votes_to_sign.iter().position(is_signed)?;
        Some(self.votes_to_sign.remove(at))
    }

    /// The last vote, signed.
    pub fn vote(&self) -> Option<Vote> {
        self.vote
    }

    /// Keeps the last vote.
    pub fn keep_vote(&mut self, vote: Vote) {
        self.vote = Some(vote);
    }

    /// The time-out of a view is being signed, with a high QC.
    pub fn sign_time_out(&mut self, view: View, high_qc: Qc) {
        self.time_out_to_sign = Some((view, high_qc));
    }

    /// The view and high QC of the time-out that was signed, if it is the one being signed.
    pub fn signed_time_out(&mut self, is_signed: impl Fn(View, &Qc) -> bool) -> Option<(View, Qc)> {
        self.time_out_to_sign.take_if(|(view, high_qc)| is_signed(*view, high_qc))
    }

    /// The last time-out, signed, and the QC that goes with it.
    pub fn time_out(&self) -> Option<&(TimeOut, Qc)> {
        self.time_out.as_ref()
    }

    /// Keeps the last time-out.
    pub fn keep_time_out(&mut self, time_out: TimeOut, high_qc: Qc) {
        self.time_out = Some((time_out, high_qc));
    }
}
