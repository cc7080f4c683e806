//! The tree of blocks above the committed head.
//!
//! Its root is the last committed block; everything that does not descend from it is pruned at
//! each commit. A block enters only when its parent is there, so every walk towards the
//! root ends at the root.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::base::types::Height;
use crate::ledger::block::BlockId;
use crate::protocols::hotstuff::block::{Header, SharedBlock};
use crate::protocols::hotstuff::certificate::Qc;
use crate::protocols::protocol::MAX_LOOK_BACK;

/// The uncommitted blocks, and the committed head they grow from.
#[derive(Clone, Debug)]
pub struct BlockTree {
    root: SharedBlock,
    nodes: BTreeMap<BlockId, Node>,
    /// The last committed blocks below the root, oldest first: a rule that looks back from a
    /// block just above the root must find the same ancestors at every replica, however far each
    /// one's root has come.
    recent: VecDeque<Below>,
}

/// How many committed blocks below the root are kept at hand: what elections look back on, and as
/// many more as a root may be ahead of what a chain shows to be committed.
const RECENT: usize = MAX_LOOK_BACK + 64;

/// A committed block below the root.
#[derive(Clone, Debug)]
enum Below {
    /// It was committed here.
    Whole(SharedBlock),
    /// It was committed before the snapshot that this tree grew from.
    Header(Header),
}

impl Below {
    fn header(&self) -> &Header {
        match self {
            Self::Whole(block) => block.header(),
            Self::Header(header) => header,
        }
    }
}

#[derive(Clone, Debug)]
struct Node {
    block: SharedBlock,
    /// The height of the block that is committed by what this block's chain of certificates says.
    committed: Height,
    /// The height of the state whose root the block carries: what its parent's chain commits.
    carries: Option<Height>,
    /// The height of the state whose root its parent carries, which its justify therefore
    /// certifies.
    certifies: Option<Height>,
}

impl Node {
    /// A node of whose ancestors nothing is known.
    fn alone(block: SharedBlock, committed: Height) -> Self {
        Self { block, committed, carries: None, certifies: None }
    }
}

/// Why a block did not enter the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// It is there already.
    Known,
    /// Its parent is not (yet) here.
    Orphan,
    /// At or below the committed head: too late to matter.
    BelowRoot,
    /// Its height is not its parent's plus one, or its view not above its parent's.
    Contradiction,
}

impl BlockTree {
    /// A tree of the committed block `root` alone; `committed` is what the chain up to it commits
    /// and `recent` the headers of the committed blocks right below it, oldest first.
    #[must_use]
    pub fn new(root: SharedBlock, committed: Height, recent: Vec<Header>) -> Self {
        let id = root.id();
        Self {
            root: Arc::clone(&root),
            nodes: BTreeMap::from([(id, Node::alone(root, committed))]),
            recent: recent.into_iter().map(Below::Header).collect(),
        }
    }

    /// The committed head.
    #[must_use]
    pub fn root(&self) -> &SharedBlock {
        &self.root
    }

    /// The block `id`, if it is the root or above it.
    #[must_use]
    pub fn get(&self, id: &BlockId) -> Option<&SharedBlock> {
        self.nodes.get(id).map(|node| &node.block)
    }

    /// The header of the block `id`, if it is in the tree or among the last committed ones below
    /// it.
    #[must_use]
    pub fn find(&self, id: &BlockId) -> Option<&Header> {
        match self.get(id) {
            Some(block) => Some(block.header()),
            None => self.below(id).map(Below::header),
        }
    }

    /// The block `id`, if it is in the tree or was committed here lately.
    #[must_use]
    pub fn block(&self, id: &BlockId) -> Option<&SharedBlock> {
        self.get(id).or_else(|| match self.below(id)? {
            Below::Whole(block) => Some(block),
            Below::Header(_) => None,
        })
    }

    fn below(&self, id: &BlockId) -> Option<&Below> {
        self.recent.iter().rev().find(|block| block.header().id() == *id)
    }

    /// The last committed blocks below the root, oldest first.
    pub fn recent(&self) -> impl DoubleEndedIterator<Item = &Header> {
        self.recent.iter().map(Below::header)
    }

    /// How many blocks there are above the committed head.
    #[must_use]
    pub fn uncommitted(&self) -> usize {
        self.nodes.len() - 1
    }

    /// Adds a block above its parent. `commits` says which block the block's justify commits by
    /// the protocol's rule, if any.
    ///
    /// # Errors
    /// [`Misfit`]; the tree is unchanged.
    pub fn insert(
        &mut self,
        block: &SharedBlock,
        commits: impl FnOnce(&Self, &Qc) -> Option<Height>,
    ) -> Result<(), Misfit> {
        if self.nodes.contains_key(&block.id()) {
            return Err(Misfit::Known);
        }
        if block.height <= self.root().height {
            return Err(Misfit::BelowRoot);
        }
        let Some(parent) = self.nodes.get(&block.parent()) else {
            return mutant!("commit-skips-missing", self.graft(block), Err(Misfit::Orphan));
        };
        let fits = parent.block.height.next() == block.height
            && parent.block.view == block.justify.view()
            && parent.block.view < block.view;
        if !mutant!("block-height-unchecked", true, fits) {
            return Err(Misfit::Contradiction);
        }
        let (inherited, certifies) = (parent.committed, parent.carries);
        let committed = commits(self, &block.justify).map_or(inherited, |own| own.max(inherited));
        let (block, carries) = (Arc::clone(block), Some(inherited));
        self.nodes.insert(block.id(), Node { block, committed, carries, certifies });
        Ok(())
    }

    /// Adds a block whose parent is missing.
    #[cfg(quorate_mutants)]
    fn graft(&mut self, block: &SharedBlock) -> Result<(), Misfit> {
        let committed = self.root().height;
        self.nodes.insert(block.id(), Node::alone(Arc::clone(block), committed));
        Ok(())
    }

    /// The height of the highest block that the certificates inside `id`'s chain commit: a pure
    /// function of that chain, whatever else this replica has seen.
    #[must_use]
    pub fn committed_by(&self, id: &BlockId) -> Option<Height> {
        self.nodes.get(id).map(|node| node.committed)
    }

    /// The height of the state whose root the block `id` carries, if that is known: a certificate
    /// of this block certifies that root.
    #[must_use]
    pub fn root_carried(&self, id: &BlockId) -> Option<Height> {
        self.nodes.get(id)?.carries
    }

    /// The same of its parent, whose certificate is in the block `id`: everybody who has the block
    /// knows that root to be certified.
    #[must_use]
    pub fn root_certified(&self, id: &BlockId) -> Option<Height> {
        self.nodes.get(id)?.certifies
    }

    /// From `id` towards the root: `id` first, the root last. Empty if `id` is not here.
    pub fn path_down(&self, id: &BlockId) -> impl Iterator<Item = &SharedBlock> {
        let mut next = self.get(id);
        let root = self.root.id();
        std::iter::from_fn(move || {
            let block = next?;
            next = if block.id() == root { None } else { self.get(&block.parent()) };
            Some(block)
        })
    }

    /// The headers from `id` downwards that are above `floor`, that of `id` first: of the blocks in
    /// the tree, and of the last committed ones below it.
    pub fn above(&self, floor: Height, id: &BlockId) -> impl Iterator<Item = &Header> {
        std::iter::successors(self.find(id), |header| self.find(&header.parent()))
            .take_while(move |header| header.height > floor)
    }

    /// The blocks themselves, down to the last one that is here as a whole.
    pub fn blocks_above(&self, floor: Height, id: &BlockId) -> impl Iterator<Item = &SharedBlock> {
        std::iter::successors(self.block(id), |block| self.block(&block.parent()))
            .take_while(move |block| block.height > floor)
    }

    /// Whether `ancestor` lies on the path from `id` to the root (both ends included): it is
    /// an ancestor or the block itself.
    #[must_use]
    pub fn extends(&self, id: &BlockId, ancestor: &BlockId) -> bool {
        self.path_down(id).any(|block| block.id() == *ancestor)
    }

    /// Makes `head` the root. Returns the newly committed blocks, oldest first, and the blocks
    /// that were pruned because they do not descend from `head`. Nothing happens if `head` is not
    /// above the root.
    pub fn commit(&mut self, head: &BlockId) -> (Vec<SharedBlock>, Vec<SharedBlock>) {
        let new_root = match self.get(head) {
            Some(block) if *head != self.root.id() => Arc::clone(block),
            _ => return (Vec::new(), Vec::new()),
        };
        let mut committed: Vec<SharedBlock> = self.path_down(head).cloned().collect();
        committed.pop();
        committed.reverse();
        if committed.is_empty() {
            return (committed, Vec::new());
        }
        self.recent.push_back(Below::Whole(Arc::clone(self.root())));
        let below = committed[..committed.len() - 1].iter().cloned();
        self.recent.extend(below.map(Below::Whole));
        let surplus = self.recent.len().saturating_sub(RECENT);
        self.recent.drain(..surplus);
        let old_root = std::mem::replace(&mut self.root, new_root).id();
        let floor = self.root().height;
        let mut by_height: Vec<(Height, BlockId)> =
            self.nodes.iter().map(|(id, node)| (node.block.height, *id)).collect();
        by_height.sort_unstable();
        let mut pruned = Vec::new();
        for (height, id) in by_height {
            let parent = self.nodes[&id].block.parent();
            let stays = id == *head || height > floor && self.nodes.contains_key(&parent);
            if stays {
                continue;
            }
            if let Some(node) = self.nodes.remove(&id)
                && id != old_root
                && !committed.iter().any(|block| block.id() == id)
            {
                pruned.push(node.block);
            }
        }
        (committed, pruned)
    }
}
