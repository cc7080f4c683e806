//! Hashing what is stale among thawed blocks, and writing what has changed.

use super::super::entry::{Address, Entry};
use super::super::error::Error;
use super::super::slab::SlotUse;
use super::super::space::Space;
use super::block::{bytes_of, head};
use super::thaw::{Side, Thaw, Thawed};
use super::{Crown, MOST};
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

/// Computes the digests of all that has changed.
pub(super) fn hash(thawed: &mut Thawed) {
    let root = thawed.root;
    // The root always changes: it names the version.
    thawed.block(root).changed = true;
    let Thawed { blocks, queues, .. } = thawed;
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
}

/// Writes all that was hashed and not written; the root's entry. Otherwise nothing was.
///
/// # Errors
/// [`Error::LimitReached`], [`Error::Io`], [`Error::Damaged`].
pub(super) fn write(thawed: &mut Thawed, space: &mut Space, crown: Crown) -> Result<Entry, Error> {
    let root = thawed.root;
    let Thawed { blocks, queues, slots, .. } = thawed;
    queues.collect(blocks, root, |block| block.dirty);
    slots.clear();
    for index in &queues.order {
        let block = &blocks[*index as usize];
        slots.push(space.take(SlotUse::Digest, bytes_of(block.len()) as u32)?);
        if let Some(home) = block.home {
            space.free(home, SlotUse::Digest)?;
        }
    }
    let mut written = Entry::EMPTY;
    for (index, slot) in queues.order.iter().zip(&*slots) {
        pull_homes(blocks, *index as usize);
        let block = &mut blocks[*index as usize];
        let crown = if *index == root { crown } else { Crown::default() };
        fill(space, *slot, block, false, crown);
        block.home = Some(*slot);
        block.dirty = false;
        written = Entry::node(*slot);
    }
    Ok(written)
}

/// Writes the root alone, into a slot that was taken for it; its entry.
///
/// # Errors
/// [`Error::Damaged`].
pub(super) fn show(
    thawed: &mut Thawed,
    space: &mut Space,
    slot: Address,
    crown: Crown,
) -> Result<Entry, Error> {
    let root = thawed.root;
    let block = thawed.block(root);
    fill(space, slot, block, true, crown);
    if let Some(home) = block.home.replace(slot) {
        space.free(home, SlotUse::Digest)?;
    }
    Ok(Entry::node(slot))
}

/// Puts a block into a slot.
fn fill(space: &mut Space, slot: Address, block: &Thaw, alone: bool, crown: Crown) {
    let children = block.len();
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        space.amend(slot, at, bytes);
        at += bytes.len();
    };
    put(&head(children, alone, crown));
    let mut entries = [[0; 8]; MOST];
    if !alone {
        entries.iter_mut().zip(&*block.entries).for_each(|(to, from)| *to = from.0.to_le_bytes());
    }
    put(entries[..children].as_flattened());
    put(block.digests.as_flattened());
    put(block.joins.as_flattened());
    put(&block.bits);
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
