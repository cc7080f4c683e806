//! What the protocol of an epoch begins with ([`voice`](super::voice)), and what says nothing.

use crate::base::types::Height;
use crate::protocols::protocol::{BlockOf, FullBlockOf, HeaderOf, Output, Types};

/// A state that was taken over, as the protocol is told of it.
#[derive(Debug)]
pub(super) struct Installed<T: Types> {
    pub root: BlockOf<T>,
    pub recent: Vec<HeaderOf<T>>,
    pub evidence: T::Evidence,
}

/// What the protocol of an epoch begins with.
#[derive(Debug)]
pub(super) struct Beginning<T: Types> {
    /// `None`: this replica has said nothing in this epoch.
    pub memory: Option<T::Memory>,
    /// The block that it grows from, what the chain up to it commits, and the headers below it.
    /// `None`: the epoch's genesis.
    pub root: Option<(BlockOf<T>, Height, Vec<HeaderOf<T>>)>,
    /// Recorded blocks, in the order they were recorded.
    pub blocks: Vec<FullBlockOf<T>>,
    /// A state of this epoch that was taken over.
    pub installed: Option<Installed<T>>,
}

impl<T: Types> Beginning<T> {
    /// Nothing but the epoch's genesis.
    pub fn at_genesis() -> Self {
        Self { memory: None, root: None, blocks: Vec::new(), installed: None }
    }
}

/// Whether an output of a protocol says nothing to anybody.
pub(super) fn is_no_word<T: Types>(output: &Output<T>) -> bool {
    matches!(
        output,
        Output::Verify { .. } | Output::Combine { .. } | Output::Commit(_) | Output::RollBack
    )
}
