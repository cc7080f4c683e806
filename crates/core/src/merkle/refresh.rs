//! Computing the root: every stale hash of the map, in batches of like ones.
//!
//! Three passes: collect a job for each stale hash in depth-first order; run the jobs, leaves first,
//! then joins from the last bit to the first, handing each result to the job that waits for it; walk
//! again in the same order and store the results.

use super::hash::{BATCH, Domain, Message};
use super::node::{Branch, Child, Join, Slot, rank};
use super::{Hash, Leaf};
use blake3::platform::Platform;
use std::sync::Arc;

/// Above so many writes the subtrees are refreshed one after the other, so that the jobs stay
/// within the processor's cache.
const WRITES_AT_ONCE: usize = 1024;

/// Which half of which job's message a digest belongs in: `2 * job + half`.
type Target = usize;

/// The target of the uppermost job, which no other waits for.
const NOWHERE: Target = usize::MAX;

/// The jobs of one refresh. Kept between refreshes for its memory alone.
#[derive(Default)]
pub(super) struct Refresh {
    /// Each job's message; once it has run, its result in the first half.
    messages: Vec<Message>,
    targets: Vec<Target>,
    leaves: Vec<usize>,
    /// The joins by bit.
    joins: Vec<Vec<usize>>,
    /// How many results are stored already.
    stored: usize,
}

impl Refresh {
    /// Brings all digests below `slot` and its own up to date. `writes` is about how many leaves are stale.
    pub(super) fn run<V: Leaf>(&mut self, slot: &mut Slot<V>, writes: usize) {
        if writes > WRITES_AT_ONCE
            && let Child::Branch(branch) = &mut slot.child
        {
            self.run_below(branch, writes / 16);
        }
        self.messages.clear();
        self.targets.clear();
        self.stored = 0;
        self.collect(&slot.child, NOWHERE);
        self.hash();
        slot.digest = self.store(&mut slot.child);
    }

    /// Refreshes each branch below `branch` by itself. Their slots stay dirty in `branch`, whose own
    /// joins are still to be done.
    fn run_below<V: Leaf>(&mut self, branch: &mut Branch<V>, writes: usize) {
        for at in 0..branch.slots.len() {
            if matches!(&branch.slots[at].child, Child::Branch(below) if below.dirty != 0) {
                self.run(&mut Arc::make_mut(&mut branch.slots)[at], writes);
            }
        }
    }

    fn collect<V: Leaf>(&mut self, child: &Child<V>, target: Target) {
        match child {
            Child::Empty => {}
            Child::Leaf(entry) => {
                self.leaves.push(self.messages.len());
                self.messages
                    .push(message(&entry.key, &entry.value.digest()));
                self.targets.push(target);
            }
            Child::Branch(branch) => self.collect_joins(branch, branch.present, target),
        }
    }

    /// Collects what is stale of the digest of `nibbles`, a block of present nibbles of `branch`.
    fn collect_joins<V: Leaf>(&mut self, branch: &Branch<V>, nibbles: u16, target: Target) {
        if nibbles.is_power_of_two() {
            let slot = &branch.slots[rank(branch.present, nibbles.trailing_zeros() as u8)];
            return match branch.dirty & nibbles {
                0 => self.put(target, &slot.digest),
                _ => self.collect(&slot.child, target),
            };
        }
        let join = Join::topmost(nibbles);
        if branch.dirty & join.block == 0 {
            return self.put(target, &branch.slots[join.slot(branch.present)].join);
        }
        let job = self.messages.len();
        self.messages.push([0; 64]);
        self.targets.push(target);
        self.queue(4 * branch.depth + join.bit).push(job);
        self.collect_joins(branch, join.left, 2 * job);
        self.collect_joins(branch, join.right, 2 * job + 1);
    }

    fn queue(&mut self, bit: u8) -> &mut Vec<usize> {
        let bit = usize::from(bit);
        if self.joins.len() <= bit {
            self.joins.resize_with(bit + 1, Vec::new);
        }
        &mut self.joins[bit]
    }

    fn put(&mut self, target: Target, digest: &Hash) {
        if target != NOWHERE {
            let half = 32 * (target % 2);
            self.messages[target / 2][half..half + 32].copy_from_slice(digest);
        }
    }

    fn hash(&mut self) {
        let platform = Platform::detect();
        let leaves = std::mem::take(&mut self.leaves);
        self.leaves = self.hash_all(platform, &Domain::leaf(), leaves);
        for bit in (0..self.joins.len()).rev() {
            let jobs = std::mem::take(&mut self.joins[bit]);
            self.joins[bit] = self.hash_all(platform, &Domain::join(bit as u8), jobs);
        }
    }

    /// Runs the jobs of one domain; returns their list, emptied.
    fn hash_all(
        &mut self,
        platform: Platform,
        domain: &Domain,
        mut jobs: Vec<usize>,
    ) -> Vec<usize> {
        for batch in jobs.chunks(BATCH) {
            let mut messages = [&[0; 64]; BATCH];
            for (message, &job) in messages.iter_mut().zip(batch) {
                *message = &self.messages[job];
            }
            let hashes = domain.hash(platform, &messages[..batch.len()]);
            for (hash, &job) in hashes.iter().zip(batch) {
                self.put(2 * job, hash);
                self.put(self.targets[job], hash);
            }
        }
        jobs.clear();
        jobs
    }

    /// Stores the results below `child` and returns its digest.
    fn store<V: Leaf>(&mut self, child: &mut Child<V>) -> Hash {
        match child {
            Child::Empty => super::EMPTY_ROOT,
            Child::Leaf(_) => self.next_result(),
            Child::Branch(branch) => {
                if branch.dirty != 0 {
                    let slots = Arc::make_mut(&mut branch.slots);
                    self.store_joins(slots, branch.present, branch.dirty, branch.present);
                    branch.dirty = 0;
                }
                branch.digest()
            }
        }
    }

    /// The walk of [`collect_joins`](Self::collect_joins), storing.
    fn store_joins<V: Leaf>(
        &mut self,
        slots: &mut [Slot<V>],
        present: u16,
        dirty: u16,
        nibbles: u16,
    ) {
        if nibbles.is_power_of_two() {
            if dirty & nibbles != 0 {
                let slot = &mut slots[rank(present, nibbles.trailing_zeros() as u8)];
                slot.digest = self.store(&mut slot.child);
            }
            return;
        }
        let join = Join::topmost(nibbles);
        if dirty & join.block != 0 {
            slots[join.slot(present)].join = self.next_result();
            self.store_joins(slots, present, dirty, join.left);
            self.store_joins(slots, present, dirty, join.right);
        }
    }

    fn next_result(&mut self) -> Hash {
        let message = &self.messages[self.stored];
        self.stored += 1;
        *message.first_chunk().unwrap_or(&super::EMPTY_ROOT)
    }
}

fn message(left: &Hash, right: &Hash) -> Message {
    let mut message = [0; 64];
    message[..32].copy_from_slice(left);
    message[32..].copy_from_slice(right);
    message
}
