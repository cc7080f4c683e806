//! Clusters on this machine, a process each replica: what demonstrations and measurements run on.

mod cluster;
mod fresh;
mod process;
mod usage;

pub use cluster::{LocalCluster, LocalError, Options};
pub use fresh::{Fresh, ReplicaEnded};
pub use process::{Echo, Process, ProcessError, Start};
pub use usage::{Usage, folder_bytes};
