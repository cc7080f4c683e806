//! What a message must be before its signatures are worth checking.

use super::{HotStuff, Message};
use crate::base::crypto::{Check, Claim};
use crate::base::types::{ReplicaId, View};
use crate::protocols::hotstuff::certificate::{Qc, Tc, Vote};
use crate::protocols::protocol::Malformed;

impl HotStuff {
    pub(super) fn claim_message(
        &self,
        from: ReplicaId,
        mut message: Message,
    ) -> Result<Claim<Message>, Malformed> {
        let checks = match &message {
            Message::Proposal { block, tc } => {
                if block.epoch != self.domain.committee().epoch() {
                    return Err(Malformed::WrongEpoch);
                }
                let leads = self.leads(from, block.view, &block.justify);
                let wrong = mutant!("proposer-not-checked", false, leads == Some(false));
                if block.proposer != from || wrong {
                    return Err(Malformed::WrongSender);
                }
                if block.height <= self.tree.root().height {
                    return Err(Malformed::Stale);
                }
                self.entry_checks(block.view, &block.justify, tc.as_ref())?
            }
            Message::Vote(vote) => self.vote_checks(from, vote)?,
            Message::Certificate(qc) => {
                if self.facts().phases == 1 {
                    return Err(Malformed::WrongPhase);
                }
                if qc.rank() <= self.safety.high_qc.rank() {
                    return Err(Malformed::Stale);
                }
                self.certificate_checks(qc, None)?
            }
            Message::TimeOut { time_out, high_qc, high_tc, last_vote } => {
                let last_vote = last_vote.as_deref();
                if time_out.replica != from {
                    return Err(Malformed::WrongSender);
                }
                if time_out.high_qc_view != high_qc.view()
                    || high_qc.view() > time_out.view
                    || last_vote.is_some_and(|vote| vote.voter != from || vote.view > time_out.view)
                {
                    return Err(Malformed::Contradiction);
                }
                if last_vote.is_some_and(|vote| !(1..=self.facts().phases).contains(&vote.phase)) {
                    return Err(Malformed::WrongPhase);
                }
                let mut checks = self.certificate_checks(high_qc, None)?;
                if let Some(tc) = high_tc {
                    self.follows(high_qc, tc)?;
                    if self.is_news(tc) {
                        checks.extend(tc.checks(&self.domain, &self.genesis)?);
                    }
                }
                checks.push(time_out.check(&self.domain, high_qc)?);
                checks
            }
            Message::NewView { view, high_qc } => {
                if *view < self.pacemaker.view() {
                    return Err(Malformed::Stale);
                }
                if high_qc.view() >= *view {
                    return Err(Malformed::Contradiction);
                }
                self.certificate_checks(high_qc, None)?
            }
            Message::Advance { high_qc, high_tc, decided, .. } => {
                let mut checks = self.certificate_checks(high_qc, high_tc.as_ref())?;
                if let Some(qc) = decided {
                    checks.extend(self.decision_checks(qc)?);
                }
                checks
            }
        };
        if let Message::TimeOut { high_tc, .. } = &mut message {
            high_tc.take_if(|tc| !self.is_news(tc));
        }
        Ok(Claim::new(message, checks))
    }

    /// Whether a TC ends a view that has not ended here. Other TCs are neither checked nor taken
    /// in: each replica makes one of other signers, so that n time-outs bring n of them, with q
    /// signatures each.
    fn is_news(&self, tc: &Tc) -> bool {
        tc.view() > self.best_ended()
    }

    /// Votes are verified as a batch once there are q of them, or each by itself where that is
    /// asked for; second votes bear no signature.
    fn vote_checks(&self, from: ReplicaId, vote: &Vote) -> Result<Vec<Check>, Malformed> {
        if vote.voter != from {
            return Err(Malformed::WrongSender);
        }
        let phases = self.facts().phases + u8::from(self.settings.second_vote);
        if !(1..=phases).contains(&vote.phase) {
            return Err(Malformed::WrongPhase);
        }
        if self.is_late(vote) {
            return Err(Malformed::Stale);
        }
        if self.settings.verify_each_vote && !self.is_second(vote) {
            Ok(vec![vote.check(&self.domain)?])
        } else {
            Ok(Vec::new())
        }
    }

    /// A view is entered by a QC of the view before it, or by a TC of it.
    fn entry_checks(&self, view: View, qc: &Qc, tc: Option<&Tc>) -> Result<Vec<Check>, Malformed> {
        let of_qc = qc.checks(&self.domain, &self.genesis);
        let mut checks = mutant!("proposal-justify-unchecked", Vec::new(), of_qc?);
        let ended = self.ended_by(qc);
        match tc {
            None if ended.next() == view => {}
            Some(tc) if tc.view().next() == view && ended < tc.view() => {
                checks.extend(tc.checks(&self.domain, &self.genesis)?);
            }
            _ => return Err(Malformed::Contradiction),
        }
        Ok(checks)
    }

    /// A high QC and, if there is one, a TC of a view that the QC does not end.
    fn certificate_checks(&self, qc: &Qc, tc: Option<&Tc>) -> Result<Vec<Check>, Malformed> {
        let mut checks = qc.checks(&self.domain, &self.genesis)?;
        if let Some(tc) = tc {
            self.follows(qc, tc)?;
            checks.extend(tc.checks(&self.domain, &self.genesis)?);
        }
        Ok(checks)
    }

    /// A TC beside a QC is of a view that the QC does not end.
    fn follows(&self, qc: &Qc, tc: &Tc) -> Result<(), Malformed> {
        if tc.view() > self.ended_by(qc) { Ok(()) } else { Err(Malformed::Contradiction) }
    }

    /// A certificate that commits its block by itself.
    fn decision_checks(&self, qc: &Qc) -> Result<Vec<Check>, Malformed> {
        if self.decides(qc) {
            qc.checks(&self.domain, &self.genesis)
        } else {
            Err(Malformed::WrongPhase)
        }
    }
}
