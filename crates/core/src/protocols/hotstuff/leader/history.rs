//! What an election may look at: the committed part of one chain.
//!
//! The chain is the one that the view's proposal extends, and what of it is committed is told by
//! the certificates inside it. A replica whose own commits have come further, because it saw one
//! more certificate, or less far, sees the same history.

use crate::base::crypto::Signers;
use crate::base::types::{Epoch, Height, ReplicaId, View};
use crate::ledger::block::BlockId;
use crate::protocols::hotstuff::block::Header;
use crate::protocols::hotstuff::tree::BlockTree;
use crate::protocols::protocol::MAX_LOOK_BACK;

/// The furthest any election looks back from the block that a proposal extends, in blocks.
pub const MAX_WINDOW: usize = MAX_LOOK_BACK;

/// The smaller of the two. (`Ord::min` is not a constant function.)
pub(super) const fn at_most(blocks: usize, most: usize) -> usize {
    if blocks < most { blocks } else { most }
}

/// The committed prefix of the chain up to a certified block.
///
/// `head` must not be below the tree's root, and the tree must hold
/// [`Election::window`](super::Election::window) blocks below that: otherwise the history is cut
/// short, and this replica may name another leader than those who hold all.
#[derive(Clone, Copy, Debug)]
pub struct History<'a> {
    /// Where the chain's blocks are found.
    pub tree: &'a BlockTree,
    /// The certified block that the view's proposal extends.
    pub head: &'a BlockId,
    /// The height up to which that chain is committed by the certificates in it, the one of
    /// `head` included. Everything at or below is.
    pub committed: Height,
}

/// A committed block, and who stood by it.
#[derive(Clone, Copy, Debug)]
pub struct Committed<'a> {
    /// The block.
    pub block: &'a Header,
    /// The signers of the certificate of the block that the chain carries: its child's justify. The
    /// head has no child yet: its certificate is not part of the chain, and another replica may
    /// hold another one, of other signers.
    pub certified_by: Option<&'a Signers>,
}

impl<'a> Committed<'a> {
    /// Who signed the certificate; nobody where the chain does not carry it.
    pub fn signers(&self) -> impl Iterator<Item = ReplicaId> + use<'a> {
        self.certified_by.into_iter().flat_map(Signers::iter)
    }
}

impl<'a> History<'a> {
    /// The committed blocks of `epoch` among the last `depth` blocks of the chain, newest first.
    /// The epoch's genesis is not among them: nobody proposed it in any view. Nor are
    /// those of earlier epochs, whose replicas bear the same ids and are others.
    pub fn blocks(
        &self,
        depth: usize,
        epoch: Epoch,
    ) -> impl Iterator<Item = Committed<'a>> + use<'a> {
        let committed = self.committed;
        let mut signers = None;
        self.chain()
            .take(depth)
            .map(move |block| Committed { block, certified_by: signers.replace(&block.signers) })
            .skip_while(move |Committed { block, .. }| block.height > committed)
            .take_while(move |Committed { block, .. }| was_proposed_in(block, epoch))
    }

    /// The blocks of `epoch` among the last `depth` blocks of the chain, committed or not, newest
    /// first; without the genesis block.
    pub fn extended(
        &self,
        depth: usize,
        epoch: Epoch,
    ) -> impl Iterator<Item = &'a Header> + use<'a> {
        self.chain().take(depth).take_while(move |block| was_proposed_in(block, epoch))
    }

    /// The view of the head; `None` if the head is not at hand.
    pub fn head_view(&self) -> Option<View> {
        self.tree.find(self.head).map(|block| block.view)
    }

    /// The blocks of the chain, the head first, as far down as they are at hand. One step costs
    /// one look-up above the root and less below, where [`BlockTree::above`] would search.
    fn chain(&self) -> impl Iterator<Item = &'a Header> + use<'a> {
        let head = *self.head;
        let mut next = head;
        let below_root = self.tree.recent().rev();
        self.tree
            .path_down(self.head)
            .map(|block| block.header())
            .chain(below_root)
            .skip_while(move |block| block.id() != head)
            .map_while(move |block| {
                let linked = block.id() == next;
                next = block.parent();
                linked.then_some(block)
            })
    }
}

/// Whether somebody proposed the block in this epoch: nobody did its genesis, in view 0.
fn was_proposed_in(block: &Header, epoch: Epoch) -> bool {
    block.view > View(0) && block.epoch == epoch
}
