//! Payments: transactions over outputs, a ledger that survives crashes, and wallets.
//!
//! - [`address`]: whom an output belongs to, with a checksum for people;
//! - [`transaction`]: several inputs and outputs, one encoding each, signed with Ed25519;
//! - [`mod@verify`]: signatures in batches, apart from everything that decides;
//! - [`refusal`]: every reason why a transaction is not taken, by name;
//! - [`ledger`]: what was accepted and what is unspent, on the lazy-trie store;
//! - [`genesis`]: what there is in the beginning;
//! - [`wallet`]: which outputs a payment spends;
//! - [`network`], [`setup`]: what all nodes agree on, and how a network is made;
//! - [`node`]: a node as a process; [`ask`], [`client`]: how wallets talk to it.
//!
//! A ledger has no heights: Avalanche orders no more of the payments than those that depend on each
//! other (Team Rocket et al., "Scalable and Probabilistic Leaderless BFT Consensus through
//! Metastability", 2019, section 4). Two correct ledgers hold the same set of transactions once
//! both have accepted all, each in an order of its own.
#![forbid(unsafe_code)]

pub mod address;
pub mod ask;
pub mod client;
pub mod genesis;
pub mod ledger;
pub mod network;
pub mod node;
pub mod refusal;
pub mod setup;
pub mod transaction;
pub mod verify;
pub mod wallet;

pub use address::Address;
pub use genesis::Genesis;
pub use ledger::Ledger;
pub use refusal::Refusal;
pub use transaction::{Output, OutputId, Transaction, TransactionId};
pub use verify::{Signed, verify};
