//! Which variant a replica runs, and with which parts.

use super::rules::Rules;
use crate::base::crypto::Form;
use crate::base::membership::Committee;
use crate::base::types::Duration;
use crate::protocols::hotstuff::certificate::Domain;
use crate::protocols::hotstuff::leader::Election;
use crate::protocols::hotstuff::pacemaker::{Kind, Timing};

/// Which variant a replica runs, and with which parts. All but `timing`, `delta` and
/// `verify_each_vote` must be the same at all replicas.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What tells the variants apart.
    pub rules: &'static dyn Rules,
    /// Whom a replica tells that it gave up on a view.
    pub pacemaker: Kind,
    /// How leaders are chosen.
    pub election: Election,
    /// How long a view is waited for.
    pub timing: Timing,
    /// How certificates of votes are kept.
    pub vote_form: Form,
    /// How certificates of time-outs are kept.
    pub time_out_form: Form,
    /// Votes go to all, rather than to one collector.
    pub broadcast_votes: bool,
    /// A replica that sees a block's certificate says so to all, and q such words commit it at
    /// three message delays. With [`TwoChain`](super::rules::TwoChain) and votes broadcast only.
    pub second_vote: bool,
    /// Within this time a message of any correct replica arrives, where rules
    /// [wait for locks](super::rules::Facts::waits_for_locks).
    pub delta: Duration,
    /// Each vote is verified as it comes, rather than q as a batch (for the laboratory).
    pub verify_each_vote: bool,
}

impl Settings {
    /// `rules` with round-robin leaders, time-out certificates and lists of signatures.
    #[must_use]
    pub fn new(rules: &'static dyn Rules) -> Self {
        Self {
            rules,
            pacemaker: Kind::TimeoutCertificates,
            election: Election::RoundRobin,
            timing: Timing::default(),
            vote_form: Form::List,
            time_out_form: Form::List,
            broadcast_votes: false,
            second_vote: false,
            delta: Duration::from_millis(50),
            verify_each_vote: false,
        }
    }

    /// What signatures of `committee` are bound to under these settings.
    #[must_use]
    pub fn domain(&self, committee: Committee) -> Domain {
        let facts = self.rules.facts();
        let domain = Domain::new(committee, facts.number)
            .with_forms(self.vote_form, self.time_out_form)
            .with_phases(facts.phases);
        if facts.carries_all_qcs { domain.with_all_qcs() } else { domain }
    }
}
