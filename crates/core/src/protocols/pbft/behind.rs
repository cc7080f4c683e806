//! What this replica lacks.

use crate::base::types::{Height, ReplicaId};
use crate::ledger::block::BlockId;

/// A block that this replica lacks.
#[derive(Clone, Debug)]
pub(super) struct Behind {
    pub height: Height,
    pub block: BlockId,
    pub holders: Vec<ReplicaId>,
}
