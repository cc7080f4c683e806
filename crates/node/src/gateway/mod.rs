//! The Redis gateway: what Redis clients connect to.
//!
//! A connection's bytes become commands ([`resp`]); a command is answered here, or becomes a
//! [`quorate_app::kv::Command`] for the cluster to order ([`commands`]); what the cluster answers
//! becomes what a Redis client expects ([`reply`]). [`server`] does this for many connections, and
//! needs of the cluster only what [`Cluster`] says.
//!
//! The dialect is RESP2 as of Redis 7. What cannot be had (expiry, WATCH, publish and subscribe,
//! scripts) is refused by an error that says so.

mod cluster;
pub mod commands;
pub mod reply;
pub mod resp;
pub mod server;

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;

/// What the gateway needs of a client of the cluster.
pub trait Cluster: Send + Sync {
    /// Has `commands` ordered and executed, in this order, after everything submitted before: a
    /// submission takes its place when this function is called, not when the future is first
    /// polled, and it makes progress whether or not it is polled.
    ///
    /// There are at most [`MAX_SUBMITTED_COMMANDS`] commands, and together they fit one frame.
    ///
    /// The output is one encoded [`quorate_app::kv::Reply`] for each command, in order.
    fn submit(&self, commands: Vec<Bytes>) -> Submission;
}

/// The outcome of [`Cluster::submit`] to be.
pub type Submission = Pin<Box<dyn Future<Output = Result<Vec<Bytes>, ClusterError>> + Send>>;

/// Most commands in one [`Cluster::submit`].
pub const MAX_SUBMITTED_COMMANDS: usize = 1024;

/// Longest command, bytes of its encoding: what fits a frame alone.
pub const MAX_COMMAND_BYTES: usize = quorate_core::frame::MAX_BODY_BYTES - 4;

/// Why a submission has no replies. It holds for all of its commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// The commands were not taken in and will not be executed: there is no room at present.
    #[error("TRYAGAIN the cluster is busy: the command was not executed, send it again")]
    Busy,
    /// The commands were not taken in and will not be executed: too few replicas can be reached,
    /// or the gateway is stopping.
    #[error("CLUSTERDOWN the cluster cannot be reached: the command was not executed")]
    Unavailable,
    /// The commands may have been executed, some or all, or may be executed yet.
    #[error("UNKNOWN the outcome is not known: the command may or may not have been executed")]
    Unknown,
}
