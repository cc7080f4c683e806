//! Thawed blocks: blocks in memory, while batches change them.

use super::super::entry::{Address, Entry, Kind};
use super::super::error::Error;
use super::super::hash::Hash;
use super::super::memory::View;
use super::MOST;
use super::block::Block;
use super::refresh::Queues;
use super::row::{Marks, Row};
use crate::merkle::Digest;
use crate::prefetch;

/// The fields that a lookup in a block reads first.
const HEAD_BYTES: usize = std::mem::offset_of!(Thaw, kids);

/// The index of no thawed block.
pub(super) const NONE: u32 = u32::MAX;

/// A thawed block. By child: `entries`, `digests`, `kids`; by join: `joins`, `bits`, `stale`. The
/// fields that a walk reads first come first, in one cache line; the fields that they lead to
/// follow.
#[derive(Default)]
#[repr(C, align(64))]
pub(super) struct Thaw {
    pub(super) parent: u32,
    /// Joins whose digest must be computed again.
    pub(super) stale: Marks,
    /// Whether it changed since digests were last computed.
    pub(super) changed: bool,
    /// Whether it changed since it was last written.
    pub(super) dirty: bool,
    pub(super) bits: Row<u8, MOST>,
    /// The sides of the joins, unless they must be computed again.
    pub(super) sides: Option<Sides>,
    /// The index of each child that is thawed.
    pub(super) kids: Row<u32>,
    /// The digest of each child; outdated for a child that is thawed and changed.
    pub(super) digests: Row<Digest>,
    pub(super) entries: Row<Entry>,
    /// Its address in the space, unless it is new.
    pub(super) home: Option<Address>,
    pub(super) joins: Row<Digest, MOST>,
}

const _: () = assert!(HEAD_BYTES <= 64);

/// The memory of a thawed block.
pub(super) const THAW_BYTES: usize = size_of::<Thaw>();

/// A side of a join: a child, or a join below.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Side(u8);

/// Marks a side that is a join.
const JOIN: u8 = 1 << 7;

impl Side {
    const fn child(child: u8) -> Side {
        Side(child)
    }

    const fn join(join: u8) -> Side {
        Side(join | JOIN)
    }

    /// `Ok` if it is a child, `Err` if it is a join.
    pub(super) const fn which(self) -> Result<usize, usize> {
        if self.0 & JOIN == 0 { Ok(self.0 as usize) } else { Err((self.0 & !JOIN) as usize) }
    }
}

/// The sides of a block's joins.
#[derive(Clone, Copy)]
pub(super) struct Sides {
    /// By join: its left side, and its right one, which holds the keys with the bit set.
    pub(super) of: [[Side; 2]; MOST],
    /// The topmost join, if there is one.
    pub(super) top: u8,
}

impl Sides {
    /// Reads the joins once. `open` holds the joins that the next one is below.
    fn of(bits: &[u8]) -> Sides {
        let mut sides = Sides { of: [[Side::default(); 2]; MOST], top: 0 };
        let mut open = [0u8; MOST];
        let mut depth = 0;
        for (join, bit) in bits.iter().enumerate().take(MOST) {
            let mut left = Side::child(join as u8);
            while depth > 0 && bits[usize::from(open[depth - 1])] > *bit {
                depth -= 1;
                left = Side::join(open[depth]);
            }
            if depth > 0 {
                sides.of[usize::from(open[depth - 1])][1] = Side::join(join as u8);
            }
            sides.of[join] = [left, Side::child(join as u8 + 1)];
            open[depth] = join as u8;
            depth += 1;
        }
        sides.top = open[0];
        sides
    }
}

/// The end of a walk through a thawed block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// A child.
    Child(usize),
    /// Between joins above and below the bit: beside these children, which form a subtree.
    Beside(usize, usize),
}

impl Thaw {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    fn fill(&mut self, block: &Block<'_>, parent: u32, home: Option<Address>) {
        self.clear(parent, home);
        self.entries.repeat(Entry::EMPTY, block.len());
        self.entries.iter_mut().zip(block.entries()).for_each(|(to, from)| *to = from);
        self.digests.set(block.digests);
        self.joins.repeat([0; 32], block.bits.len());
        self.bits.set(block.bits);
        self.kids.repeat(NONE, block.len());
        // The space does not store them.
        self.stale = Marks::all(block.bits.len());
    }

    pub(super) fn clear(&mut self, parent: u32, home: Option<Address>) {
        self.entries.clear();
        self.digests.clear();
        self.kids.clear();
        self.joins.clear();
        self.bits.clear();
        self.stale = Marks::default();
        (self.parent, self.home, self.sides) = (parent, home, None);
        (self.changed, self.dirty) = (false, false);
    }

    /// The sides of its joins.
    pub(super) fn sides(&mut self) -> &Sides {
        let bits = &self.bits;
        self.sides.get_or_insert_with(|| Sides::of(bits))
    }

    /// Records that joins were added or removed.
    pub(super) fn rearranged(&mut self) {
        self.changed = true;
        self.sides = None;
    }

    /// The bit of its topmost join.
    pub(super) fn top_bit(&mut self) -> Option<u8> {
        let top = usize::from(self.sides().top);
        self.bits.get(top).copied()
    }

    /// The digest of the whole block, which has at least two children and no stale joins.
    pub(super) fn topmost(&self) -> &Digest {
        &self.joins[self.sides.map_or(0, |sides| usize::from(sides.top))]
    }

    /// The child at which a search for `hash` continues.
    pub(super) fn route(&mut self, hash: &Hash) -> usize {
        if self.bits.is_empty() {
            return 0;
        }
        let mut at = Side::join(self.sides().top);
        loop {
            match at.which() {
                Ok(child) => return child,
                Err(join) => {
                    let right = usize::from(hash.bit(self.bits[join]));
                    at = self.sides().of[join][right];
                }
            }
        }
    }

    /// The same. It marks the joins on the way as stale, and prefetches what their hashing will
    /// read.
    pub(super) fn pass(&mut self, hash: &Hash) -> usize {
        self.changed = true;
        if self.bits.is_empty() {
            return 0;
        }
        let Sides { of, top } = *self.sides();
        let mut at = Side::join(top);
        // No branch except at the end: the side taken cannot be predicted.
        while let Err(join) = at.which() {
            self.stale.set(join);
            let sides = of[join];
            let right = usize::from(hash.bit(self.bits[join]));
            prefetch::ask_for(&self.joins[join]);
            prefetch::ask_for(self.digest_of(sides[1 - right]));
            at = sides[right];
        }
        usize::from(at.0)
    }

    /// The digest of a side of a join. Joins below must be up to date.
    pub(super) fn digest_of(&self, side: Side) -> &Digest {
        let (of, at) = match side.which() {
            Ok(child) => (&*self.digests, child),
            Err(join) => (&*self.joins, join),
        };
        &of[at]
    }

    /// Walks down to the joins below bit `least`, and marks the joins on the way as stale.
    pub(super) fn walk(&mut self, hash: &Hash, least: u8) -> Way {
        self.changed = true;
        if self.bits.is_empty() {
            return Way::Child(0);
        }
        let (mut from, mut to) = (0, self.bits.len() + 1);
        let mut at = Side::join(self.sides().top);
        loop {
            let join = match at.which() {
                Ok(child) => return Way::Child(child),
                Err(join) => join,
            };
            let bit = self.bits[join];
            if bit > least {
                return Way::Beside(from, to);
            }
            self.stale.set(join);
            let right = hash.bit(bit);
            if right {
                from = join + 1;
            } else {
                to = join + 1;
            }
            at = self.sides().of[join][usize::from(right)];
        }
    }

    /// Prefetches the fields that a walk reads first.
    pub(super) fn ask_for_head(&self) {
        prefetch::ask_for_bytes(std::ptr::from_ref(self).cast(), HEAD_BYTES);
    }

    /// The child that is the thawed block `kid`.
    pub(super) fn child_of(&self, kid: u32) -> Option<usize> {
        self.kids.iter().position(|there| *there == kid)
    }

    /// Inserts a child before child `at`, with the join to its neighbour at index `join`.
    pub(super) fn insert(
        &mut self,
        at: usize,
        (entry, digest): (Entry, Digest),
        join: usize,
        bit: u8,
    ) {
        self.entries.insert(at, entry);
        self.digests.insert(at, digest);
        self.kids.insert(at, NONE);
        self.joins.insert(join, [0; 32]);
        self.bits.insert(join, bit);
        self.stale.insert(join);
        self.rearranged();
    }

    /// Removes a child and the join directly above it.
    pub(super) fn remove(&mut self, at: usize) {
        if let Some(join) = self.holder(at) {
            self.joins.remove(join);
            self.bits.remove(join);
            self.stale.remove(join);
        }
        self.entries.remove(at);
        self.digests.remove(at);
        self.kids.remove(at);
        self.rearranged();
    }

    /// The join directly above a child: the lower of the two beside it.
    pub(super) fn holder(&self, at: usize) -> Option<usize> {
        let before = at.checked_sub(1).and_then(|join| Some((join, *self.bits.get(join)?)));
        let behind = self.bits.get(at).map(|bit| (at, *bit));
        match (before, behind) {
            (Some(a), Some(b)) => Some(if a.1 > b.1 { a.0 } else { b.0 }),
            (a, b) => a.or(b).map(|(join, _)| join),
        }
    }

    /// The child on the other side of the join directly above a child, if that side is one child.
    pub(super) fn sibling(&self, at: usize) -> Option<usize> {
        let join = self.holder(at)?;
        let above = |next: Option<&u8>| next.is_none_or(|bit| *bit < self.bits[join]);
        if join == at {
            above(self.bits.get(join + 1)).then_some(at + 1)
        } else {
            above(join.checked_sub(1).and_then(|before| self.bits.get(before))).then_some(at - 1)
        }
    }
}

/// The thawed blocks of a subtree, and the state of their hashing. It is kept to reuse its memory.
#[derive(Default)]
pub(super) struct Thawed {
    pub(super) blocks: Vec<Thaw>,
    /// The number of valid blocks. If 0, the root must be thawed first.
    count: usize,
    pub(super) root: u32,
    /// The address of the entry of the subtree.
    above: Address,
    /// The number of first bits that all its keys share.
    pub(super) shared: u8,
    pub(super) queues: Queues,
    /// The blocks that changed since digests were last computed, ...
    pub(super) met: Vec<u32>,
    /// ... unless blocks were added, removed or moved.
    pub(super) reshaped: bool,
    /// Slots taken for the blocks to write.
    pub(super) slots: Vec<Address>,
    /// Addresses of removed blocks, released when the others are written.
    pub(super) gone: Vec<Address>,
}

impl Thawed {
    /// Drops all thawed blocks.
    pub(super) fn forget(&mut self) {
        self.count = 0;
        self.gone.clear();
        self.met.clear();
        self.reshaped = false;
    }

    /// Releases the memory if it holds more than `kept` blocks, none of them valid. Another subtree
    /// will need as many next.
    pub(super) fn give_back(&mut self, kept: usize) {
        if self.blocks.len() > kept {
            self.blocks = Vec::new();
        }
    }

    /// The number of thawed blocks.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Thaws the root of a subtree, unless it is thawed: a block, or the only leaf, or nothing. Its
    /// keys share `shared` bits. The entry of the subtree is at `above`.
    pub(super) fn begin(
        &mut self,
        view: View<'_>,
        above: Address,
        (entry, digest): (Entry, Digest),
        shared: u8,
    ) -> Result<(), Error> {
        (self.above, self.shared) = (above, shared);
        if self.count > 0 {
            return Ok(());
        }
        let block = match entry.kind() {
            Kind::Empty | Kind::Item => None,
            _ => Some(Block::read(view, entry)?),
        };
        self.root = self.fresh();
        let root = self.block(self.root);
        root.clear(NONE, None);
        if let Some(block) = block {
            root.fill(&block, NONE, Some(entry.address()));
            if root.top_bit() < Some(shared) {
                self.forget();
                let what = "the bits of a block of digests";
                return Err(view.memory().damaged(entry.address(), what));
            }
        } else if entry.kind() == Kind::Item {
            root.entries.push(entry);
            root.digests.push(digest);
            root.kids.push(NONE);
        }
        Ok(())
    }

    /// Provides an empty block.
    pub(super) fn fresh(&mut self) -> u32 {
        if self.count == self.blocks.len() {
            self.blocks.push(Thaw::default());
        }
        self.count += 1;
        self.count as u32 - 1
    }

    /// The address of a block, or of the nearest block above it in the space.
    pub(super) fn place(&self, index: u32) -> Address {
        let home = self.blocks.get(index as usize).and_then(|block| block.home);
        home.unwrap_or(self.above)
    }

    /// Records that the block at an address is removed.
    pub(super) fn leave(&mut self, home: Option<Address>) {
        self.gone.extend(home);
    }

    pub(super) fn block(&mut self, index: u32) -> &mut Thaw {
        &mut self.blocks[index as usize]
    }

    /// Thaws a child that is a block.
    pub(super) fn kid(&mut self, view: View<'_>, of: u32, child: usize) -> Result<u32, Error> {
        let there = self.block(of).kids[child];
        if there != NONE {
            return Ok(there);
        }
        let entry = self.block(of).entries[child];
        let block = Block::read(view, entry)?;
        if block.len() < 2 {
            return Err(view
                .memory()
                .damaged(entry.address(), "a block of digests with one child"));
        }
        let kid = self.fresh();
        self.block(kid).fill(&block, of, Some(entry.address()));
        let above = self.block(of).holder(child).map(|join| self.block(of).bits[join]);
        // Bits grow on every path down, so each path ends.
        if above >= self.block(kid).top_bit() {
            return Err(view.memory().damaged(entry.address(), "the bits of a block of digests"));
        }
        self.block(of).kids[child] = kid;
        Ok(kid)
    }

    /// Finds the leaf at which a search for `hash` ends, and thaws the path to it. Returns its
    /// block and its index in it, or `None` if there is no leaf at all.
    pub(super) fn candidate(
        &mut self,
        view: View<'_>,
        hash: &Hash,
    ) -> Result<Option<(u32, usize)>, Error> {
        let mut at = self.root;
        loop {
            let block = self.block(at);
            if block.len() == 0 {
                return Ok(None);
            }
            let child = block.route(hash);
            match block.entries[child].kind() {
                Kind::Item => return Ok(Some((at, child))),
                _ => at = self.kid(view, at, child)?,
            }
        }
    }
}
