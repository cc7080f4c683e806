//! The Redis gateway: what Redis clients connect to.
//!
//! A connection's bytes become commands ([`resp`]); a command is answered here, or becomes a
//! [`quorate_app::kv::Command`] for the cluster to order ([`commands`]); what the cluster answers
//! becomes what a Redis client expects ([`reply`]). [`server`] does this for many connections, and
//! needs of the cluster only what [`Cluster`] says.
//!
//! The dialect is RESP2 as of Redis 7. What cannot be had (expiry, WATCH, publish and subscribe,
//! scripts) is refused by an error that says so.

#![forbid(unsafe_code)]

pub mod acl;
mod cluster;
pub mod commands;
pub mod reply;
pub mod resp;
pub mod server;

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;

pub use cluster::{Reads, SharedSession};

/// What the gateway needs of a client of the cluster.
pub trait Cluster: Send + Sync {
    /// Has `commands` ordered and executed, in this order, after everything submitted before: a
    /// submission takes its place when this function is called, not when the future is first
    /// polled, and it makes progress whether or not it is polled.
    ///
    /// There are at most as many commands as [`Cluster::frame_limits`] allows, and together they
    /// fit one frame.
    ///
    /// The output is one encoded [`quorate_app::kv::Reply`] for each command, in order.
    fn submit(&self, commands: Vec<Bytes>) -> Submission;

    /// Whether [`Cluster::read`] does not order what it is given.
    fn reads_by_index(&self) -> bool {
        false
    }

    /// Has `commands`, which are all read-only, answered as [`Cluster::submit`] does. The answers
    /// hold everything that was answered to anybody before this call, and may hold what is
    /// submitted after it.
    fn read(&self, commands: Vec<Bytes>) -> Submission {
        self.submit(commands)
    }

    /// What one submission may hold.
    fn frame_limits(&self) -> FrameLimits {
        FrameLimits::default()
    }
}

/// What one submission may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLimits {
    /// Most commands.
    pub commands: usize,
    /// Most bytes of their encodings, with [`LENGTH_BYTES`] for each.
    pub bytes: usize,
}

/// Bytes of a frame that a command takes up beside its encoding.
pub const LENGTH_BYTES: usize = 4;

impl FrameLimits {
    /// What fits both the gateway and a cluster that takes in frames of so many commands and bytes.
    #[must_use]
    pub fn of_cluster(commands: usize, bytes: usize) -> Self {
        let most = Self::default();
        Self { commands: commands.min(most.commands), bytes: bytes.min(most.bytes) }
    }

    /// Longest command, bytes of its encoding: what fits a frame alone.
    #[must_use]
    pub const fn command_bytes(&self) -> usize {
        self.bytes.saturating_sub(LENGTH_BYTES)
    }
}

impl Default for FrameLimits {
    fn default() -> Self {
        Self {
            commands: MAX_SUBMITTED_COMMANDS,
            bytes: quorate_core::ledger::frame::MAX_BODY_BYTES,
        }
    }
}

/// The outcome of [`Cluster::submit`] to be.
pub type Submission = Pin<Box<dyn Future<Output = Result<Vec<Bytes>, ClusterError>> + Send>>;

/// Most commands in one [`Cluster::submit`], of whatever cluster.
pub const MAX_SUBMITTED_COMMANDS: usize = 1024;

/// Why a submission has no replies. It holds for all of its commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// The commands were not taken in and will not be executed: there is no room at present.
    #[error("TRYAGAIN the cluster is busy: the command was not executed, send it again")]
    Busy,
    /// The commands are more than one frame of this cluster holds. They will not be executed.
    #[error("ERR the commands do not fit one frame of this cluster: they were not executed")]
    DoesNotFit,
    /// The commands were not sent in the time given, or the gateway is stopping. They will not be
    /// executed.
    #[error("CLUSTERDOWN too few replicas answer: the command was not executed")]
    Unavailable,
    /// The cluster refuses whatever this gateway sends. The commands will not be executed.
    #[error("CLUSTERDOWN the cluster turns this gateway down: the command was not executed")]
    TurnedDown,
    /// The commands may have been executed, some or all, or may be executed yet.
    #[error("UNKNOWN the outcome is not known: the command may or may not have been executed")]
    Unknown,
}
