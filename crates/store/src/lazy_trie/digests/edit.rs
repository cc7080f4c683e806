//! Insertion and removal of leaves in thawed blocks, which split and merge as they grow and shrink.

use super::super::entry::{Entry, Kind};
use super::super::error::Error;
use super::super::hash::Hash;
use super::super::item;
use super::super::memory::View;
use super::block::topmost;
use super::thaw::{NONE, Thaw, Thawed, Way};
use super::{LeafChange, MOST};
use crate::merkle::Digest;

/// A block with fewer children tries to merge with another, ...
const FEW: usize = MOST / 4;
/// ... if both together have no more than this.
const UNITED: usize = MOST * 2 / 3;

impl Thawed {
    /// Applies changes of different leaves. The changes become those that undo them.
    pub(super) fn change(
        &mut self,
        view: View<'_>,
        changes: &mut [LeafChange],
    ) -> Result<(), Error> {
        self.replace(view, changes)?;
        for change in changes {
            match (change.existed, change.leaf) {
                (true, Some(_)) | (false, None) => {}
                (false, Some(leaf)) => {
                    self.reshaped = true;
                    self.insert(view, &change.hash, leaf)?;
                    (change.existed, change.leaf) = (true, None);
                }
                (true, None) => {
                    self.reshaped = true;
                    let (at, child) = self.meet(view, &change.hash)?;
                    let block = self.block(at);
                    change.leaf = Some((block.entries[child], block.digests[child]));
                    change.existed = false;
                    block.remove(child);
                    self.shrink(view, at)?;
                }
            }
        }
        Ok(())
    }

    /// Inserts a leaf whose key does not exist.
    fn insert(&mut self, view: View<'_>, hash: &Hash, leaf: (Entry, Digest)) -> Result<(), Error> {
        let Some((block, child)) = self.candidate(view, hash)? else {
            let root = self.block(self.root);
            root.changed = true;
            root.entries.push(leaf.0);
            root.digests.push(leaf.1);
            root.kids.push(NONE);
            return Ok(());
        };
        let closest = self.block(block).entries[child].address();
        let damaged = || view.memory().damaged(closest, "a digest of an item that is not there");
        let parting = hash.parting(&item::read(view, closest)?.hash());
        let parting = parting.filter(|bit| *bit >= self.shared).ok_or_else(damaged)?;
        let mut at = self.root;
        let (from, to) = loop {
            match self.block(at).walk(hash, parting) {
                Way::Beside(from, to) => break (from, to),
                Way::Child(child) => {
                    let kid = self.block(at).kids[child];
                    if kid == NONE || self.block(kid).top_bit() > Some(parting) {
                        break (child, child + 1);
                    }
                    at = kid;
                }
            }
        };
        let block = self.block(at);
        if hash.bit(parting) {
            block.insert(to, leaf, to - 1, parting);
        } else {
            block.insert(from, leaf, from, parting);
        }
        self.divide(at);
        Ok(())
    }

    /// Splits a block with too many children at its topmost join, then the blocks above it as
    /// needed.
    fn divide(&mut self, mut at: u32) {
        while self.block(at).len() > MOST {
            if at == self.root {
                self.sink_root();
                at = self.block(self.root).kids[0];
            }
            let join = topmost(&self.block(at).bits);
            let (bit, parent) = (self.block(at).bits[join], self.block(at).parent);
            let right = self.fresh();
            self.move_behind(at, join, right);
            let Some(child) = self.block(parent).child_of(at) else { break };
            self.block(parent).insert(child + 1, (Entry::EMPTY, [0; 32]), child, bit);
            self.block(parent).kids[child + 1] = right;
            self.pull_up(right);
            self.pull_up(at);
            at = parent;
        }
    }

    /// Moves the whole root into a new block, the root's only child.
    fn sink_root(&mut self) {
        let (root, below) = (self.root, self.fresh());
        let home = self.block(root).home.take();
        let content = std::mem::take(self.block(root));
        *self.block(below) = Thaw { parent: root, ..content };
        self.adopt(below);
        let block = self.block(root);
        block.clear(NONE, home);
        block.changed = true;
        block.entries.push(Entry::EMPTY);
        block.digests.push([0; 32]);
        block.kids.push(below);
    }

    /// Moves the children behind a join to the empty block `right`, and removes the join.
    fn move_behind(&mut self, at: u32, join: usize, right: u32) {
        let block = self.block(at);
        block.rearranged();
        let (parent, behind) = (block.parent, join + 1);
        let moved = Thaw {
            entries: block.entries.split_off(behind),
            digests: block.digests.split_off(behind),
            kids: block.kids.split_off(behind),
            joins: block.joins.split_off(behind),
            bits: block.bits.split_off(behind),
            stale: block.stale.split_off(behind),
            parent,
            home: None,
            changed: true,
            ..Thaw::default()
        };
        block.joins.pop();
        block.bits.pop();
        block.stale.remove(join);
        *self.block(right) = moved;
        self.adopt(right);
    }

    /// Sets the parent of a block's thawed children.
    fn adopt(&mut self, parent: u32) {
        for child in 0..self.block(parent).len() {
            let kid = self.block(parent).kids[child];
            if kid != NONE {
                self.block(kid).parent = parent;
            }
        }
    }

    /// A block with one child is replaced by that child.
    fn pull_up(&mut self, at: u32) {
        let block = self.block(at);
        let ([entry], [digest], [kid]) = (&*block.entries, &*block.digests, &*block.kids) else {
            return;
        };
        let (entry, digest, kid, parent) = (*entry, *digest, *kid, block.parent);
        let home = block.home.take();
        self.leave(home);
        if kid != NONE {
            self.block(kid).parent = parent;
        }
        let parent = self.block(parent);
        if let Some(child) = parent.child_of(at) {
            (parent.entries[child], parent.digests[child], parent.kids[child]) =
                (entry, digest, kid);
            parent.changed = true;
        }
    }

    /// After the removal of a child: a block with at most one child is removed, one with few merges
    /// with its neighbour.
    fn shrink(&mut self, view: View<'_>, mut at: u32) -> Result<(), Error> {
        while at != self.root {
            let parent = self.block(at).parent;
            match self.block(at).len() {
                0 => {
                    let home = self.block(at).home.take();
                    self.leave(home);
                    if let Some(child) = self.block(parent).child_of(at) {
                        self.block(parent).remove(child);
                    }
                }
                1 => self.pull_up(at),
                few if few <= FEW && self.unite(view, at, parent)? => {}
                _ => return Ok(()),
            }
            at = parent;
        }
        self.lift_root(view)
    }

    /// A root whose only child is a block becomes that block.
    fn lift_root(&mut self, view: View<'_>) -> Result<(), Error> {
        let root = self.root;
        while let [entry] = &*self.block(root).entries
            && entry.kind() != Kind::Item
        {
            let kid = self.kid(view, root, 0)?;
            let content = std::mem::take(self.block(kid));
            self.leave(content.home);
            let home = self.block(root).home;
            *self.block(root) = Thaw { parent: NONE, home, changed: true, ..content };
            self.adopt(root);
        }
        Ok(())
    }

    /// Merges a block with its sibling if both fit. Returns whether it did.
    fn unite(&mut self, view: View<'_>, at: u32, parent: u32) -> Result<bool, Error> {
        let block = self.block(parent);
        let Some(child) = block.child_of(at) else { return Ok(false) };
        let Some(sibling) = block.sibling(child) else { return Ok(false) };
        let other = if block.entries[sibling].kind() == Kind::Item {
            let mut alone = Thaw::default();
            alone.entries.push(block.entries[sibling]);
            alone.digests.push(block.digests[sibling]);
            alone.kids.push(NONE);
            alone
        } else {
            let kid = self.kid(view, parent, sibling)?;
            if self.block(kid).len() + self.block(at).len() > UNITED {
                return Ok(false);
            }
            let other = std::mem::take(self.block(kid));
            self.leave(other.home);
            other
        };
        let block = self.block(parent);
        let bit = block.bits[child.min(sibling)];
        block.remove(sibling);
        let own = self.block(at);
        own.rearranged();
        let mut rest = other;
        if sibling < child {
            swap_content(own, &mut rest);
        }
        own.entries.append(&rest.entries);
        own.digests.append(&rest.digests);
        own.kids.append(&rest.kids);
        own.stale.set(own.bits.len());
        own.stale.append(own.bits.len() + 1, rest.stale);
        own.joins.push([0; 32]);
        own.bits.push(bit);
        own.joins.append(&rest.joins);
        own.bits.append(&rest.bits);
        self.adopt(at);
        Ok(true)
    }
}

/// Exchanges the children and joins of two blocks.
fn swap_content(one: &mut Thaw, other: &mut Thaw) {
    std::mem::swap(&mut one.entries, &mut other.entries);
    std::mem::swap(&mut one.digests, &mut other.digests);
    std::mem::swap(&mut one.kids, &mut other.kids);
    std::mem::swap(&mut one.joins, &mut other.joins);
    std::mem::swap(&mut one.bits, &mut other.bits);
    std::mem::swap(&mut one.stale, &mut other.stale);
}
