//! The ways down to leaves that are there: many at once, where one after the other would wait for memory at every block.

use super::super::entry::{Entry, Kind};
use super::super::error::Error;
use super::super::hash::Hash;
use super::super::memory::View;
use super::block::bytes_of;
use super::thaw::{NONE, Thawed};
use super::{LeafChange, MOST};
use crate::merkle::Digest;
use crate::prefetch;

/// So many ways are gone at a time: what is asked for on one has come when its turn is next, and is still in the processor's cache.
const TOGETHER: usize = 32;

/// A way down to a leaf that is replaced.
struct Path<'c> {
    hash: &'c Hash,
    leaf: &'c mut (Entry, Digest),
    block: u32,
    /// Where in the block it goes on.
    child: usize,
}

impl Thawed {
    /// Replaces the leaves that were there and shall be, and leaves those that were with the changes; all joins above them are stale.
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

    /// Goes on by a block each, as far as they do not end there.
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

    /// The leaf of an item that is there, all joins above it stale.
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

    /// The child of a block to which the way to `hash` leads.
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

    /// Whether a child is the leaf of `hash`; otherwise it is a block.
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

    /// Asks for a child that is a block, thawed or not.
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
