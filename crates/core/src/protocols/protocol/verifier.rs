use std::fmt;

use super::malformed::Malformed;
use super::words::{BlockOf, FullBlockOf, HeaderOf, Shown, Types};
use crate::base::crypto::Check;
use crate::base::membership::Committee;
use crate::base::types::{Digest, ReplicaId};
use crate::ledger::block::BlockId;

/// What a protocol's evidence is checked by, without running a replica: a client does so, and a
/// replica that takes over a state.
///
/// It holds the committee and the protocol's constants, and no state. It looks at what evidence
/// says and returns the signatures that have to hold; whoever asked has them verified.
pub trait Verifier: Clone + fmt::Debug + Send + Sync + 'static {
    /// The protocol's words.
    type Types: Types;

    /// Whether evidence that convinces of a block proves that the block is decided. Where it does
    /// not, only further blocks prove that.
    const EVIDENCE_DECIDES: bool = false;

    /// Who takes part.
    fn committee(&self) -> &Committee;

    /// The block before the first one.
    fn genesis(&self) -> BlockOf<Self::Types>;

    /// What has to hold for the evidence to convince of the block.
    ///
    /// # Errors
    /// [`Malformed`] if it convinces nobody; [`Malformed::Contradiction`] exactly if it is the
    /// evidence of another block.
    fn claim_evidence(
        &self,
        block: &BlockId,
        evidence: &<Self::Types as Types>::Evidence,
    ) -> Result<Vec<Check>, Malformed>;

    /// The state root that a quorum stands for if the evidence convinces of the block.
    fn attested_root(shown: &Shown<Self::Types>) -> Digest;

    // Chains of blocks that prove by themselves that they are decided.

    /// Who proposed a block, where a protocol has proposers.
    fn proposer(&self, block: &BlockOf<Self::Types>) -> Option<ReplicaId>;

    /// What a block by itself rests on: the evidence that it carries of blocks below it.
    ///
    /// # Errors
    /// [`Malformed`] if it can be no block of this chain.
    fn claim_block(&self, block: &BlockOf<Self::Types>) -> Result<Vec<Check>, Malformed>;

    /// Whether what a block says of the block with this header, which it names as its parent, is
    /// true.
    fn may_follow(&self, parent: &HeaderOf<Self::Types>, block: &BlockOf<Self::Types>) -> bool {
        let _ = (parent, block);
        true
    }

    /// How many of these blocks, counted from the first, are decided by what the others carry. Each
    /// is the parent of the next, and what [`claim_block`](Self::claim_block) asked for holds of
    /// all. 0 in a protocol whose blocks prove nothing.
    fn decided(&self, blocks: &[FullBlockOf<Self::Types>]) -> usize {
        let _ = blocks;
        0
    }

    /// The state root in a block, where blocks carry one: of the state behind the last block that
    /// its ancestors decide by themselves ([`decided`](Self::decided)), or of a later one. Correct
    /// replicas vote only for a block whose root is their own.
    fn carried_root(&self, block: &BlockOf<Self::Types>) -> Option<Digest> {
        let _ = block;
        None
    }
}
