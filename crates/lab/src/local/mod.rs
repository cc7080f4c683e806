//! Clusters on this machine, a process each replica: what demonstrations and measurements run on.

mod cluster;
mod process;
mod usage;

pub use cluster::{LocalCluster, LocalError, Options};
pub use process::{Echo, Process, ProcessError, Start};
pub use usage::{Usage, folder_bytes};
