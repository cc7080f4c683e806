//! Hashing what is stale among thawed blocks, and writing what has changed.

use super::super::entry::{Address, Entry};
use super::super::error::Error;
use super::super::slab::SlotUse;
use super::super::space::Space;
use super::block::{bytes_of, head};
use super::thaw::{NONE, Side, Thaw, Thawed};
use super::{Crown, MOST};
use crate::merkle::{Digest, Domain, Message, TOGETHER, message};
use blake3::platform::Platform;

/// Joins to be hashed, by their bits, and the blocks they are in.
pub(super) struct Queues {
    by_bit: Vec<Vec<Job>>,
    /// Changed blocks, each behind those below it.
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

/// Hashes and writes everything that has changed; the root's entry.
pub(super) fn write(thawed: &mut Thawed, space: &mut Space, crown: Crown) -> Result<Entry, Error> {
    let root = thawed.root;
    // The root always changes: it names the version.
    thawed.block(root).changed = true;
    let Thawed { blocks, queues, .. } = thawed;
    queues.collect(blocks, root);
    queues.hash(blocks);
    let mut written = Entry::EMPTY;
    for index in &queues.order {
        let index = *index as usize;
        pull_digests(blocks, index);
        let block = &mut blocks[index];
        let crown = if index == root as usize { crown } else { Crown::default() };
        if let Some(home) = block.home {
            space.free(home, SlotUse::Digest)?;
        }
        let address = place(space, block, crown)?;
        block.home = Some(address);
        written = Entry::node(address);
    }
    Ok(written)
}

/// Puts a block into a slot.
fn place(space: &mut Space, block: &Thaw, crown: Crown) -> Result<Address, Error> {
    let children = block.len();
    let address = space.take(SlotUse::Digest, bytes_of(children) as u32)?;
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        space.amend(address, at, bytes);
        at += bytes.len();
    };
    put(&head(children, crown));
    let mut entries = [[0; 8]; MOST];
    entries.iter_mut().zip(&*block.entries).for_each(|(to, from)| *to = from.0.to_le_bytes());
    put(entries[..children].as_flattened());
    put(block.digests.as_flattened());
    put(block.joins.as_flattened());
    put(&block.bits);
    Ok(address)
}

/// Takes over where the changed children of a block are now, and their digests.
fn pull_digests(blocks: &mut [Thaw], index: usize) {
    for child in 0..blocks[index].len() {
        let kid = blocks[index].kids[child];
        if kid == NONE || !blocks[kid as usize].changed {
            continue;
        }
        let below = &blocks[kid as usize];
        let digest = *below.topmost();
        let entry = below.home.map_or(Entry::EMPTY, Entry::node);
        blocks[index].digests[child] = digest;
        blocks[index].entries[child] = entry;
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
    /// Finds the changed blocks and their stale joins.
    fn collect(&mut self, blocks: &mut [Thaw], root: u32) {
        self.order.clear();
        self.order.push(root);
        let mut next = 0;
        while let Some(index) = self.order.get(next).copied() {
            next += 1;
            let kids = &blocks[index as usize].kids;
            let changed = |kid: &&u32| blocks.get(**kid as usize).is_some_and(|kid| kid.changed);
            self.order.extend(kids.iter().filter(changed));
        }
        self.order.reverse();
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
    }

    /// Hashes from the last bit to the first: what a join is above has higher bits.
    fn hash(&mut self, blocks: &mut [Thaw]) {
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
