//! Hashing what is stale among thawed blocks, and writing what has changed.

use super::super::entry::Entry;
use super::super::error::Error;
use super::super::slab::SlotUse;
use super::super::space::Space;
use super::Crown;
use super::block::{self, Parts};
use super::thaw::{NONE, Thaw, Thawed};
use crate::merkle::{Digest, Domain, Message, TOGETHER, message};
use blake3::platform::Platform;

/// Joins to be hashed, by their bits, and the blocks they are in.
pub(super) struct Queues {
    by_bit: Vec<Vec<Job>>,
    /// Changed blocks, each behind those below it.
    order: Vec<u32>,
    scratch: Vec<u8>,
}

impl Default for Queues {
    fn default() -> Queues {
        Queues { by_bit: vec![Vec::new(); 256], order: Vec::new(), scratch: Vec::new() }
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

/// A side of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Child(u8),
    Join(u8),
}

/// The sides of a block's joins.
struct Sides {
    left: [Side; super::MOST],
    right: [Side; super::MOST],
    top: u8,
}

impl Sides {
    /// Reads the joins once, keeping those that the end is below.
    fn of(bits: &[u8]) -> Sides {
        let none = Side::Child(0);
        let mut sides = Sides { left: [none; super::MOST], right: [none; super::MOST], top: 0 };
        let mut open = [0u8; super::MOST];
        let mut depth = 0;
        for (join, bit) in bits.iter().enumerate().take(super::MOST) {
            let mut left = Side::Child(join as u8);
            while depth > 0 && bits[usize::from(open[depth - 1])] > *bit {
                depth -= 1;
                left = Side::Join(open[depth]);
            }
            if depth > 0 {
                sides.right[usize::from(open[depth - 1])] = Side::Join(join as u8);
            }
            sides.left[join] = left;
            sides.right[join] = Side::Child(join as u8 + 1);
            open[depth] = join as u8;
            depth += 1;
        }
        sides.top = open[0];
        sides
    }
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
        let parts = Parts {
            crown: if index == root as usize { crown } else { Crown::default() },
            entries: &block.entries,
            digests: &block.digests,
            joins: &block.joins,
            bits: &block.bits,
        };
        block::encode(&mut queues.scratch, &parts);
        if let Some(home) = block.home {
            space.free(home);
        }
        let address = space.take(SlotUse::Digest, queues.scratch.len() as u32)?;
        space.fill(address, &queues.scratch);
        block.home = Some(address);
        written = Entry::node(address);
    }
    Ok(written)
}

/// Takes over where the changed children of a block are now, and their digests.
fn pull_digests(blocks: &mut [Thaw], index: usize) {
    for child in 0..blocks[index].len() {
        let kid = blocks[index].kids[child];
        if kid == NONE || !blocks[kid as usize].changed {
            continue;
        }
        let below = &blocks[kid as usize];
        let digest = below.joins.get(usize::from(below.top)).copied().unwrap_or_default();
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
                Some(below) if below.changed => &below.joins[usize::from(below.top)],
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
            let sides = Sides::of(&block.bits);
            block.top = sides.top;
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
