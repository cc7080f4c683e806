//! A row of results.

use std::collections::BTreeMap;

use quorate_node::config::Combination;
use serde::Serialize;

/// What ordered the blocks, by the names of `cluster.toml`.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Choices {
    /// The protocol.
    pub protocol: &'static str,
    /// To whom votes went.
    pub votes: &'static str,
    /// Whether a block that had its certificate was voted for once more.
    pub second_vote: bool,
    /// How failed views were left.
    pub pacemaker: &'static str,
    /// Who led.
    pub leader: &'static str,
    /// What was signed with.
    pub signatures: &'static str,
}

impl From<Combination> for Choices {
    fn from(combination: Combination) -> Self {
        Self {
            protocol: combination.protocol.name(),
            votes: combination.votes.name(),
            second_vote: combination.second_vote,
            pacemaker: combination.pacemaker.name(),
            leader: combination.leader.name(),
            signatures: combination.signatures.as_str(),
        }
    }
}

/// What a row was measured with.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Settings {
    /// What is measured.
    pub name: &'static str,
    /// What ordered the blocks.
    #[serde(flatten)]
    pub choices: Choices,
    /// Replicas.
    pub replicas: usize,
    /// What a vote waits for.
    pub durability: &'static str,
    /// Most commands in a block.
    pub batch: u32,
    /// Bytes of a command's value.
    pub payload: usize,
    /// Client sessions.
    pub clients: usize,
    /// Frames of a session in flight.
    pub outstanding: usize,
    /// Commands in a frame.
    pub frame: usize,
    /// To whom frames go.
    pub send_to: &'static str,
    /// Seconds measured.
    pub seconds: f64,
    /// Cores of the machine that replicas, clients and measuring share.
    pub cores: usize,
}

/// What came out. What does not belong to a row is absent.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Row {
    /// With what it was measured.
    #[serde(flatten)]
    pub settings: Settings,
    /// Right answers a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goodput: Option<f64>,
    /// Latency, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_ms: Option<f64>,
    /// Its median. Of kills: of the time from a kill to the answer to a command submitted then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_ms: Option<f64>,
    /// Its 99th percentile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_ms: Option<f64>,
    /// The longest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_ms: Option<f64>,
    /// Commands in a block that has any, on average.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commands_per_block: Option<f64>,
    /// Processor time of the load generator, in microseconds a command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generator_us: Option<f64>,
    /// Where the deciding threads' time went, in microseconds a command, mean of all replicas
    /// (each leads as often as any other).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub stage_us: BTreeMap<String, f64>,
    /// Processor time of all of a replica's threads, in microseconds a command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replica_us: Option<f64>,
    /// Share of one core that a replica takes, in percent, mean of all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processor_percent: Option<f64>,
    /// Memory of the largest replica, in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<f64>,
    /// Disk of the largest data folder, in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_mib: Option<f64>,
    /// Every kill's recovery, in milliseconds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recoveries_ms: Vec<f64>,
    /// Every restart's catching up, in milliseconds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub catch_ups_ms: Vec<f64>,
    /// What makes the figures doubtful.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}
