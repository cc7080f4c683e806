//! What runs in a scenario: a protocol and its parts.

use quorate_core::Duration;
use quorate_core::protocols::hotstuff::Settings;
use quorate_core::protocols::hotstuff::leader::{Election, Schedule};
use quorate_core::protocols::hotstuff::pacemaker::{Kind, Timing};
use quorate_core::protocols::hotstuff::rules::{self, Rules, TwoChain};

use crate::mutant::Mutation;
use crate::planted;

/// How long a message is on its way, in nanoseconds.
pub(super) const DELAY_NS: u64 = 1_000_000;
/// How long a view is waited for: longer than any takes, also where the wait is a fifth of it.
const WAIT: Duration = Duration::from_millis(100);
/// How much longer at most.
const MAX_WAIT: Duration = Duration::from_secs(2);
/// Within this time, replicas believe, a message arrives.
const DELTA: Duration = Duration::from_millis(5);

/// A protocol and its parts.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// What it is called.
    pub name: &'static str,
    /// Its rules.
    pub rules: &'static dyn Rules,
    /// Whom a replica tells that it gave up on a view.
    pub pacemaker: Kind,
    /// Votes go to all.
    pub broadcast_votes: bool,
    /// Votes go to all, and a second one is cast.
    pub second_vote: bool,
    /// The bug in the driver of a replica, if it has one.
    pub mutation: fn(usize) -> Option<Box<dyn Mutation>>,
}

impl Variant {
    /// Rules with time-out certificates and votes to the next leader.
    #[must_use]
    pub fn new(rules: &'static dyn Rules) -> Self {
        Self {
            name: rules.facts().name,
            rules,
            pacemaker: Kind::TimeoutCertificates,
            broadcast_votes: false,
            second_vote: false,
            mutation: |_| None,
        }
    }

    /// Every variant: all rules with time-out certificates, the two-chain rule with its options,
    /// and all rules with the linear pacemaker.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let mut all: Vec<Self> = rules::ALL.map(Self::new).into();
        let two_chain = Self::new(&TwoChain);
        let name = "hotstuff-two-chain+broadcast";
        all.push(Self { name, broadcast_votes: true, ..two_chain });
        let name = "hotstuff-two-chain+second-vote";
        all.push(Self { name, broadcast_votes: true, second_vote: true, ..two_chain });
        all.extend(rules::ALL.into_iter().map(|rules| Self {
            name: linear_name(rules.facts().name),
            pacemaker: Kind::Linear,
            ..Self::new(rules)
        }));
        all
    }

    /// The variants of this name: one, or with `all` the six protocols as they are by default, or
    /// with `every` all there are.
    #[must_use]
    pub fn named(name: &str) -> Vec<Self> {
        let mut all = Self::all();
        match name {
            "every" => {}
            "all" => all.truncate(rules::ALL.len()),
            _ => all.retain(|variant| variant.name == name),
        }
        all
    }

    pub(super) fn settings(&self, schedule: Schedule) -> Settings {
        Settings {
            pacemaker: self.pacemaker,
            election: Election::Scheduled(schedule),
            timing: Timing::Exponential { base: WAIT, multiplier_percent: 200, max: MAX_WAIT },
            broadcast_votes: self.broadcast_votes || self.second_vote,
            second_vote: self.second_vote,
            delta: DELTA,
            ..Settings::new(planted::rules(self.rules))
        }
    }
}

/// What a protocol with the linear pacemaker is called.
fn linear_name(protocol: &'static str) -> &'static str {
    match protocol {
        "hotstuff-basic" => "hotstuff-basic+linear",
        "hotstuff-chained" => "hotstuff-chained+linear",
        "hotstuff-simplified" => "hotstuff-simplified+linear",
        "hotstuff-fast" => "hotstuff-fast+linear",
        "hotstuff-two-chain" => "hotstuff-two-chain+linear",
        "hotstuff-2" => "hotstuff-2+linear",
        // One that is added is tested from the first day, if under a plain name.
        _ => "linear",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_protocol_is_there_with_both_pacemakers_under_names_of_its_own() {
        let all = Variant::all();
        for rules in rules::ALL {
            let protocol = rules.facts().name;
            let named = |name: &str| all.iter().filter(|variant| variant.name == name).count();
            assert_eq!(named(protocol), 1, "{protocol}");
            assert_eq!(named(&format!("{protocol}+linear")), 1, "name {protocol} in linear_name");
        }
        assert_eq!(all.len(), 2 * rules::ALL.len() + 2);
    }
}
