//! What came of the payments.

use super::ledger::Violation;

/// What came of them. Latencies are of honest payments, from their submission on, in ascending
/// order.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Payments submitted, without rivals.
    pub submitted: u64,
    /// Those without a rival, and how many of them all correct nodes accepted.
    pub honest: u64,
    /// How many of these all correct nodes accepted.
    pub honest_by_all: u64,
    /// Outputs that were spent twice, and how many of them ended everywhere with one spend
    /// accepted.
    pub contested: u64,
    /// How many of these ended.
    pub contested_accepted: u64,
    /// Payments a second that all correct nodes had accepted while the load lasted.
    pub rate: f64,
    /// Until the first correct node accepted one.
    pub first_ns: Vec<u64>,
    /// Until the last one did, of those that all accepted.
    pub last_ns: Vec<u64>,
    /// Of the payment that the liveness attack aims at, until all accepted it: none if they did
    /// not. None at all without the attack.
    pub attacked_ns: Option<Option<u64>>,
    /// Two spends of one output accepted.
    pub violation: Option<Violation>,
    /// Transactions rejected, over all nodes.
    pub rejections: u64,
    /// Transactions that their node did not take.
    pub not_taken: u64,
    /// No-ops issued.
    pub no_ops: u64,
    /// Polls won and lost, over all nodes.
    pub polls: (u64, u64),
    /// Messages delivered.
    pub messages: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Time that processors were busy, over all nodes.
    pub busy_ns: u64,
    /// Simulated time.
    pub simulated_ns: u64,
}
