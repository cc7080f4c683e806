//! The digest tree while batches change it. The keys that share their first four bits form a
//! subtree. Each subtree is thawed alone, so that threads can [share](super::share) the work.

use super::super::entry::{Address, Entry, Kind};
use super::super::error::Error;
use super::super::hash::Hash;
use super::super::memory::View;
use super::super::slab::SlotUse;
use super::super::space::Space;
use super::block::{Block, bytes_of, head};
use super::share::{Broken, Round};
use super::thaw::{THAW_BYTES, Thawed};
use super::{Crown, LeafChange, MOST, refresh};
use crate::merkle::Digest;

/// The number of first bits that the keys of a subtree share, ...
const SHARED_BITS: u8 = 4;
/// ... and the number of subtrees, each with a place in the root.
pub(super) const SUBTREES: usize = 1 << SHARED_BITS;
const _: () = assert!(SUBTREES == MOST);
/// The number of changes that are hashed together, so that their blocks stay in the processor's
/// cache.
const CHANGES_AT_ONCE: usize = 256;
/// If thawed blocks are written and dropped at once, that happens after this many changes for each
/// subtree.
const CHANGES_IN_ROUND: usize = 128;
/// Fewer changes than this are not worth a thread.
const CHANGES_TO_SHARE: usize = 128;

/// The length of a slot for any root.
pub(in super::super) const ROOT_BYTES: u32 = bytes_of(SUBTREES) as u32;

/// All keys that begin with the same bits.
#[derive(Default)]
pub(super) struct Subtree {
    /// Its entry, as written last.
    entry: Entry,
    /// The digest of all its leaves, if there are any.
    digest: Option<Digest>,
    /// The changes of the last round. Once they are applied, the changes that undo them.
    pub(super) changes: Vec<LeafChange>,
    thawed: Thawed,
}

/// The changes of each subtree.
pub(super) type Slices<'a, T> = [&'a [T]; SUBTREES];

impl Subtree {
    /// Applies its changes, or undoes them.
    pub(super) fn apply(&mut self, view: View<'_>, root: Address) -> Result<(), Error> {
        let top = (self.entry, self.digest.unwrap_or_default());
        self.thawed.begin(view, root, top, SHARED_BITS)?;
        for chunk in self.changes.chunks_mut(CHANGES_AT_ONCE) {
            self.thawed.change(view, chunk)?;
            if refresh::hash(&mut self.thawed) {
                self.digest = refresh::digest(&self.thawed);
            }
        }
        Ok(())
    }

    /// Takes slots for its changed blocks.
    fn take_slots(&mut self, space: &mut Space) -> Result<(), Error> {
        if refresh::is_dirty(&self.thawed) {
            refresh::take_slots(&mut self.thawed, space)?;
        }
        Ok(())
    }

    /// Writes the changed blocks to their slots.
    fn write(&mut self, space: &mut Space) {
        if refresh::is_dirty(&self.thawed) {
            self.entry = refresh::write(&mut self.thawed, space);
        }
    }
}

/// The state of updates to the digest tree. It is kept to reuse its memory.
pub(in super::super) struct Forest {
    /// The number of threads that share the work.
    threads: usize,
    /// The most blocks that stay thawed between batches.
    limit: usize,
    /// Whether the following fields are of the last version.
    begun: bool,
    /// The address of the root.
    home: Option<Address>,
    trees: [Subtree; SUBTREES],
}

impl Forest {
    /// An empty state. Blocks of `memory` bytes may stay thawed between batches.
    pub(in super::super) fn new(threads: usize, memory: u64) -> Forest {
        let limit = usize::try_from(memory).unwrap_or(usize::MAX) / THAW_BYTES;
        Forest { threads, limit, begun: false, home: None, trees: Default::default() }
    }

    /// Applies `changes`, in the order of their hashes, to the digest tree at `root`, and writes it
    /// except its [root](Self::write_root). In each round `edit` gets the changes of each subtree
    /// and turns them into changes of leaves.
    ///
    /// # Errors
    /// [`Error::LimitReached`], [`Error::Io`], [`Error::Damaged`]; those of `edit`.
    pub(in super::super) fn update<T>(
        &mut self,
        space: &mut Space,
        root: Entry,
        (changes, hash): (&[T], impl Fn(&T) -> &Hash),
        mut edit: impl FnMut(&mut Space, &[T], &mut Vec<LeafChange>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.begin(space.view(), root)?;
        // After an early end the root is read again.
        self.begun = false;
        let mut rest = by_subtree(changes, hash);
        while rest.iter().any(|slice| !slice.is_empty()) {
            let mut round: Slices<'_, T> = Default::default();
            for (round, rest) in round.iter_mut().zip(&mut rest) {
                (*round, *rest) = rest.split_at(rest.len().min(CHANGES_IN_ROUND));
            }
            let changed = self.make(space, &round, &mut edit, |space, subtree| {
                subtree.take_slots(space)?;
                subtree.write(space);
                Ok(())
            });
            self.forget();
            if let Err(Broken::Edit(error) | Broken::Subtrees(error)) = changed {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Writes the root after an [update](Self::update).
    ///
    /// # Errors
    /// [`Error::LimitReached`], [`Error::Io`], [`Error::Damaged`].
    pub(in super::super) fn end_update(
        &mut self,
        space: &mut Space,
        crown: Crown,
    ) -> Result<Entry, Error> {
        let slot = self.take_root(space)?;
        self.begun = true;
        Ok(self.write_root(space, slot, false, crown))
    }

    /// Applies `changes`, in the order of their hashes, to the thawed part of the digest tree at
    /// `root`. `edit` gets the changes of each subtree and turns them into changes of leaves.
    ///
    /// # Errors
    /// [`Broken::Edit`]: a part may have to be [undone](Self::undo).
    /// [`Broken::Subtrees`]: the thawed part is unusable.
    pub(in super::super) fn update_thawed<T>(
        &mut self,
        space: &mut Space,
        root: Entry,
        (changes, hash): (&[T], impl Fn(&T) -> &Hash),
        edit: impl FnMut(&mut Space, &[T], &mut Vec<LeafChange>) -> Result<(), Error>,
    ) -> Result<(), Broken> {
        self.begin(space.view(), root).map_err(Broken::Subtrees)?;
        self.make(space, &by_subtree(changes, hash), edit, |_, _| Ok(()))
    }

    /// Writes only the root after an [update](Self::update_thawed), to a slot of [`ROOT_BYTES`].
    ///
    /// # Errors
    /// [`Error::Damaged`]: then the thawed part is unusable.
    pub(in super::super) fn end_update_thawed(
        &mut self,
        space: &mut Space,
        slot: Address,
        crown: Crown,
    ) -> Result<Entry, Error> {
        if let Some(home) = self.home {
            space.free(home, SlotUse::Digest)?;
        }
        Ok(self.write_root(space, slot, true, crown))
    }

    /// Restores the leaves that a failed update has changed. If other changes are `unwritten`,
    /// leaves are restored one by one, and the visited blocks will be written although they are
    /// unchanged. Otherwise everything can be read again.
    ///
    /// # Errors
    /// [`Error::Damaged`]: then the thawed part is unusable.
    pub(in super::super) fn undo(&mut self, view: View<'_>, unwritten: bool) -> Result<(), Error> {
        let root = self.home.unwrap_or_default();
        let mut changed = self.trees.iter_mut().filter(|tree| !tree.changes.is_empty()).peekable();
        if unwritten {
            return changed.try_for_each(|tree| tree.apply(view, root));
        }
        if changed.peek().is_some() {
            // Everything can be read again.
            self.forget();
            self.begun = false;
        }
        Ok(())
    }

    /// Writes the thawed part. Returns the root.
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

    /// Drops the thawed part.
    pub(in super::super) fn forget(&mut self) {
        let kept = self.limit.div_ceil(SUBTREES).saturating_mul(2);
        for tree in &mut self.trees {
            tree.thawed.forget();
            tree.thawed.give_back(kept);
        }
    }

    /// Whether enough is thawed to write and drop it.
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

    /// Applies the changes of a round, with as many threads as are worthwhile.
    #[allow(unsafe_code)]
    fn make<T>(
        &mut self,
        space: &mut Space,
        slices: &Slices<'_, T>,
        edit: impl FnMut(&mut Space, &[T], &mut Vec<LeafChange>) -> Result<(), Error>,
        finish: impl FnMut(&mut Space, &mut Subtree) -> Result<(), Error>,
    ) -> Result<(), Broken> {
        let Forest { threads, trees, home, .. } = self;
        let root = home.unwrap_or_default();
        trees.iter_mut().for_each(|tree| tree.changes.clear());
        let round = Round { slices, edit, finish };
        let changes = slices.iter().map(|slice| slice.len()).sum::<usize>();
        let helpers = (*threads).min(SUBTREES) - 1;
        if helpers == 0 || changes < CHANGES_TO_SHARE {
            return round.alone(space, trees, root);
        }
        // SAFETY: other threads read digest blocks of earlier batches and rounds, and items of
        // subtrees that were handed over. Neither `edit` nor `finish` ends a batch or releases
        // anything.
        unsafe { space.beside(|space, view| round.shared(space, trees, (view, root), helpers)) }
    }

    fn take_slots(&mut self, space: &mut Space) -> Result<(), Error> {
        self.trees.iter_mut().try_for_each(|tree| tree.take_slots(space))
    }

    fn write_subtrees(&mut self, space: &mut Space) {
        self.trees.iter_mut().for_each(|tree| tree.write(space));
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
        let (entries, digests): (Vec<Entry>, Vec<Digest>) =
            taken().filter_map(|(_, tree)| Some((entry(tree), tree.digest?))).unzip();
        let bits: Vec<u8> = taken()
            .zip(taken().skip(1))
            .map(|((a, _), (b, _))| SHARED_BITS - 1 - (a ^ b).ilog2() as u8)
            .collect();
        let head = head(entries.len(), digits, alone, crown);
        refresh::fill(space, slot, head, (&entries, &digests), &bits);
        self.home = Some(slot);
        Entry::node(slot)
    }
}

/// Divides changes, in the order of their hashes, by subtree.
fn by_subtree<T>(changes: &[T], hash: impl Fn(&T) -> &Hash) -> Slices<'_, T> {
    let mut slices: Slices<'_, T> = Default::default();
    let digit = |item: &T| usize::from(hash(item).0[0] >> (8 - SHARED_BITS));
    for slice in changes.chunk_by(|a, b| digit(a) == digit(b)) {
        if let Some(first) = slice.first() {
            slices[digit(first)] = slice;
        }
    }
    slices
}
