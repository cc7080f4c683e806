//! Hashing what is stale among thawed blocks, and writing what has changed.

use super::super::entry::{Address, Entry};
use super::super::error::Error;
use super::super::slab::SlotUse;
use super::super::space::Space;
use super::Crown;
use super::block::{bytes_of, head};
use super::thaw::{Side, Thaw, Thawed};
use crate::merkle::{Digest, Domain, Message, TOGETHER, message};
use blake3::platform::Platform;

/// Joins to be hashed, by their bits, and the blocks they are in.
pub(super) struct Queues {
    by_bit: Vec<Vec<Job>>,
    /// Blocks, each behind those below it.
    order: Vec<u32>,
}

impl Default for Queues {
    fn default() -> Queues {
        Queues { by_bit: vec![Vec::new(); 256], order: Vec::new() }
    }
}

/// A join to be hashed, and its sides.
#[derive(Clone, Copy)]
struct Job {
    block: u32,
    join: u8,
    left: Side,
    right: Side,
}

/// Computes the digests of all that has changed; whether anything has.
pub(super) fn hash(thawed: &mut Thawed) -> bool {
    let root = thawed.root;
    let Thawed { blocks, queues, .. } = thawed;
    if !blocks[root as usize].changed {
        return false;
    }
    queues.collect(blocks, root, |block| block.changed);
    queues.hash(blocks);
    for index in &queues.order {
        pull_digests(blocks, *index as usize);
    }
    for index in &queues.order {
        let block = &mut blocks[*index as usize];
        (block.changed, block.dirty) = (false, true);
        block.stale.fill(false);
    }
    true
}

/// Takes the slots for all that was hashed and not written, and gives back those it had. May be done again if the space gives the batch up.
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

/// Whether something was hashed and not written.
pub(super) fn is_dirty(thawed: &Thawed) -> bool {
    thawed.count() > 0 && thawed.blocks[thawed.root as usize].dirty
}

/// Whether the root of a subtree is none: there is one leaf, or nothing.
fn is_lone(root: &Thaw) -> bool {
    root.len() < 2
}

/// Writes to the slots that were taken; what leads to the subtree.
pub(super) fn write(thawed: &mut Thawed, space: &mut Space) -> Entry {
    let root = thawed.root as usize;
    let Thawed { blocks, queues, slots, gone, .. } = thawed;
    gone.clear();
    for (index, slot) in queues.order.iter().zip(&*slots) {
        pull_homes(blocks, *index as usize);
        let block = &mut blocks[*index as usize];
        let children = block.entries.iter().zip(&*block.digests);
        fill(space, *slot, &head(block.len(), 0, false, Crown::default()), children, &block.bits);
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

/// The digest of a subtree that was hashed, if it has a leaf.
pub(super) fn digest(thawed: &Thawed) -> Option<Digest> {
    let root = thawed.blocks.get(thawed.root as usize)?;
    if is_lone(root) { root.digests.first().copied() } else { Some(*root.topmost()) }
}

/// Puts a block into a slot: what it begins with, its children and their digests, the bits of its joins.
pub(super) fn fill<'a>(
    space: &mut Space,
    slot: Address,
    head: &[u8],
    children: impl Iterator<Item = (&'a Entry, &'a Digest)> + Clone,
    bits: &[u8],
) {
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        space.amend(slot, at, bytes);
        at += bytes.len();
    };
    put(head);
    children.clone().for_each(|(entry, _)| put(&entry.0.to_le_bytes()));
    children.for_each(|(_, digest)| put(digest));
    put(bits);
}

/// Takes over the digests of the changed children of a block.
fn pull_digests(blocks: &mut [Thaw], index: usize) {
    for child in 0..blocks[index].len() {
        let below = blocks.get(blocks[index].kids[child] as usize).filter(|kid| kid.changed);
        if let Some(digest) = below.map(|below| *below.topmost()) {
            blocks[index].digests[child] = digest;
        }
    }
}

/// Takes over where the thawed children of a block are.
fn pull_homes(blocks: &mut [Thaw], index: usize) {
    for child in 0..blocks[index].len() {
        let below = blocks.get(blocks[index].kids[child] as usize);
        if let Some(home) = below.and_then(|below| below.home) {
            blocks[index].entries[child] = Entry::node(home);
        }
    }
}

/// The digest of a side of a join of `block`.
fn digest_of<'a>(blocks: &'a [Thaw], block: &'a Thaw, side: Side) -> &'a Digest {
    match side {
        Side::Join(join) => &block.joins[usize::from(join)],
        Side::Child(child) => {
            let kid = block.kids[usize::from(child)];
            match blocks.get(kid as usize) {
                Some(below) if below.changed => below.topmost(),
                _ => &block.digests[usize::from(child)],
            }
        }
    }
}

impl Queues {
    /// Finds the blocks of a kind below the root, and it: each behind those below it.
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

    /// Hashes the stale joins of the blocks found, from the last bit to the first: what a join is above has higher bits.
    fn hash(&mut self, blocks: &mut [Thaw]) {
        for index in &self.order {
            let block = &mut blocks[*index as usize];
            let sides = *block.sides();
            for join in 0..block.bits.len() {
                if block.stale[join] {
                    let (left, right) = (sides.left[join], sides.right[join]);
                    let job = Job { block: *index, join: join as u8, left, right };
                    self.by_bit[usize::from(block.bits[join])].push(job);
                }
            }
        }
        let platform = Platform::detect();
        let mut messages: [Message; TOGETHER] = [[0; 64]; TOGETHER];
        for (bit, jobs) in self.by_bit.iter_mut().enumerate().rev() {
            let domain = Domain::join(bit as u8);
            for group in jobs.chunks(TOGETHER) {
                for (place, job) in messages.iter_mut().zip(group) {
                    let block = &blocks[job.block as usize];
                    let left = digest_of(blocks, block, job.left);
                    *place = message(left, digest_of(blocks, block, job.right));
                }
                let places = messages.each_ref();
                let hashes = domain.hash_together(platform, &places[..group.len()]);
                for (hash, job) in hashes.iter().zip(group) {
                    blocks[job.block as usize].joins[usize::from(job.join)] = *hash;
                }
            }
            jobs.clear();
        }
    }
}
