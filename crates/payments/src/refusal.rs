//! Why a transaction is not taken: each reason by its name.

use quorate_core::base::wire::DecodeError;

use crate::transaction::{OutputId, TransactionId};

/// Why a transaction is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It cannot be read.
    #[error("malformed: {0}")]
    Encoding(#[from] DecodeError),
    /// Its shape is wrong.
    #[error("malformed: {what}")]
    Malformed {
        /// What is wrong.
        what: &'static str,
    },
    /// It has more of something than it may.
    #[error("too large: {count} {what}, and {cap} are allowed")]
    TooLarge {
        /// Of what.
        what: &'static str,
        /// How many it has.
        count: usize,
        /// How many it may have.
        cap: usize,
    },
    /// It names an output twice.
    #[error("duplicated input: it spends an output twice")]
    DuplicatedInput,
    /// A signature is missing or does not hold.
    #[error("unsigned: a signature is missing or does not hold for this chain")]
    Unsigned,
    /// An input belongs to another than who signed for it.
    #[error("unsigned: the owner of the output {} of {} did not sign", .0.index, .0.transaction)]
    Foreign(OutputId),
    /// Its outputs are more than its inputs.
    #[error("overspending: its inputs are {inputs}, its outputs {outputs}")]
    Overspending {
        /// What its inputs amount to.
        inputs: u64,
        /// What its outputs amount to.
        outputs: u64,
    },
    /// Its outputs are less than its inputs: the rest would be lost.
    #[error("unbalanced: {0} of its inputs go nowhere; pay them back to their owner")]
    Unbalanced(u64),
    /// It spends its own output.
    #[error("cyclic: it spends an output of its own")]
    Cyclic,
    /// It spends an output that no transaction is known to have made.
    #[error("unknown input: no output {} of {} is known", .0.index, .0.transaction)]
    UnknownInput(OutputId),
    /// It spends what another pending transaction spends: both together are a double spend, and may
    /// never be decided.
    #[error(
        "pending: {by} spends the output {} of {}, too, and is not decided yet; wait until it is, \
         and pay again then (`quorate wallet why {by}` tells)",
        output.index,
        output.transaction
    )]
    Pending {
        /// The output.
        output: OutputId,
        /// Who spends it.
        by: TransactionId,
    },
    /// It spends what another accepted transaction has spent.
    #[error("spent: {by} spent the output {} of {}", output.index, output.transaction)]
    Spent {
        /// The output.
        output: OutputId,
        /// Who spent it.
        by: TransactionId,
    },
}

impl Refusal {
    /// The reasons, as counters name them.
    pub const NAMES: [&str; 11] = [
        "malformed",
        "too_large",
        "duplicated_input",
        "unsigned",
        "foreign_input",
        "overspending",
        "unbalanced",
        "cyclic",
        "unknown_input",
        "spent",
        "pending",
    ];

    /// Its place in [`Refusal::NAMES`].
    #[must_use]
    pub const fn index(&self) -> usize {
        match self {
            Self::Encoding(_) | Self::Malformed { .. } => 0,
            Self::TooLarge { .. } => 1,
            Self::DuplicatedInput => 2,
            Self::Unsigned => 3,
            Self::Foreign(_) => 4,
            Self::Overspending { .. } => 5,
            Self::Unbalanced(_) => 6,
            Self::Cyclic => 7,
            Self::UnknownInput(_) => 8,
            Self::Spent { .. } => 9,
            Self::Pending { .. } => 10,
        }
    }

    /// Its name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        Self::NAMES[self.index()]
    }
}
