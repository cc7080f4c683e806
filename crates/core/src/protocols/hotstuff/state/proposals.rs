//! Proposals: this replica's own, and what waits of those of others.

use std::sync::Arc;

use crate::base::per_peer::PerPeer;
use crate::base::types::{ReplicaId, Time, View};
use crate::ledger::block::BlockId;
use crate::protocols::hotstuff::block::{Block, SharedBlock};
use crate::protocols::hotstuff::certificate::Tc;

/// A block, and how its view was entered, if not by its justify.
type Waiting = (SharedBlock, Option<Tc>);

/// Where this replica stands with proposals. One place a proposer, so that no peer can make this
/// grow.
#[derive(Clone, Debug)]
pub struct Proposals {
    /// The highest view in which this replica proposed, or may have before it was restarted.
    pub proposed: View,
    /// The empty block that this replica puts off: its view, and until when. `None`: it is due.
    put_off: Option<(View, Option<Time>)>,
    by_proposer: PerPeer<LastProposal>,
    /// The block of this view that could not be voted for yet: a state root is still to come.
    waits_for_root: Option<(BlockId, Option<Tc>)>,
}

/// A proposer's last proposal: its view and block, and the block itself while its parent is
/// missing.
#[derive(Clone, Debug, Default)]
pub struct LastProposal {
    view: View,
    block: BlockId,
    orphan: Option<Waiting>,
}

impl LastProposal {
    /// Whether its proposer made another block in the same view.
    pub fn contradicts(&self, block: &Block) -> bool {
        self.view == block.view && self.block != block.id()
    }

    /// Whether its proposer went on to a later view, with another block.
    pub fn is_beyond(&self, block: &Block) -> bool {
        self.view > block.view
    }

    /// A proposal came; an earlier one leaves this as it is.
    pub fn note(&mut self, block: &Block) {
        if block.view > self.view {
            *self = Self { view: block.view, block: block.id(), orphan: None };
        }
    }
}

impl Proposals {
    pub fn new(replicas: usize) -> Self {
        let by_proposer = PerPeer::new(replicas);
        Self { proposed: View(0), put_off: None, by_proposer, waits_for_root: None }
    }

    /// Whether the empty block of `view` is put off. It is until `until` when this is asked first.
    pub fn puts_off(&mut self, view: View, until: Time) -> bool {
        match self.put_off {
            Some((of, until)) if of == view => until.is_some(),
            _ => {
                self.put_off = Some((view, Some(until)));
                true
            }
        }
    }

    /// When the empty block of `view` is due that was put off, if it was not proposed meanwhile.
    pub fn put_off_until(&self, view: View) -> Option<Time> {
        self.put_off.filter(|(of, _)| *of == view && self.proposed < view)?.1
    }

    /// The wait of the empty block that was put off has ended, if it has.
    pub fn on_time(&mut self, now: Time) {
        if let Some((_, until)) = &mut self.put_off {
            until.take_if(|until| *until <= now);
        }
    }

    /// The last proposal of a replica.
    pub fn last_of(&mut self, proposer: ReplicaId) -> Option<&mut LastProposal> {
        self.by_proposer.get_mut(proposer)
    }

    /// Keeps a block whose parent is missing, if it is its proposer's last one.
    pub fn keep_orphan(&mut self, block: &SharedBlock, tc: Option<Tc>) {
        if let Some(last) = self.by_proposer.get_mut(block.proposer)
            && last.block == block.id()
        {
            last.orphan = Some((Arc::clone(block), tc));
        }
    }

    /// The blocks whose parents are missing.
    pub fn orphans(&self) -> impl Iterator<Item = &SharedBlock> {
        self.by_proposer.iter().filter_map(|last| Some(&last.orphan.as_ref()?.0))
    }

    /// Takes out a block whose parent was missing until now.
    pub fn take_child_of(&mut self, parent: &BlockId) -> Option<Waiting> {
        let is_child = |(orphan, _): &mut Waiting| orphan.parent() == *parent;
        self.by_proposer.iter_mut().find_map(|last| last.orphan.take_if(is_child))
    }

    /// Drops the blocks whose parent can only be at or below the committed `root`, and is not the
    /// root itself: they will find none.
    pub fn drop_old_orphans(&mut self, root: &Block) {
        for last in &mut self.by_proposer {
            last.orphan.take_if(|(orphan, _)| {
                orphan.justify.view() <= root.view && orphan.parent() != root.id()
            });
        }
    }

    /// A block of this view waits for a state root.
    pub fn wait_for_root(&mut self, block: BlockId, tc: Option<Tc>) {
        self.waits_for_root = Some((block, tc));
    }

    /// Takes out the block that waits for a state root.
    pub fn take_waiting(&mut self) -> Option<(BlockId, Option<Tc>)> {
        self.waits_for_root.take()
    }
}
