//! The digest tree while batches change it: subtrees of the keys that begin with the same four bits, each thawed by itself, so that threads can
//! share the work.

use super::super::entry::{Address, Entry, Kind};
use super::super::error::Error;
use super::super::memory::View;
use super::super::slab::SlotUse;
use super::super::space::Space;
use super::block::{Block, bytes_of, head};
use super::thaw::{THAW_BYTES, Thawed};
use super::{Crown, LeafChange, MOST, refresh};
use crate::merkle::Digest;
use std::sync::{Mutex, PoisonError};

/// Keys of a subtree have so many bits in common, ...
const SHARED_BITS: u8 = 4;
/// ... and the root has a place for each.
const SUBTREES: usize = 1 << SHARED_BITS;
const _: () = assert!(SUBTREES == MOST);
/// So many changes of a subtree are hashed together: what they meet stays in the processor's cache.
const CHANGES_AT_ONCE: usize = 256;
/// Where what is thawed is written and forgotten, it is so after this many changes of each subtree.
const CHANGES_IN_ROUND: usize = 128;
/// Fewer changes than this are not worth a thread.
const CHANGES_TO_SHARE: usize = 128;

/// The bytes of a slot for any root.
pub(in super::super) const ROOT_BYTES: u32 = bytes_of(SUBTREES) as u32;

/// All keys that begin with the same bits.
#[derive(Default)]
struct Subtree {
    /// What leads to it, as it was written last.
    entry: Entry,
    /// That of all its leaves, if there are any.
    digest: Option<Digest>,
    thawed: Thawed,
}

/// The changes of each subtree.
type Slices<'a> = [&'a [LeafChange]; SUBTREES];

impl Subtree {
    fn apply(
        &mut self,
        view: View<'_>,
        root: Address,
        changes: &[LeafChange],
    ) -> Result<(), Error> {
        let top = (self.entry, self.digest.unwrap_or_default());
        self.thawed.begin(view, root, top, SHARED_BITS)?;
        for chunk in changes.chunks(CHANGES_AT_ONCE) {
            self.thawed.change(view, chunk)?;
            if refresh::hash(&mut self.thawed) {
                self.digest = refresh::digest(&self.thawed);
            }
        }
        Ok(())
    }
}

/// The digest tree at work. Kept for its memory.
pub(in super::super) struct Forest {
    /// So many threads share the work.
    threads: usize,
    /// So many blocks at most are thawed between batches.
    limit: usize,
    /// What follows is of the last version.
    begun: bool,
    /// Where the root is.
    home: Option<Address>,
    trees: [Subtree; SUBTREES],
}

impl Forest {
    /// Nothing yet; blocks of `memory` bytes may be thawed between batches.
    pub(in super::super) fn new(threads: usize, memory: u64) -> Forest {
        let limit = usize::try_from(memory).unwrap_or(usize::MAX) / THAW_BYTES;
        Forest { threads, limit, begun: false, home: None, trees: Default::default() }
    }

    /// Brings the digest tree at `root` up to date, and writes it; the new root. `changes` is emptied.
    ///
    /// # Errors
    /// [`Error::LimitReached`], [`Error::Io`], [`Error::Damaged`].
    pub(in super::super) fn update(
        &mut self,
        space: &mut Space,
        root: Entry,
        crown: Crown,
        changes: &mut Vec<LeafChange>,
    ) -> Result<Entry, Error> {
        unite(changes);
        let updated = self.rounds(space, root, crown, changes);
        self.begun = updated.is_ok();
        self.forget();
        changes.clear();
        updated
    }

    fn rounds(
        &mut self,
        space: &mut Space,
        root: Entry,
        crown: Crown,
        changes: &[LeafChange],
    ) -> Result<Entry, Error> {
        self.begin(space.view(), root)?;
        // Whatever ends this early, the root is read again.
        self.begun = false;
        let mut rest = by_subtree(changes);
        while rest.iter().any(|slice| !slice.is_empty()) {
            let mut round: Slices<'_> = Default::default();
            for (round, rest) in round.iter_mut().zip(&mut rest) {
                (*round, *rest) = rest.split_at(rest.len().min(CHANGES_IN_ROUND));
            }
            self.apply(space.view(), round)?;
            self.take_slots(space)?;
            self.write_subtrees(space);
            self.forget();
        }
        let slot = self.take_root(space)?;
        Ok(self.write_root(space, slot, false, crown))
    }

    /// Brings what is thawed of the digest tree at `root` up to date, and writes the root alone to a slot of [`ROOT_BYTES`]; the new root.
    /// `changes` is emptied.
    ///
    /// # Errors
    /// [`Error::Damaged`]: then what is thawed is of no use any more.
    pub(in super::super) fn update_thawed(
        &mut self,
        space: &mut Space,
        (root, slot): (Entry, Address),
        crown: Crown,
        changes: &mut Vec<LeafChange>,
    ) -> Result<Entry, Error> {
        unite(changes);
        self.begin(space.view(), root)?;
        self.apply(space.view(), by_subtree(changes))?;
        changes.clear();
        if let Some(home) = self.home {
            space.free(home, SlotUse::Digest)?;
        }
        Ok(self.write_root(space, slot, true, crown))
    }

    /// Writes what is thawed; the root.
    ///
    /// # Errors
    /// [`Error::LimitReached`], [`Error::Io`], [`Error::Damaged`]: then nothing was written.
    pub(in super::super) fn write(
        &mut self,
        space: &mut Space,
        crown: Crown,
    ) -> Result<Entry, Error> {
        self.take_slots(space)?;
        let slot = self.take_root(space)?;
        self.write_subtrees(space);
        Ok(self.write_root(space, slot, false, crown))
    }

    /// Forgets what is thawed.
    pub(in super::super) fn forget(&mut self) {
        let kept = self.limit.div_ceil(SUBTREES).saturating_mul(2);
        for tree in &mut self.trees {
            tree.thawed.forget();
            tree.thawed.give_back(kept);
        }
    }

    /// Whether so much is thawed that it should be written and forgotten.
    pub(in super::super) fn is_full(&self) -> bool {
        self.trees.iter().map(|tree| tree.thawed.count()).sum::<usize>() > self.limit
    }

    /// Reads the root, unless it is known.
    fn begin(&mut self, view: View<'_>, root: Entry) -> Result<(), Error> {
        if self.begun {
            return Ok(());
        }
        let block = Block::read(view, root)?;
        let damaged = || view.memory().damaged(root.address(), "the topmost block of digests");
        if block.digits.count_ones() as usize != block.len() {
            return Err(damaged());
        }
        let mut children = block.entries().zip(block.digests);
        for (digit, tree) in self.trees.iter_mut().enumerate() {
            let child = if block.digits >> digit & 1 == 1 { children.next() } else { None };
            if child.is_some_and(|(entry, _)| entry.kind() == Kind::Empty) {
                return Err(damaged());
            }
            tree.entry = child.map_or(Entry::EMPTY, |(entry, _)| entry);
            tree.digest = child.map(|(_, digest)| *digest);
            tree.thawed.forget();
        }
        self.home = (root != Entry::EMPTY).then(|| root.address());
        self.begun = true;
        Ok(())
    }

    /// Changes the subtrees, and computes their digests.
    fn apply(&mut self, view: View<'_>, slices: Slices<'_>) -> Result<(), Error> {
        let root = self.home.unwrap_or_default();
        let changes = slices.iter().map(|slice| slice.len()).sum::<usize>();
        let busy = slices.iter().filter(|slice| !slice.is_empty()).count();
        let jobs = self.trees.iter_mut().zip(slices).filter(|(_, slice)| !slice.is_empty());
        if self.threads.min(busy) < 2 || changes < CHANGES_TO_SHARE {
            let mut jobs = jobs;
            return jobs.try_for_each(|(tree, slice)| tree.apply(view, root, slice));
        }
        let threads = self.threads.min(busy);
        let jobs = Mutex::new(jobs);
        let work = || {
            let next = || jobs.lock().unwrap_or_else(PoisonError::into_inner).next();
            while let Some((tree, slice)) = next() {
                tree.apply(view, root, slice)?;
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let named = |_| std::thread::Builder::new().name("store-hash".to_string());
            // Where there is no thread to be had, there is one that works.
            let others: Vec<_> = (1..threads)
                .map(named)
                .filter_map(|thread| thread.spawn_scoped(scope, work).ok())
                .collect();
            let own = work();
            others.into_iter().fold(own, |result, other| {
                result.and(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            })
        })
    }

    fn take_slots(&mut self, space: &mut Space) -> Result<(), Error> {
        let mut dirty = self.trees.iter_mut().filter(|tree| refresh::is_dirty(&tree.thawed));
        dirty.try_for_each(|tree| refresh::take_slots(&mut tree.thawed, space))
    }

    fn write_subtrees(&mut self, space: &mut Space) {
        for tree in self.trees.iter_mut().filter(|tree| refresh::is_dirty(&tree.thawed)) {
            tree.entry = refresh::write(&mut tree.thawed, space);
        }
    }

    /// Takes a slot for another root.
    fn take_root(&mut self, space: &mut Space) -> Result<Address, Error> {
        let slot = space.take(SlotUse::Digest, ROOT_BYTES)?;
        if let Some(home) = self.home {
            space.free(home, SlotUse::Digest)?;
        }
        Ok(slot)
    }

    fn write_root(&mut self, space: &mut Space, slot: Address, alone: bool, crown: Crown) -> Entry {
        let taken = || self.trees.iter().enumerate().filter(|(_, tree)| tree.digest.is_some());
        let digits = taken().fold(0, |digits, (digit, _)| digits | 1 << digit);
        let entry = |tree: &Subtree| if alone { Entry::EMPTY } else { tree.entry };
        let children: Vec<(Entry, Digest)> =
            taken().filter_map(|(_, tree)| Some((entry(tree), tree.digest?))).collect();
        let bits: Vec<u8> = taken()
            .zip(taken().skip(1))
            .map(|((a, _), (b, _))| SHARED_BITS - 1 - (a ^ b).ilog2() as u8)
            .collect();
        let head = head(children.len(), digits, alone, crown);
        refresh::fill(space, slot, &head, children.iter().map(|(a, b)| (a, b)), &bits);
        self.home = Some(slot);
        Entry::node(slot)
    }
}

/// Which subtree a change is of.
fn digit(change: &LeafChange) -> usize {
    usize::from(change.hash.0[0] >> (8 - SHARED_BITS))
}

fn by_subtree(changes: &[LeafChange]) -> Slices<'_> {
    let mut slices: Slices<'_> = Default::default();
    for slice in changes.chunk_by(|a, b| digit(a) == digit(b)) {
        if let Some(first) = slice.first() {
            slices[digit(first)] = slice;
        }
    }
    slices
}

/// Makes the changes of each item one.
fn unite(changes: &mut Vec<LeafChange>) {
    // Stable: of the changes of one item the first knows what was there, the last what is there now.
    changes.sort_by_key(|change| change.hash);
    changes.dedup_by(|later, first| {
        let same = later.hash == first.hash;
        if same {
            first.leaf = later.leaf;
        }
        same
    });
}
