//! What a message must be before its signatures are worth checking.

use super::Chained;
use crate::certificate::{Malformed, Qc, Tc};
use crate::crypto::{Check, Claim};
use crate::hotstuff::message::Message;
use crate::hotstuff::rules::Rules;
use crate::types::ReplicaId;

impl<R: Rules> Chained<R> {
    pub(super) fn claim_message(
        &self,
        from: ReplicaId,
        message: Message,
    ) -> Result<Claim<Message>, Malformed> {
        let checks = match &message {
            Message::Proposal { block, tc } => {
                if block.epoch != self.domain.committee().epoch() {
                    return Err(Malformed::WrongEpoch);
                }
                if block.proposer != from || from != self.leader(block.view) {
                    return Err(Malformed::WrongSender);
                }
                if block.height <= self.tree.root().height {
                    return Err(Malformed::Stale);
                }
                self.entry_checks(block.view.0, &block.justify, tc.as_ref())?
            }
            // Votes are verified as a batch once there are q of them.
            Message::Vote(vote) => {
                if vote.voter != from {
                    return Err(Malformed::WrongSender);
                }
                if vote.view <= self.safety.high_qc.view() {
                    return Err(Malformed::Stale);
                }
                Vec::new()
            }
            Message::TimeOut { time_out, high_qc, high_tc, last_vote } => {
                if time_out.replica != from {
                    return Err(Malformed::WrongSender);
                }
                if time_out.high_qc_view != high_qc.view()
                    || high_qc.view() > time_out.view
                    || last_vote.is_some_and(|vote| vote.voter != from || vote.view > time_out.view)
                {
                    return Err(Malformed::Contradiction);
                }
                let mut checks = self.certificate_checks(high_qc, high_tc.as_ref())?;
                checks.push(time_out.check(&self.domain)?);
                checks
            }
            Message::Advance { high_qc, high_tc } => {
                self.certificate_checks(high_qc, high_tc.as_ref())?
            }
        };
        Ok(Claim::new(message, checks))
    }

    /// A view is entered by a QC of the view before it, or by a TC of it.
    fn entry_checks(&self, view: u64, qc: &Qc, tc: Option<&Tc>) -> Result<Vec<Check>, Malformed> {
        let mut checks = qc.checks(&self.domain, &self.genesis)?;
        match tc {
            None if qc.view().next().0 == view => {}
            Some(tc) if tc.view().next().0 == view && qc.view() < tc.view() => {
                checks.extend(tc.checks(&self.domain, &self.genesis)?);
            }
            _ => return Err(Malformed::Contradiction),
        }
        Ok(checks)
    }

    /// A high QC and, if there is one, a TC of a later view.
    fn certificate_checks(&self, qc: &Qc, tc: Option<&Tc>) -> Result<Vec<Check>, Malformed> {
        let mut checks = qc.checks(&self.domain, &self.genesis)?;
        if let Some(tc) = tc {
            if tc.view() <= qc.view() {
                return Err(Malformed::Contradiction);
            }
            checks.extend(tc.checks(&self.domain, &self.genesis)?);
        }
        Ok(checks)
    }
}
