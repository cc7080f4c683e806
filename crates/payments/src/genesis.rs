//! The outputs there are in the beginning.

use quorate_core::Digest;
use quorate_core::base::wire::Encode as _;

use crate::transaction::{Output, OutputId, TransactionId};

/// Most outputs of a genesis.
pub const MAX_GENESIS_OUTPUTS: usize = 1 << 16;

/// The outputs that no transaction made. Nothing is ever added to their sum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Genesis {
    outputs: Vec<Output>,
    supply: u64,
}

/// Why outputs make no genesis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GenesisError {
    /// There are none, or too many.
    #[error("a genesis has 1 to {MAX_GENESIS_OUTPUTS} outputs, not {0}")]
    Count(usize),
    /// One is of nothing.
    #[error("genesis output {0} is of nothing")]
    Nothing(usize),
    /// Their sum has no number.
    #[error("the genesis outputs are more than {} together", u64::MAX)]
    TooMuch,
}

impl Genesis {
    /// A genesis of these outputs.
    ///
    /// # Errors
    /// [`GenesisError`].
    pub fn new(outputs: Vec<Output>) -> Result<Self, GenesisError> {
        if outputs.is_empty() || outputs.len() > MAX_GENESIS_OUTPUTS {
            return Err(GenesisError::Count(outputs.len()));
        }
        if let Some(place) = outputs.iter().position(|output| output.amount == 0) {
            return Err(GenesisError::Nothing(place));
        }
        let mut amounts = outputs.iter().map(|output| output.amount);
        let supply = amounts.try_fold(0u64, u64::checked_add).ok_or(GenesisError::TooMuch)?;
        Ok(Self { outputs, supply })
    }

    /// What stands for the transaction that made them: the digest of all.
    #[must_use]
    pub fn id(&self) -> TransactionId {
        let mut bytes = Vec::new();
        self.outputs.iter().for_each(|output| output.encode(&mut bytes));
        TransactionId(Digest::of("quorate payments genesis 1", &bytes))
    }

    /// What there is, and always will be.
    #[must_use]
    pub fn supply(&self) -> u64 {
        self.supply
    }

    /// The outputs, each beside what names it.
    pub fn outputs(&self) -> impl Iterator<Item = (OutputId, Output)> + '_ {
        let transaction = self.id();
        let named = self.outputs.iter().enumerate();
        named.map(move |(place, output)| (OutputId { transaction, index: place as u32 }, *output))
    }
}
