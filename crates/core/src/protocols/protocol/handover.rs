//! What a replica shows to one that was not there when an epoch ended.

use std::sync::Arc;

use super::malformed::Malformed;
use super::verifier::Verifier;
use super::words::{FullBlockOf, Shown, Types};
use crate::base::crypto::Check;
use crate::base::membership::Committee;
use crate::base::types::Epoch;
use crate::base::wire::{Decode, DecodeError, Encode, Reader, put_list};
use crate::ledger::execution::StateSummary;

/// The most blocks above the sealing block that travel with a handover.
pub const MAX_VOID_BLOCKS: usize = 64;

/// The end of an epoch: the state behind the block that sealed it, the committee that this state
/// names, and what convinces of the state by the old committee's signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handover<T: Types> {
    /// The last state of the epoch.
    pub state: StateSummary,
    /// The committee of the next epoch.
    pub next: Committee,
    /// A block that attests the root of that state.
    pub shown: Shown<T>,
    /// The blocks above the sealing block up to that one, oldest first. They never enter the log.
    pub void: Vec<FullBlockOf<T>>,
}

impl<T: Types> Handover<T> {
    /// The epoch that ended.
    #[must_use]
    pub fn ended(&self) -> Epoch {
        Epoch(self.next.epoch().0.saturating_sub(1))
    }

    /// What has to hold for the committee that `verifier` knows to have chosen the next one.
    ///
    /// # Errors
    /// [`Malformed`] if it is the end of another epoch, or not what the evidence is of.
    pub fn claim<V: Verifier<Types = T>>(&self, verifier: &V) -> Result<Vec<Check>, Malformed> {
        let current = verifier.committee();
        if (self.ended(), self.next.chain()) != (current.epoch(), current.chain())
            || self.next.epoch() == Epoch(0)
        {
            return Err(Malformed::WrongEpoch);
        }
        if V::attested_root(&self.shown) != self.state.root() {
            return Err(Malformed::Contradiction);
        }
        verifier.claim_evidence(&self.shown.block.id(), &self.shown.evidence)
    }

    /// Whether the void blocks lead from the sealing block to the one shown. No signature covers
    /// that, and whoever is behind needs them to come to the end of the epoch: a replica keeps no
    /// handover without them. (A client needs none.)
    #[must_use]
    pub fn is_linked(&self) -> bool {
        if self.shown.block.height() <= self.state.height {
            return self.void.is_empty();
        }
        let mut parent = self.state.block_id;
        let follows = |full: &FullBlockOf<T>| {
            let is_next = full.block.parent() == parent;
            parent = full.block.id();
            is_next
        };
        self.void.iter().all(follows) && parent == self.shown.block.id()
    }
}

/// A handover, shared: it is kept, written and sent.
pub type SharedHandover<T> = Arc<Handover<T>>;

impl<T: Types> Encode for Handover<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.state.encode(out);
        self.next.encode(out);
        self.shown.encode(out);
        put_list(out, &self.void);
    }
}

impl<T: Types> Decode for Handover<T> {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let (state, next) = (StateSummary::decode(reader)?, Committee::decode(reader)?);
        let opening = next.opening();
        if (state.members, state.block_id) != (next.digest(), opening.after)
            || state.height.next() != opening.height
        {
            return Err(DecodeError::Invalid { field: "handover: not the members of its state" });
        }
        let shown = Shown::decode(reader)?;
        let void = reader.list("void blocks", MAX_VOID_BLOCKS)?;
        Ok(Self { state, next, shown, void })
    }
}
