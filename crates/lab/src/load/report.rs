//! What a load found out.

use serde::Serialize;

/// The figures of one load. Latencies are those of single commands, in milliseconds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LoadReport {
    /// What the caller says is measured.
    pub protocol: String,
    /// How many replicas there are.
    pub n: usize,
    /// Most commands in a frame.
    pub batch: usize,
    /// Bytes of payload in a command.
    pub payload: usize,
    /// Client sessions.
    pub clients: usize,
    /// Most frames of one session in flight.
    pub outstanding: usize,
    /// Commands a second that were to be submitted; `None` in a closed loop.
    pub rate: Option<f64>,
    /// Seconds measured, warm-up excluded.
    pub seconds: f64,
    /// Commands answered rightly while measured.
    pub commands: u64,
    /// Right answers a second.
    pub goodput: f64,
    /// Mean latency.
    pub mean_ms: f64,
    /// Standard deviation of the latency.
    pub deviation_ms: f64,
    /// Median latency.
    pub p50_ms: f64,
    /// 90th percentile.
    pub p90_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// 99.9th percentile.
    pub p999_ms: f64,
    /// The longest.
    pub max_ms: f64,
    /// Commands with a reply that is not the expected one. Anything but 0 is a bug of the cluster.
    pub wrong: u64,
    /// Commands that failed.
    pub failed: u64,
    /// Commands without an answer when the load ended. An open loop counts them in the latencies
    /// with the time they had waited by then, which is less than the truth.
    pub unanswered: u64,
    /// Processor time of the thread that does all the sessions' work, in microseconds a command;
    /// `None` where the system does not tell.
    pub generator_us: Option<f64>,
    /// Average commands in a block, if the caller knows.
    pub commands_per_block: Option<f64>,
    /// Second by second.
    pub series: Vec<Second>,
    /// What makes the figures doubtful.
    pub warnings: Vec<String>,
}

/// The figures of one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Second {
    /// When it began, in seconds since measuring began.
    pub at: u64,
    /// How long it was: 1, but for the last one, which may be cut short.
    pub seconds: f64,
    /// Commands answered in it.
    pub commands: u64,
    /// Median latency of those.
    pub p50_ms: f64,
    /// 99th percentile of their latency.
    pub p99_ms: f64,
}

/// Below this share of a full batch blocks count as not filled.
const FILLED: f64 = 0.9;

impl LoadReport {
    /// Notes how many commands a block had on average, as a replica's status says, where blocks
    /// may have up to `block_commands`.
    pub fn note_blocks(&mut self, commands_per_block: f64, block_commands: usize) {
        self.commands_per_block = Some(commands_per_block);
        if commands_per_block < FILLED * block_commands as f64 {
            self.warnings.push(format!(
                "the load is too small to fill blocks: {commands_per_block:.0} of \
                 {block_commands} commands on average"
            ));
        }
    }
}
