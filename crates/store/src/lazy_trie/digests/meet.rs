//! Lookups of existing leaves, many in parallel. One after the other would wait for memory at every
//! block.

use super::super::entry::{Entry, Kind};
use super::super::error::Error;
use super::super::hash::Hash;
use super::super::memory::View;
use super::block::bytes_of;
use super::thaw::{NONE, Thawed};
use super::{LeafChange, MOST};
use crate::merkle::Digest;
use crate::prefetch;

/// The number of paths followed at a time. The requested memory has arrived when a path's next turn
/// comes, and is still in the processor's cache.
const TOGETHER: usize = 32;

/// The path to a leaf that is replaced.
struct Path<'c> {
    hash: &'c Hash,
    leaf: &'c mut (Entry, Digest),
    block: u32,
    /// The child at which it continues.
    child: usize,
}

impl Thawed {
    /// Replaces the leaves that exist before and after the changes, and marks all joins above them
    /// as stale. The other changes are left.
    pub(super) fn replace(
        &mut self,
        view: View<'_>,
        changes: &mut [LeafChange],
    ) -> Result<(), Error> {
        let root = self.root;
        let mut paths = Vec::with_capacity(TOGETHER.min(changes.len()));
        let existed = changes.iter_mut().filter(|change| change.existed);
        let mut replaced = existed.filter_map(|change| {
            let (hash, leaf) = (&change.hash, change.leaf.as_mut()?);
            Some(Path { hash, leaf, block: root, child: 0 })
        });
        loop {
            paths.extend(replaced.by_ref().take(TOGETHER));
            if paths.is_empty() {
                return Ok(());
            }
            while !paths.is_empty() {
                self.step(view, &mut paths)?;
            }
        }
    }

    /// Continues each path by one block, unless it ends there.
    fn step(&mut self, view: View<'_>, paths: &mut Vec<Path<'_>>) -> Result<(), Error> {
        for path in &mut *paths {
            path.child = self.pass(view, path.block, path.hash)?;
        }
        let mut damaged = Ok(());
        paths.retain_mut(|path| match self.arrives(view, path.block, path.child, path.hash) {
            Ok(false) => {
                self.ask_for_kid(view, path.block, path.child);
                true
            }
            Ok(true) => {
                let block = self.block(path.block);
                std::mem::swap(&mut block.entries[path.child], &mut path.leaf.0);
                std::mem::swap(&mut block.digests[path.child], &mut path.leaf.1);
                false
            }
            Err(error) => {
                damaged = Err(error);
                false
            }
        });
        damaged?;
        for path in paths {
            // New blocks have no place in the space yet.
            path.block = self.kid(view, path.block, path.child)?;
        }
        Ok(())
    }

    /// Finds the leaf of an existing item, and marks all joins above it as stale.
    pub(super) fn meet(&mut self, view: View<'_>, hash: &Hash) -> Result<(u32, usize), Error> {
        let mut at = self.root;
        loop {
            let child = self.pass(view, at, hash)?;
            if self.arrives(view, at, child, hash)? {
                return Ok((at, child));
            }
            at = self.kid(view, at, child)?;
        }
    }

    /// The child of a block on the path to `hash`.
    fn pass(&mut self, view: View<'_>, at: u32, hash: &Hash) -> Result<usize, Error> {
        if !self.block(at).changed {
            self.met.push(at);
        }
        let block = self.block(at);
        let child = block.pass(hash);
        let Some(entry) = block.entries.get(child) else {
            return Err(self.without_digest(view, at));
        };
        prefetch::ask_for(entry);
        prefetch::ask_for(&block.digests[child]);
        Ok(child)
    }

    /// Whether a child is the leaf of `hash`. Otherwise it is a block.
    fn arrives(
        &mut self,
        view: View<'_>,
        at: u32,
        child: usize,
        hash: &Hash,
    ) -> Result<bool, Error> {
        let entry = self.block(at).entries[child];
        match entry.kind() {
            Kind::Item if entry.tag() == hash.tag() => Ok(true),
            Kind::Item => Err(self.without_digest(view, at)),
            _ => Ok(false),
        }
    }

    /// Prefetches a child that is a block, thawed or not.
    fn ask_for_kid(&mut self, view: View<'_>, at: u32, child: usize) {
        let block = self.block(at);
        let (kid, entry) = (block.kids[child], block.entries[child]);
        if kid == NONE {
            view.ask_for(entry.address(), bytes_of(MOST));
        } else {
            self.block(kid).ask_for_head();
        }
    }

    fn without_digest(&self, view: View<'_>, at: u32) -> Error {
        view.memory().damaged(self.place(at), "an item without its digest")
    }
}
