//! Nodes: four bits of the key each, shared between maps until one of them writes.

use super::Leaf;
use crate::{EMPTY_ROOT, Hash};
use std::sync::Arc;

/// One pair.
#[derive(Clone)]
pub(super) struct Entry<V> {
    pub(super) key: Hash,
    pub(super) value: V,
}

/// What hangs below a slot.
#[derive(Default)]
pub(super) enum Child<V> {
    /// Nothing: an empty map, or a slot whose content has just moved elsewhere.
    #[default]
    Empty,
    Leaf(Arc<Entry<V>>),
    Branch(Branch<V>),
}

/// A place for a child, with what its parent must know to hash without fetching it.
pub(super) struct Slot<V> {
    pub(super) child: Child<V>,
    /// The child's digest, if the slot is not dirty.
    pub(super) digest: Hash,
    /// The digest of the lowest join that holds both this slot and the one before, unless a dirty
    /// slot is below it. Meaningless in a branch's first slot and at the top.
    pub(super) join: Hash,
}

/// A node, seen from its parent. All keys below agree in their first `depth` nibbles.
pub(super) struct Branch<V> {
    /// The present slots in ascending order of nibble; at least two.
    pub(super) slots: Arc<[Slot<V>]>,
    /// Bit `n` is set if there is a slot for nibble `n`.
    pub(super) present: u16,
    /// Bit `n` is set if something below nibble `n` changed since the last refresh, removal of the
    /// slot included.
    pub(super) dirty: u16,
    /// Which nibble of the key selects the slot.
    pub(super) depth: u8,
}

impl<V> Clone for Child<V> {
    fn clone(&self) -> Self {
        match self {
            Self::Empty => Self::Empty,
            Self::Leaf(entry) => Self::Leaf(Arc::clone(entry)),
            Self::Branch(branch) => {
                Self::Branch(Branch { slots: Arc::clone(&branch.slots), ..*branch })
            }
        }
    }
}

impl<V> Clone for Slot<V> {
    fn clone(&self) -> Self {
        Self { child: self.child.clone(), ..*self }
    }
}

impl<V> Default for Slot<V> {
    fn default() -> Self {
        Self { child: Child::Empty, digest: EMPTY_ROOT, join: EMPTY_ROOT }
    }
}

/// Nibble `depth` of `key`, the high one of each byte first.
pub(super) fn nibble(key: &Hash, depth: u8) -> u8 {
    let byte = key[usize::from(depth / 2)];
    if depth.is_multiple_of(2) { byte >> 4 } else { byte & 15 }
}

/// The first nibble at which two keys differ.
pub(super) fn first_difference(a: &Hash, b: &Hash) -> Option<u8> {
    let at = a.iter().zip(b).position(|(a, b)| a != b)?;
    let high_agrees = a[at] >> 4 == b[at] >> 4;
    Some(2 * at as u8 + u8::from(high_agrees))
}

/// How many nibbles below `nibble` are set in `present`.
pub(super) fn rank(present: u16, nibble: u8) -> usize {
    (present & ((1 << nibble) - 1)).count_ones() as usize
}

impl<V> Child<V> {
    /// The entry at which a search for `key` ends: that of `key` if there is one, else one that
    /// agrees with `key` for as long as any does.
    pub(super) fn closest(&self, key: &Hash) -> Option<&Entry<V>> {
        let mut child = self;
        loop {
            match child {
                Self::Empty => return None,
                Self::Leaf(entry) => return Some(entry),
                Self::Branch(branch) => {
                    let nibble = nibble(key, branch.depth);
                    let at = if branch.has(nibble) { rank(branch.present, nibble) } else { 0 };
                    child = &branch.slots[at].child;
                }
            }
        }
    }
}

impl<V: Leaf> Slot<V> {
    /// The value at which a search for `key` ends, all slots on the way marked dirty. The key must
    /// be in the map.
    pub(super) fn touch(&mut self, key: &Hash) -> Option<&mut V> {
        let mut child = &mut self.child;
        loop {
            match child {
                Child::Empty => return None,
                Child::Leaf(entry) => return Some(&mut Arc::make_mut(entry).value),
                Child::Branch(branch) => child = &mut branch.touch(nibble(key, branch.depth)).child,
            }
        }
    }

    /// Adds an entry whose key first differs at nibble `depth` from the closest one below. `stale`
    /// says whether this slot is dirty already.
    pub(super) fn add(&mut self, stale: bool, depth: u8, entry: Entry<V>) {
        match &mut self.child {
            Child::Branch(branch) if branch.depth < depth => {
                let nibble = nibble(&entry.key, branch.depth);
                let stale = branch.is_dirty(nibble);
                branch.touch(nibble).add(stale, depth, entry);
            }
            Child::Branch(branch) if branch.depth == depth => branch.add(entry),
            Child::Empty => self.child = Child::Leaf(Arc::new(entry)),
            Child::Leaf(_) | Child::Branch(_) => self.split(stale, depth, entry),
        }
    }

    /// Puts a branch here, over what is here and `entry`, which part at nibble `depth`.
    fn split(&mut self, stale: bool, depth: u8, entry: Entry<V>) {
        let Some(neighbour) = self.child.closest(&entry.key) else {
            return;
        };
        let (old, new) = (nibble(&neighbour.key, depth), nibble(&entry.key, depth));
        let old_slot =
            Slot { digest: self.digest, child: std::mem::take(&mut self.child), join: EMPTY_ROOT };
        let new_slot = Slot { child: Child::Leaf(Arc::new(entry)), ..Slot::default() };
        let slots = if old < new { [old_slot, new_slot] } else { [new_slot, old_slot] };
        self.child = Child::Branch(Branch {
            slots: Arc::new(slots),
            present: 1 << old | 1 << new,
            dirty: u16::from(stale) << old | 1 << new,
            depth,
        });
    }

    /// Removes the entry of `key`, which must be in the map, from below this slot.
    pub(super) fn remove(&mut self, key: &Hash) -> Option<Arc<Entry<V>>> {
        let Child::Branch(branch) = &mut self.child else {
            return match std::mem::take(&mut self.child) {
                Child::Leaf(entry) => Some(entry),
                Child::Empty | Child::Branch(_) => None,
            };
        };
        let nibble = nibble(key, branch.depth);
        if !branch.holds_leaf(nibble) {
            return branch.touch(nibble).remove(key);
        }
        let (entry, last) = branch.remove(nibble);
        if let Some(last) = last {
            self.child = last;
        }
        entry
    }
}

impl<V> Branch<V> {
    pub(super) fn has(&self, nibble: u8) -> bool {
        self.present >> nibble & 1 == 1
    }

    pub(super) fn is_dirty(&self, nibble: u8) -> bool {
        self.dirty >> nibble & 1 == 1
    }

    fn holds_leaf(&self, nibble: u8) -> bool {
        matches!(self.slots[rank(self.present, nibble)].child, Child::Leaf(_))
    }

    /// The slot of a present nibble, marked dirty.
    fn touch(&mut self, nibble: u8) -> &mut Slot<V> {
        self.dirty |= 1 << nibble;
        &mut Arc::make_mut(&mut self.slots)[rank(self.present, nibble)]
    }

    /// Adds a slot for an absent nibble.
    ///
    /// The joins of the other slots need no care: those that hold the new slot are recomputed, the
    /// new slot being dirty, and the others keep their place before the same slot.
    fn add(&mut self, entry: Entry<V>) {
        let nibble = nibble(&entry.key, self.depth);
        let at = rank(self.present, nibble);
        let mut new = Some(Slot { child: Child::Leaf(Arc::new(entry)), ..Slot::default() });
        let mut source = Source::of(&mut self.slots);
        let count = source.len() + 1;
        self.slots = (0..count)
            .map(|i| match i.cmp(&at) {
                std::cmp::Ordering::Less => source.take(i),
                std::cmp::Ordering::Equal => new.take().unwrap_or_default(),
                std::cmp::Ordering::Greater => source.take(i - 1),
            })
            .collect();
        self.present |= 1 << nibble;
        self.dirty |= 1 << nibble;
    }

    /// Removes the leaf at `nibble`. If only one slot is left, its child is returned to take this
    /// branch's place. As for the joins, see [`Branch::add`].
    fn remove(&mut self, nibble: u8) -> (Option<Arc<Entry<V>>>, Option<Child<V>>) {
        let at = rank(self.present, nibble);
        let mut source = Source::of(&mut self.slots);
        let entry = match source.take(at).child {
            Child::Leaf(entry) => Some(entry),
            Child::Empty | Child::Branch(_) => None,
        };
        let count = source.len() - 1;
        if count == 1 {
            return (entry, Some(source.take(1 - at).child));
        }
        self.slots = (0..count).map(|i| source.take(i + usize::from(i >= at))).collect();
        self.present &= !(1 << nibble);
        self.dirty |= 1 << nibble;
        (entry, None)
    }

    /// The digest of a branch without dirty slots: its topmost join.
    pub(super) fn topmost_join(&self) -> Hash {
        self.slots[join_slot(self.present, self.present)].join
    }
}

/// Where the slots of an array to be replaced come from: moved out of it if nobody shares it, so
/// that what is below stays unshared; else cloned.
enum Source<'a, V> {
    Own(&'a mut [Slot<V>]),
    Shared(Arc<[Slot<V>]>),
}

impl<'a, V> Source<'a, V> {
    fn of(slots: &'a mut Arc<[Slot<V>]>) -> Self {
        if Arc::strong_count(slots) > 1 {
            return Self::Shared(Arc::clone(slots));
        }
        Self::Own(Arc::make_mut(slots))
    }

    fn len(&self) -> usize {
        match self {
            Self::Own(slots) => slots.len(),
            Self::Shared(slots) => slots.len(),
        }
    }

    fn take(&mut self, at: usize) -> Slot<V> {
        match self {
            Self::Own(slots) => std::mem::take(&mut slots[at]),
            Self::Shared(slots) => slots[at].clone(),
        }
    }
}

/// Which slot keeps the digest of the topmost join of `block`, a set of at least two of the nibbles
/// `present`: the first on the join's right side.
pub(super) fn join_slot(present: u16, block: u16) -> usize {
    let (first, last) = (block.trailing_zeros(), block.ilog2());
    let half = 1 << (first ^ last).ilog2();
    let middle = last & !(half - 1);
    rank(present, (block >> middle).trailing_zeros() as u8 + middle as u8)
}
