//! Configuration: what all replicas agreed on, and what one process decides for itself.
//!
//! A *home* is a folder with `config/cluster.toml` (equal at every replica; its digest is the
//! chain's identity, see [`Cluster::chain_digest`]), `config/node.toml` (this process's own), the
//! key files and `data/`. A value of `node.toml` is taken from the first of: a flag
//! (`--set key=value`), the environment (`QUORATE_` and the key in capitals, dots as
//! underscores), the file, the default. What all replicas agreed on can only come from the file.
//!
//! The keys, their limits, defaults and explanations stand in one table a file
//! ([`schema::Schema`]): it writes the generated files, finds unknown keys, checks values and
//! says what would be right. Everything wrong is reported at once, each as a [`Finding`] with its
//! place and its remedy; [`load`] returns values that hold, or none.

mod choice;
mod cluster;
pub mod combination;
mod contact;
mod document;
mod finding;
pub mod genesis;
mod home;
#[cfg(test)]
mod limits;
mod load;
mod node;
mod quantity;
pub mod schema;
mod service;

pub use choice::{
    Application, AuthenticationName, Cores, DisseminationName, Durability, LeaderName,
    LivenessName, LogFormat, LogLevel, PacemakerName, ProtocolName, SamplingName, SentAncestors,
    StateStore, TimeoutKind, VoteRoute, VoteVerification,
};
pub use cluster::{
    BatchLimits, Cluster, ClusterLimits, GROUP_KEY_BYTES, Member, MemberFile, PROOF_BYTES, Restored,
};
pub use combination::{Choices, Combination};
pub use contact::{Contact, peers};
pub use finding::{ConfigError, Finding, Place};
pub use home::Home;
pub use load::{
    Effective, FlagSetting, Keys, Loaded, Overrides, load, load_cluster, load_cluster_alone,
    parse_cluster, public_half,
};
pub use node::{
    Clients, Http, KeyFiles, Laboratory, Listen, Log, Node, Processor, Storage, Tracing,
    ViewTimeout, node_file_text,
};
pub use quantity::{ByteSize, Endpoint, HostPort, HumanDuration, InvalidQuantity};
pub use quorate_crypto::SchemeName;
pub use schema::is_name;
pub use service::canonical_table;
