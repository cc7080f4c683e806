//! Computing the root: every stale hash of the map, in batches of like ones.
//!
//! On the way down, node by node of equal depth, the stale branches are lifted out of their slots.
//! On the way up all branches of one depth are worked on together: first their leaves, then their
//! joins from the last bit to the first, so that a batch holds hashes of many branches. A finished
//! branch goes back to its slot when its parent's depth is reached.

use super::Leaf;
use super::node::{Branch, Child, Slot, join_slot, rank};
use crate::hashes::BATCH;
use crate::{Domain, EMPTY_ROOT, Hash, Message, message};
use std::sync::Arc;

/// Above so many writes the subtrees are refreshed one after the other, so that what is lifted out
/// stays within the processor's cache.
const WRITES_AT_ONCE: usize = 2048;

/// The branches being refreshed, by depth. Empty between refreshes, kept for its memory alone.
pub(super) struct Refresh<V> {
    levels: Vec<Level<V>>,
}

struct Level<V> {
    /// The stale branches of this depth.
    stale: Vec<Lifted<V>>,
    /// Finished branches that belong in one of `stale`.
    finished: Vec<Lifted<V>>,
}

/// A branch out of its slot.
struct Lifted<V> {
    branch: Branch<V>,
    /// Where it belongs; of the uppermost branch, meaningless.
    home: Home,
}

#[derive(Clone, Copy, Default)]
struct Home {
    /// The depth of the parent, and its place among the stale of that depth.
    depth: usize,
    parent: usize,
    slot: usize,
}

impl<V> Default for Refresh<V> {
    fn default() -> Self {
        Self { levels: Vec::new() }
    }
}

impl<V: Leaf> Refresh<V> {
    /// Brings all digests below `slot` and its own up to date. `writes` is about how many leaves
    /// are stale.
    pub(super) fn run(&mut self, slot: &mut Slot<V>, writes: usize) {
        let child = match &mut slot.child {
            Child::Branch(branch) if branch.dirty != 0 => {
                if writes > WRITES_AT_ONCE {
                    self.run_below(branch, writes / 16);
                }
                std::mem::take(&mut slot.child)
            }
            child => std::mem::take(child),
        };
        (slot.digest, slot.child) = match child {
            Child::Empty => (EMPTY_ROOT, Child::Empty),
            Child::Leaf(entry) => {
                let message = message(&entry.key, &entry.value.digest());
                (Domain::leaf().hash(&message), Child::Leaf(entry))
            }
            Child::Branch(branch) => {
                let branch = if branch.dirty == 0 { branch } else { self.refreshed(branch) };
                (branch.topmost_join(), Child::Branch(branch))
            }
        };
    }

    /// Refreshes each branch below `branch` by itself. Their slots stay dirty in `branch`, whose
    /// own joins are still to be done.
    fn run_below(&mut self, branch: &mut Branch<V>, writes: usize) {
        for at in 0..branch.slots.len() {
            if matches!(&branch.slots[at].child, Child::Branch(below) if below.dirty != 0) {
                self.run(&mut Arc::make_mut(&mut branch.slots)[at], writes);
            }
        }
    }

    fn refreshed(&mut self, top: Branch<V>) -> Branch<V> {
        let first = usize::from(top.depth);
        self.level(first).stale.push(Lifted { branch: top, home: Home::default() });
        let mut depth = first;
        while depth < self.levels.len() {
            self.lift(depth);
            depth += 1;
        }
        while depth > first + 1 {
            depth -= 1;
            self.finish(depth);
        }
        self.finish_level(first).swap_remove(0).branch
    }

    fn level(&mut self, depth: usize) -> &mut Level<V> {
        if self.levels.len() <= depth {
            self.levels
                .resize_with(depth + 1, || Level { stale: Vec::new(), finished: Vec::new() });
        }
        &mut self.levels[depth]
    }

    /// Lifts the stale branches right below those of `depth`.
    fn lift(&mut self, depth: usize) {
        let mut stale = std::mem::take(&mut self.levels[depth].stale);
        for (parent, Lifted { branch, .. }) in stale.iter_mut().enumerate() {
            let slots = Arc::make_mut(&mut branch.slots);
            for nibble in nibbles(branch.dirty & branch.present) {
                let at = rank(branch.present, nibble);
                let slot = &mut slots[at];
                slot.child = match std::mem::take(&mut slot.child) {
                    Child::Branch(below) if below.dirty != 0 => {
                        let home = Home { depth, parent, slot: at };
                        self.level(usize::from(below.depth))
                            .stale
                            .push(Lifted { branch: below, home });
                        Child::Empty
                    }
                    Child::Branch(below) => {
                        slot.digest = below.topmost_join();
                        Child::Branch(below)
                    }
                    child => child,
                };
            }
        }
        self.levels[depth].stale = stale;
    }

    /// Finishes the branches of `depth` and hands them to their parents' levels.
    fn finish(&mut self, depth: usize) {
        let mut done = self.finish_level(depth);
        for lifted in done.drain(..) {
            self.levels[lifted.home.depth].finished.push(lifted);
        }
        self.levels[depth].stale = done;
    }

    fn finish_level(&mut self, depth: usize) -> Vec<Lifted<V>> {
        let level = &mut self.levels[depth];
        let mut stale = std::mem::take(&mut level.stale);
        if stale.is_empty() {
            return stale;
        }
        let mut nodes: Vec<Node<'_, V>> = stale.iter_mut().map(Node::of).collect();
        for Lifted { branch, home } in level.finished.drain(..) {
            let slot = &mut nodes[home.parent].slots[home.slot];
            slot.digest = branch.topmost_join();
            slot.child = Child::Branch(branch);
        }
        hash_leaves(&mut nodes);
        for bit in (0..4).rev() {
            hash_joins(&mut nodes, depth, bit);
        }
        for lifted in &mut stale {
            lifted.branch.dirty = 0;
        }
        stale
    }
}

/// A branch whose slots are being written.
struct Node<'a, V> {
    slots: &'a mut [Slot<V>],
    present: u16,
    dirty: u16,
}

impl<'a, V> Node<'a, V> {
    fn of(lifted: &'a mut Lifted<V>) -> Self {
        let Branch { slots, present, dirty, .. } = &mut lifted.branch;
        Self { slots: Arc::make_mut(slots), present: *present, dirty: *dirty }
    }

    /// The digest of a block of present nibbles, all of it up to date.
    fn digest(&self, block: u16) -> &Hash {
        if block.is_power_of_two() {
            return &self.slots[rank(self.present, block.trailing_zeros() as u8)].digest;
        }
        &self.slots[join_slot(self.present, block)].join
    }
}

fn hash_leaves<V: Leaf>(nodes: &mut [Node<'_, V>]) {
    let mut batch = Batch::new(Domain::leaf(), Field::Digest);
    let mut leaves = [(0, 0); BATCH];
    let mut count = 0;
    for at in 0..nodes.len() {
        let node = &nodes[at];
        for nibble in nibbles(node.dirty & node.present) {
            let slot = rank(nodes[at].present, nibble);
            if matches!(nodes[at].slots[slot].child, Child::Leaf(_)) {
                leaves[count] = (at, slot);
                count += 1;
            }
            if count == BATCH {
                put_leaves(nodes, &leaves, &mut batch);
                count = 0;
            }
        }
    }
    put_leaves(nodes, &leaves[..count], &mut batch);
    batch.flush(nodes);
}

/// Adds to `batch` what is hashed of some leaves, at most [`BATCH`].
fn put_leaves<V: Leaf>(nodes: &mut [Node<'_, V>], leaves: &[(usize, usize)], batch: &mut Batch) {
    let mut messages = [[0; 64]; BATCH];
    let entries = leaves.iter().filter_map(|(at, slot)| match &nodes[*at].slots[*slot].child {
        Child::Leaf(entry) => Some(entry),
        Child::Empty | Child::Branch(_) => None,
    });
    let mut digests = [[0; 32]; BATCH];
    let values: Vec<&V> = entries.clone().map(|entry| &entry.value).collect();
    V::digests(&values, &mut digests[..leaves.len()]);
    for ((entry, digest), out) in entries.zip(&digests).zip(&mut messages) {
        *out = message(&entry.key, digest);
    }
    for (place, message) in leaves.iter().zip(messages) {
        batch.push(nodes, *place, message);
    }
}

/// Hashes the stale joins whose two sides differ in bit `bit` of nibble `depth`.
fn hash_joins<V>(nodes: &mut [Node<'_, V>], depth: usize, bit: usize) {
    let domain = Domain::join((4 * depth + bit) as u8);
    let mut batch = Batch::new(domain, Field::Join);
    let half = 8 >> bit;
    let ones = (1 << half) - 1;
    for at in 0..nodes.len() {
        let mut dirty = nodes[at].dirty;
        while dirty != 0 {
            let node = &nodes[at];
            let first = dirty.trailing_zeros() & !(2 * half - 1);
            let (lower, upper) = (ones << first, ones << (first + half));
            dirty &= !(lower | upper);
            let (left, right) = (node.present & lower, node.present & upper);
            if left != 0 && right != 0 {
                let message = message(node.digest(left), node.digest(right));
                let slot = rank(node.present, right.trailing_zeros() as u8);
                batch.push(nodes, (at, slot), message);
            }
        }
    }
    batch.flush(nodes);
}

/// Which of a slot's digests is meant.
#[derive(Clone, Copy)]
enum Field {
    Digest,
    Join,
}

/// Messages of one domain, and for each the node and slot its hash belongs to.
struct Batch {
    domain: Domain,
    messages: [Message; BATCH],
    places: [(usize, usize); BATCH],
    count: usize,
    field: Field,
}

impl Batch {
    fn new(domain: Domain, field: Field) -> Self {
        Self { domain, messages: [[0; 64]; BATCH], places: [(0, 0); BATCH], count: 0, field }
    }

    fn push<V>(&mut self, nodes: &mut [Node<'_, V>], place: (usize, usize), message: Message) {
        self.messages[self.count] = message;
        self.places[self.count] = place;
        self.count += 1;
        if self.count == BATCH {
            self.flush(nodes);
        }
    }

    fn flush<V>(&mut self, nodes: &mut [Node<'_, V>]) {
        let messages = self.messages.each_ref();
        let hashes = self.domain.hash_together(&messages[..self.count]);
        for (hash, &(node, slot)) in hashes.iter().zip(&self.places[..self.count]) {
            let slot = &mut nodes[node].slots[slot];
            match self.field {
                Field::Digest => slot.digest = *hash,
                Field::Join => slot.join = *hash,
            }
        }
        self.count = 0;
    }
}

/// The nibbles of a set, ascending.
fn nibbles(mut set: u16) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        let nibble = set.trailing_zeros();
        set &= set.checked_sub(1)?;
        Some(nibble as u8)
    })
}
