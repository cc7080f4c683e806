//! The hashing of stale joins in thawed blocks, and the writing of changed blocks.

use super::super::entry::{Address, Entry};
use super::super::error::Error;
use super::super::slab::SlotUse;
use super::super::space::Space;
use super::block::{HEAD_BYTES, bytes_of, head};
use super::row::Marks;
use super::thaw::{Side, Sides, Thaw, Thawed};
use super::{Crown, MOST};
use crate::merkle::{BATCH, Digest, Domain, Message, lanes, message};

/// Queues of joins to hash, by bit, with their blocks.
pub(super) struct Queues {
    by_bit: Vec<Vec<Job>>,
    /// The bits whose queue is not empty, one bit each.
    bits: [u64; 4],
    /// Blocks to hash or to write. For writing, each follows those below it.
    order: Vec<u32>,
}

impl Default for Queues {
    fn default() -> Queues {
        Queues { by_bit: vec![Vec::new(); 256], bits: [0; 4], order: Vec::new() }
    }
}

/// A join to be hashed, and its sides.
#[derive(Clone, Copy)]
struct Job {
    block: u32,
    join: u8,
    sides: [Side; 2],
    /// If the join is the topmost of its block: the index of that block in its parent.
    child: Option<u8>,
}

/// Computes the digests of all changes. Returns whether there were any.
pub(super) fn hash(thawed: &mut Thawed) -> bool {
    let root = thawed.root;
    let Thawed { blocks, queues, met, reshaped, .. } = thawed;
    if !blocks[root as usize].changed {
        return false;
    }
    if std::mem::take(reshaped) {
        queues.collect(blocks, root, |block| block.changed);
        met.clear();
    } else {
        queues.order.clear();
        queues.order.append(met);
    }
    queues.hash(blocks);
    for index in &queues.order {
        let block = &mut blocks[*index as usize];
        (block.changed, block.dirty) = (false, true);
        block.stale = Marks::default();
    }
    true
}

/// Takes slots for all blocks that were hashed and not written, and releases their old ones. May be
/// repeated if the space abandons the batch.
///
/// # Errors
/// [`Error::LimitReached`], [`Error::Io`], [`Error::Damaged`].
pub(super) fn take_slots(thawed: &mut Thawed, space: &mut Space) -> Result<(), Error> {
    let root = thawed.root;
    let Thawed { blocks, queues, slots, gone, .. } = thawed;
    queues.collect(blocks, root, |block| block.dirty);
    if is_lone(&blocks[root as usize]) {
        queues.order.clear();
        gone.extend(blocks[root as usize].home.take());
    }
    slots.clear();
    for index in &queues.order {
        let block = &blocks[*index as usize];
        slots.push(space.take(SlotUse::Digest, bytes_of(block.len()) as u32)?);
        if let Some(home) = block.home {
            space.free(home, SlotUse::Digest)?;
        }
    }
    gone.iter().try_for_each(|home| space.free(*home, SlotUse::Digest))
}

/// Whether any block was hashed and not written.
pub(super) fn is_dirty(thawed: &Thawed) -> bool {
    thawed.count() > 0 && thawed.blocks[thawed.root as usize].dirty
}

/// Whether the root of a subtree is no block: there is at most one leaf.
fn is_lone(root: &Thaw) -> bool {
    root.len() < 2
}

/// Writes to the slots that were taken. Returns the entry of the subtree.
pub(super) fn write(thawed: &mut Thawed, space: &mut Space) -> Entry {
    let root = thawed.root as usize;
    let Thawed { blocks, queues, slots, gone, .. } = thawed;
    gone.clear();
    for (index, slot) in queues.order.iter().zip(&*slots) {
        pull_homes(blocks, *index as usize);
        let block = &mut blocks[*index as usize];
        let head = head(block.len(), 0, false, Crown::default());
        fill(space, *slot, head, (&block.entries, &block.digests), &block.bits);
        block.home = Some(*slot);
        block.dirty = false;
    }
    let root = &mut blocks[root];
    root.dirty = false;
    match (root.home, &*root.entries) {
        (Some(home), _) => Entry::node(home),
        (None, [leaf]) => *leaf,
        (None, _) => Entry::EMPTY,
    }
}

/// The digest of a hashed subtree, if it has a leaf.
pub(super) fn digest(thawed: &Thawed) -> Option<Digest> {
    let root = thawed.blocks.get(thawed.root as usize)?;
    if is_lone(root) { root.digests.first().copied() } else { Some(*root.topmost()) }
}

/// Writes a block into a slot: its head, its children and their digests, the bits of its joins.
pub(super) fn fill(
    space: &mut Space,
    slot: Address,
    head: [u8; HEAD_BYTES],
    (entries, digests): (&[Entry], &[Digest]),
    bits: &[u8],
) {
    let mut front = [0; HEAD_BYTES + 8 * MOST];
    let (begins, children) = front.split_at_mut(HEAD_BYTES);
    begins.copy_from_slice(&head);
    children.as_chunks_mut().0.iter_mut().zip(entries).for_each(|(to, entry)| {
        *to = entry.0.to_le_bytes();
    });
    let mut at = 0;
    for part in [&front[..HEAD_BYTES + 8 * entries.len()], digests.as_flattened(), bits] {
        space.amend(slot, at, part);
        at += part.len();
    }
}

/// The index of a block in its parent, and the parent.
fn place_above(blocks: &[Thaw], index: u32) -> Option<(usize, usize)> {
    let parent = blocks[index as usize].parent as usize;
    Some((parent, blocks.get(parent)?.child_of(index)?))
}

/// Copies the addresses of a block's thawed children into it.
fn pull_homes(blocks: &mut [Thaw], index: usize) {
    for child in 0..blocks[index].len() {
        let below = blocks.get(blocks[index].kids[child] as usize);
        if let Some(home) = below.and_then(|below| below.home) {
            blocks[index].entries[child] = Entry::node(home);
        }
    }
}

/// Removes the highest bit from a set.
fn last_bit(bits: &mut [u64; 4]) -> Option<u8> {
    let (word, of) = bits.iter_mut().enumerate().rev().find(|(_, of)| **of != 0)?;
    let bit = of.ilog2();
    *of &= !(1 << bit);
    Some(word as u8 * 64 + bit as u8)
}

impl Queues {
    /// Finds the blocks of a kind from the root down. Each follows those below it.
    fn collect(&mut self, blocks: &[Thaw], root: u32, is_kind: impl Fn(&Thaw) -> bool) {
        self.order.clear();
        self.order.push(root);
        let mut next = 0;
        while let Some(index) = self.order.get(next).copied() {
            next += 1;
            let kids = &blocks[index as usize].kids;
            let wanted = |kid: &&u32| blocks.get(**kid as usize).is_some_and(&is_kind);
            self.order.extend(kids.iter().filter(wanted));
        }
        self.order.reverse();
    }

    /// Queues the stale joins of a block.
    fn add(&mut self, blocks: &mut [Thaw], index: u32) {
        let above = place_above(blocks, index);
        let block = &mut blocks[index as usize];
        let Sides { of, top } = *block.sides();
        for (join, bit) in block.bits.iter().copied().enumerate() {
            if block.stale.has(join) {
                let child = above.filter(|_| join == usize::from(top));
                self.by_bit[usize::from(bit)].push(Job {
                    block: index,
                    join: join as u8,
                    sides: of[join],
                    child: child.map(|(_, child)| child as u8),
                });
                self.bits[usize::from(bit / 64)] |= 1 << (bit % 64);
            }
        }
        // After a removal the topmost join may be another one that is not stale.
        if let Some((parent, child)) = above
            && !block.stale.has(usize::from(top))
        {
            let digest = *block.topmost();
            blocks[parent].digests[child] = digest;
        }
    }

    /// Hashes the stale joins of the found blocks, from the last bit to the first, because joins
    /// below have higher bits. The topmost digest of each block goes to its parent.
    fn hash(&mut self, blocks: &mut [Thaw]) {
        for at in 0..self.order.len() {
            self.add(blocks, self.order[at]);
        }
        let mut messages: [Message; BATCH] = [[0; 64]; BATCH];
        while let Some(bit) = last_bit(&mut self.bits) {
            let jobs = &mut self.by_bit[usize::from(bit)];
            let domain = Domain::join(bit);
            for group in jobs.chunks(BATCH) {
                for (place, job) in messages.iter_mut().zip(group) {
                    let block = &blocks[job.block as usize];
                    let [left, right] = job.sides;
                    *place = message(block.digest_of(left), block.digest_of(right));
                }
                // Lanes without a job hash old content: that costs less than to hash the last joins
                // one by one.
                let places = messages.each_ref();
                let hashes = domain.hash_together(&places[..lanes(group.len())]);
                for (hash, job) in hashes.iter().zip(group) {
                    let block = &mut blocks[job.block as usize];
                    block.joins[usize::from(job.join)] = *hash;
                    if let Some(child) = job.child {
                        let parent = block.parent as usize;
                        blocks[parent].digests[usize::from(child)] = *hash;
                    }
                }
            }
            jobs.clear();
        }
    }
}
