//! What came of a combination.

use std::path::PathBuf;

use quorate_node::config::{
    AuthenticationName, Combination, LeaderName, PacemakerName, ProtocolName, VoteRoute,
};
use serde::{Deserialize, Serialize};

/// What a combination was measured with, beside itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MatrixSettings {
    /// Replicas.
    pub replicas: usize,
    /// What a vote waited for.
    pub durability: String,
    /// Commands under way, of all client sessions together.
    pub in_flight: usize,
    /// Seconds measured with all replicas; with one dead at least twice as many.
    pub seconds: f64,
    /// Cores of the machine that replicas, clients and measuring share.
    pub cores: usize,
}

/// The figures of a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// How long it was, in seconds.
    pub seconds: f64,
    /// Right answers a second.
    pub goodput: f64,
    /// Median latency, in milliseconds.
    pub p50_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// The longest time without an answer to any client, in milliseconds.
    pub gap_ms: f64,
}

/// One combination's row. What was not reached before it failed is absent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MatrixRow {
    /// The combination.
    #[serde(flatten)]
    pub combination: Combined,
    /// With what it was measured.
    #[serde(flatten)]
    pub settings: MatrixSettings,
    /// From the start of the processes until every replica had answered every client, in
    /// milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_ms: Option<f64>,
    /// With all replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all: Option<Figures>,
    /// The replica that was killed for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub killed: Option<usize>,
    /// Whether it led when it was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub killed_led: Option<bool>,
    /// From the kill to the answer to a command that was submitted right after, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery_ms: Option<f64>,
    /// With that one dead, from the kill on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_dead: Option<Figures>,
    /// What must be known to read the row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Why it failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The folder with its homes and logs, left for a row that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<PathBuf>,
}

impl MatrixRow {
    /// Of a combination of which nothing is known yet.
    #[must_use]
    pub fn new(combination: Combination, settings: MatrixSettings) -> Self {
        Self {
            combination: Combined(combination),
            settings,
            start_ms: None,
            all: None,
            killed: None,
            killed_led: None,
            recovery_ms: None,
            one_dead: None,
            note: None,
            failure: None,
            kept: None,
        }
    }
}

/// A combination, written by the names of `cluster.toml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Names", into = "Names")]
pub struct Combined(pub Combination);

#[derive(Serialize, Deserialize)]
struct Names {
    protocol: String,
    votes: String,
    second_vote: bool,
    pacemaker: String,
    leader: String,
    signatures: String,
}

impl From<Combined> for Names {
    fn from(Combined(combination): Combined) -> Self {
        Self {
            protocol: combination.protocol.to_string(),
            votes: combination.votes.to_string(),
            second_vote: combination.second_vote,
            pacemaker: combination.pacemaker.to_string(),
            leader: combination.leader.to_string(),
            signatures: combination.signatures.as_str().to_owned(),
        }
    }
}

impl TryFrom<Names> for Combined {
    type Error = String;

    fn try_from(names: Names) -> Result<Self, String> {
        let no = |key: &str, name: &str| format!("there is no {key} \"{name}\"");
        Ok(Self(Combination {
            protocol: ProtocolName::named(&names.protocol)
                .ok_or_else(|| no("protocol", &names.protocol))?,
            votes: VoteRoute::named(&names.votes).ok_or_else(|| no("votes", &names.votes))?,
            second_vote: names.second_vote,
            pacemaker: PacemakerName::named(&names.pacemaker)
                .ok_or_else(|| no("pacemaker", &names.pacemaker))?,
            leader: LeaderName::named(&names.leader).ok_or_else(|| no("leader", &names.leader))?,
            signatures: names
                .signatures
                .parse()
                .map_err(|_| no("signatures", &names.signatures))?,
            // Where parts can be chosen, this is no choice.
            authentication: AuthenticationName::Signatures,
        }))
    }
}
