//! Which combinations are asked for.

use std::str::FromStr;

use quorate_node::config::{
    Combination, LeaderName, PacemakerName, ProtocolName, SchemeName, VoteRoute,
};

/// What a choice may be, by its key. Several values of a key are alternatives; of different keys
/// each must be met. `protocol=hotstuff-2,leader=fixed,leader=carousel`: HotStuff-2 with either
/// leader. Empty: every combination.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Only {
    protocol: Vec<ProtocolName>,
    votes: Vec<VoteRoute>,
    second_vote: Vec<bool>,
    pacemaker: Vec<PacemakerName>,
    leader: Vec<LeaderName>,
    signatures: Vec<SchemeName>,
}

/// The keys, as `cluster.toml` spells them.
const KEYS: &str = "protocol, votes, second_vote, pacemaker, leader, signatures";

/// Text that is no [`Only`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OnlyError {
    /// A part is not a key and a value.
    #[error("\"{0}\" is not KEY=VALUE; the keys are {KEYS}")]
    Form(String),
    /// There is no such key.
    #[error("there is no key \"{0}\"; the keys are {KEYS}")]
    Key(String),
    /// There is no such value.
    #[error("{key} is never \"{value}\", but {values}")]
    Value {
        /// The key.
        key: &'static str,
        /// What is not one of its values.
        value: String,
        /// Its values.
        values: String,
    },
}

impl Only {
    /// Whether this combination is asked for.
    #[must_use]
    pub fn allows(&self, combination: &Combination) -> bool {
        meets(&self.protocol, combination.protocol)
            && meets(&self.votes, combination.votes)
            && meets(&self.second_vote, combination.second_vote)
            && meets(&self.pacemaker, combination.pacemaker)
            && meets(&self.leader, combination.leader)
            && meets(&self.signatures, combination.signatures)
    }

    /// Every combination that works and is asked for, in the order of [`Combination::all`].
    #[must_use]
    pub fn combinations(&self) -> Vec<Combination> {
        let works = |combination: &Combination| combination.refusal().is_none();
        Combination::all().filter(|one| works(one) && self.allows(one)).collect()
    }
}

fn meets<T: PartialEq>(wanted: &[T], is: T) -> bool {
    wanted.is_empty() || wanted.contains(&is)
}

impl FromStr for Only {
    type Err = OnlyError;

    fn from_str(text: &str) -> Result<Self, OnlyError> {
        let mut only = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let form = || OnlyError::Form(part.to_owned());
            let (key, value) = part.split_once('=').ok_or_else(form)?;
            let value = value.trim();
            match key.trim() {
                "protocol" => only.protocol.push(
                    ProtocolName::named(value)
                        .ok_or_else(|| no_such("protocol", value, ProtocolName::NAMES))?,
                ),
                "votes" => only.votes.push(
                    VoteRoute::named(value)
                        .ok_or_else(|| no_such("votes", value, VoteRoute::NAMES))?,
                ),
                "second_vote" => only.second_vote.push(
                    value.parse().map_err(|_| no_such("second_vote", value, &["true", "false"]))?,
                ),
                "pacemaker" => only.pacemaker.push(
                    PacemakerName::named(value)
                        .ok_or_else(|| no_such("pacemaker", value, PacemakerName::NAMES))?,
                ),
                "leader" => only.leader.push(
                    LeaderName::named(value)
                        .ok_or_else(|| no_such("leader", value, LeaderName::NAMES))?,
                ),
                "signatures" => only.signatures.push(value.parse().map_err(|_| {
                    no_such("signatures", value, &SchemeName::ALL.map(SchemeName::as_str))
                })?),
                key => return Err(OnlyError::Key(key.to_owned())),
            }
        }
        Ok(only)
    }
}

fn no_such(key: &'static str, value: &str, values: &[&str]) -> OnlyError {
    OnlyError::Value { key, value: value.to_owned(), values: values.join(", ") }
}
