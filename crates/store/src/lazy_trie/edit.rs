//! Changes of the lazy-trie. Data that a published version may reach is copied; data of the current
//! batch is changed in place.

use super::ahead::ITEM_HEAD_BYTES;
use super::bucket::{self, Bucket};
use super::entry::{Entry, Kind};
use super::error::Error;
use super::hash::{DIGITS, Hash};
use super::item::{self, Name};
use super::node::{self, Node};
use super::slab::SlotUse;
use super::slots::Slots;
use super::tree::check_depth;

/// Changes a tree, or a part of one.
pub(super) struct Edit<'a, S> {
    pub(super) space: &'a mut S,
    /// The version of the current batch. Its nodes may be changed in place.
    pub(super) version: u64,
    /// A bucket with more items becomes a node.
    pub(super) bucket_items: usize,
    /// The buffer in which nodes and buckets are encoded.
    pub(super) scratch: &'a mut Vec<u8>,
}

/// The lengths of an item's name and value, in bytes.
pub(super) type Lengths = (usize, usize);

/// The result of a put or a removal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Met {
    /// The lengths of name and value of the previous item.
    pub(super) old: Option<Lengths>,
    /// The new item.
    pub(super) new: Option<Entry>,
}

/// An item that is being put.
#[derive(Clone, Copy)]
struct Coming<'a> {
    name: &'a Name<'a>,
    hash: &'a Hash,
    value: &'a [u8],
}

/// An item of a bucket.
struct Found {
    rank: usize,
    item: Entry,
    lengths: Lengths,
}

impl<S: Slots> Edit<'_, S> {
    /// Puts an item below `entry`, which is `depth` digits down. Returns the new entry.
    pub(super) fn put(
        &mut self,
        (entry, depth): (Entry, usize),
        name: &Name<'_>,
        hash: &Hash,
        value: &[u8],
    ) -> Result<(Entry, Met), Error> {
        let mut met = Met::default();
        let entry = self.put_below(entry, depth, &Coming { name, hash, value }, &mut met)?;
        Ok((entry, met))
    }

    /// Writes the new item. The call comes when its place is known and the memory for it is
    /// prefetched, so that both happen at the same time.
    fn write_item(&mut self, coming: &Coming<'_>, met: &mut Met) -> Result<Entry, Error> {
        let Coming { name, hash, value } = *coming;
        let head = item::Front::new(name, value);
        let bytes = head.bytes().len() + name.bytes().len() + value.len();
        let address = self.space.take(SlotUse::Item, bytes as u32)?;
        let head = head.sealed(address, name, value);
        // Written straight to the slot, without a copy in between.
        let mut at = 0;
        for part in [head.bytes(), name.bytes(), value] {
            self.space.fill(address, at, part);
            at += part.len();
        }
        let item = Entry::item(address, hash.tag());
        met.new = Some(item);
        Ok(item)
    }

    fn put_below(
        &mut self,
        entry: Entry,
        depth: usize,
        coming: &Coming<'_>,
        met: &mut Met,
    ) -> Result<Entry, Error> {
        let Coming { name, hash, .. } = *coming;
        match entry.kind() {
            Kind::Empty => self.write_item(coming, met),
            Kind::Item => {
                self.ask_for_alike(std::iter::once(entry), hash);
                let item = self.write_item(coming, met)?;
                met.old = self.meets(entry, name, hash)?;
                if met.old.is_some() {
                    self.free_replaced(entry, item)?;
                    return Ok(item);
                }
                self.gather(&[entry, item], depth)
            }
            Kind::Bucket => {
                if let Some(bucket) = Bucket::glance(self.space.view(), entry.address()) {
                    self.ask_for_alike(bucket.entries(), hash);
                }
                self.space.ask_for_slot(entry.address());
                let item = self.write_item(coming, met)?;
                let bucket = Bucket::read(self.space.view(), entry.address())?;
                let Some(found) = self.meets_in_bucket(bucket, name, hash)? else {
                    let mut entries = self.open_bucket(entry)?;
                    entries.push(item);
                    return self.gather(&entries, depth);
                };
                met.old = Some(found.lengths);
                let entries = bucket.entries().enumerate();
                let entries =
                    entries.map(|(at, there)| if at == found.rank { item } else { there });
                bucket::encode(self.scratch, entries);
                self.space.free(entry.address(), SlotUse::Bucket)?;
                self.free_replaced(found.item, item)?;
                self.place_bucket()
            }
            Kind::Node => self.put_in_node(entry, depth, coming, met),
        }
    }

    /// Frees an item after its replacement was written.
    fn free_replaced(&mut self, old: Entry, new: Entry) -> Result<(), Error> {
        if old.address() == new.address() {
            // In a damaged file the old entry leads to the slot that the new item took.
            let memory = self.space.view().memory();
            return Err(memory.damaged(old.address(), "an entry that leads to a free slot"));
        }
        self.space.free(old.address(), SlotUse::Item)
    }

    fn put_in_node(
        &mut self,
        entry: Entry,
        depth: usize,
        coming: &Coming<'_>,
        met: &mut Met,
    ) -> Result<Entry, Error> {
        let hash = coming.hash;
        let lead = Node::lead(self.space.view(), entry.address(), hash, depth)?;
        let depth_there = depth + lead.prefix;
        check_depth(self.space.view(), entry, depth_there)?;
        if lead.matching < lead.prefix {
            let item = self.write_item(coming, met)?;
            return self.part(entry, depth, lead.matching, hash, item);
        }
        // Freeing below will need it.
        self.space.ask_for_slab(lead.child.address());
        self.space.ask_for_slot(entry.address());
        // Asked before slots below are taken: in a damaged file the entry may lead to a free slot.
        let in_place = lead.child != Entry::EMPTY && self.is_at_work(entry, lead.version);
        let changed = self.put_below(lead.child, depth_there + 1, coming, met)?;
        if changed == lead.child {
            return Ok(entry);
        }
        if in_place {
            self.space.fill(entry.address(), node::entry_at(lead.rank), &changed.0.to_le_bytes());
            return Ok(entry);
        }
        self.set_child(entry, hash.digit(depth_there), changed, false)
    }

    /// Splits a prefix that the new item does not share: inserts a node above, where they differ.
    fn part(
        &mut self,
        entry: Entry,
        depth: usize,
        matching: usize,
        hash: &Hash,
        item: Entry,
    ) -> Result<Entry, Error> {
        let prefix = self.node(entry)?.prefix.to_vec();
        let (shared, rest) = prefix.split_at_checked(matching).unwrap_or((&prefix, &[]));
        let (own, below) = rest.split_first().map_or((0, rest), |(own, below)| (*own, below));
        let lower = self.rewrite_under(entry, below)?;
        let digit = hash.digit(depth + matching);
        let mut children = [(own, lower), (digit, item)];
        children.sort_unstable_by_key(|(digit, _)| *digit);
        self.write_node(&children, shared)
    }

    /// Joins items below one slot, at `depth` digits: alone, in a bucket, or in a node.
    fn gather(&mut self, entries: &[Entry], depth: usize) -> Result<Entry, Error> {
        match entries {
            [] => Ok(Entry::EMPTY),
            [entry] => Ok(*entry),
            _ if entries.len() <= self.bucket_items => self.write_bucket(entries),
            _ => self.split(entries, depth),
        }
    }

    /// Turns too many items for a bucket into a node with children.
    fn split(&mut self, entries: &[Entry], depth: usize) -> Result<Entry, Error> {
        let view = self.space.view();
        let mut items = Vec::with_capacity(entries.len());
        for entry in entries {
            items.push((item::read(view, entry.address())?.hash(), *entry));
        }
        items.sort_unstable_by_key(|(hash, _)| *hash);
        let (Some((first, entry)), Some((last, _))) = (items.first(), items.last()) else {
            return Ok(Entry::EMPTY);
        };
        let Some(parting) = first.diverges(last, depth) else {
            return Err(view.memory().damaged(entry.address(), "two items with one hash"));
        };
        let prefix: Vec<u8> = (depth..parting).map(|index| first.digit(index)).collect();
        let mut children = Vec::new();
        let mut below = Vec::new();
        for group in items.chunk_by(|a, b| a.0.digit(parting) == b.0.digit(parting)) {
            below.clear();
            below.extend(group.iter().map(|(_, entry)| *entry));
            let digit = group.first().map_or(0, |(hash, _)| hash.digit(parting));
            children.push((digit, self.gather(&below, (parting + 1).min(DIGITS))?));
        }
        self.write_node(&children, &prefix)
    }

    /// Removes the item of a name below `entry`, which is `depth` digits down, if it exists.
    /// Returns the new entry.
    pub(super) fn remove(
        &mut self,
        (entry, depth): (Entry, usize),
        name: &Name<'_>,
        hash: &Hash,
    ) -> Result<(Entry, Met), Error> {
        let mut met = Met::default();
        let entry = self.remove_below(entry, depth, name, hash, &mut met)?;
        Ok((entry, met))
    }

    fn remove_below(
        &mut self,
        entry: Entry,
        depth: usize,
        name: &Name<'_>,
        hash: &Hash,
        met: &mut Met,
    ) -> Result<Entry, Error> {
        match entry.kind() {
            Kind::Empty => Ok(entry),
            Kind::Item => {
                met.old = self.meets(entry, name, hash)?;
                if met.old.is_none() {
                    return Ok(entry);
                }
                self.space.free(entry.address(), SlotUse::Item)?;
                Ok(Entry::EMPTY)
            }
            Kind::Bucket => {
                let bucket = Bucket::read(self.space.view(), entry.address())?;
                let Some(found) = self.meets_in_bucket(bucket, name, hash)? else {
                    return Ok(entry);
                };
                met.old = Some(found.lengths);
                let mut entries = self.open_bucket(entry)?;
                entries.remove(found.rank);
                self.space.free(found.item.address(), SlotUse::Item)?;
                self.gather(&entries, depth)
            }
            Kind::Node => {
                let node = self.node(entry)?;
                let prefix = node.prefix.len();
                if node.matching(hash, depth) < prefix {
                    return Ok(entry);
                }
                check_depth(self.space.view(), entry, depth + prefix)?;
                let digit = hash.digit(depth + prefix);
                let child = node.child(digit);
                let in_place = self.is_at_work(entry, node.version);
                let changed = self.remove_below(child, depth + prefix + 1, name, hash, met)?;
                if met.old.is_none() {
                    return Ok(entry);
                }
                let entry = self.set_child(entry, digit, changed, in_place)?;
                self.shrink(entry, depth)
            }
        }
    }

    /// After a removal: replaces a node with one child by the child, and a node with few items by a
    /// bucket.
    fn shrink(&mut self, entry: Entry, depth: usize) -> Result<Entry, Error> {
        let node = self.node(entry)?;
        if node.len() == 1 && node.at(0).kind() == Kind::Node {
            let mut prefix = node.prefix.to_vec();
            prefix.push(node.slots().trailing_zeros() as u8);
            let child = node.at(0);
            prefix.extend_from_slice(self.node(child)?.prefix);
            check_depth(self.space.view(), child, depth + prefix.len())?;
            self.space.free(entry.address(), SlotUse::Node)?;
            return self.rewrite_under(child, &prefix);
        }
        // Half of the limit for a split, so that single items do not make nodes come and go.
        let few = (self.bucket_items / 2).max(1);
        if node.len() > few {
            return Ok(entry);
        }
        let mut entries = Vec::with_capacity(few + 1);
        let mut buckets = Vec::new();
        for child in node.entries() {
            match child.kind() {
                Kind::Item => entries.push(child),
                Kind::Bucket => {
                    entries.extend(Bucket::read(self.space.view(), child.address())?.entries());
                    buckets.push(child);
                }
                Kind::Node | Kind::Empty => return Ok(entry),
            }
            if entries.len() > few {
                return Ok(entry);
            }
        }
        self.space.free(entry.address(), SlotUse::Node)?;
        for bucket in buckets {
            self.space.free(bucket.address(), SlotUse::Bucket)?;
        }
        self.gather(&entries, depth)
    }

    /// Prefetches the items that may have a hash, and the state needed to free them.
    fn ask_for_alike(&self, entries: impl Iterator<Item = Entry>, hash: &Hash) {
        for entry in entries.filter(|entry| entry.tag() == hash.tag()) {
            self.space.ask_for_slab(entry.address());
            self.space.view().ask_for(entry.address(), ITEM_HEAD_BYTES);
        }
    }

    /// The lengths of an item, if it has this name.
    fn meets(&self, entry: Entry, name: &Name<'_>, hash: &Hash) -> Result<Option<Lengths>, Error> {
        if entry.tag() != hash.tag() {
            return Ok(None);
        }
        // Prefetches the state for freeing the item, while the item itself is loaded.
        self.space.ask_for_slab(entry.address());
        let lengths = item::lengths_if(self.space.view(), entry.address(), name, hash)?;
        self.space.ask_for_slot(entry.address());
        Ok(lengths)
    }

    /// The item of a name in a bucket.
    fn meets_in_bucket(
        &self,
        bucket: Bucket<'_>,
        name: &Name<'_>,
        hash: &Hash,
    ) -> Result<Option<Found>, Error> {
        for (rank, item) in bucket.entries().enumerate() {
            if let Some(lengths) = self.meets(item, name, hash)? {
                return Ok(Some(Found { rank, item, lengths }));
            }
        }
        Ok(None)
    }

    fn node(&self, entry: Entry) -> Result<Node<'_>, Error> {
        Node::read(self.space.view(), entry.address())
    }

    /// Whether a node that names `version` as its maker may be changed in place.
    fn is_at_work(&self, entry: Entry, version: u64) -> bool {
        // A file may name any version, and is not written through its map.
        version == self.version && self.space.is_fresh(entry.address(), SlotUse::Node)
    }

    /// Sets a child of a node, in the same node or a copy. The caller has checked [in
    /// place](Self::is_at_work) before slots below were taken.
    fn set_child(
        &mut self,
        entry: Entry,
        digit: u8,
        child: Entry,
        in_place: bool,
    ) -> Result<Entry, Error> {
        let node = Node::read(self.space.view(), entry.address())?;
        let (rank, taken) = node.rank(digit);
        let same = taken && node.at(rank) == child;
        if same {
            return Ok(entry);
        }
        if taken && child != Entry::EMPTY {
            let bytes = node.bytes();
            let place = if in_place { entry } else { self.copy_node(entry, bytes)? };
            self.space.fill(place.address(), node::entry_at(rank), &child.0.to_le_bytes());
            return Ok(place);
        }
        node.encode_with(self.scratch, self.version, digit, child);
        self.space.free(entry.address(), SlotUse::Node)?;
        self.place_node()
    }

    /// Copies a node of `bytes` bytes to another slot, for the current version.
    fn copy_node(&mut self, entry: Entry, bytes: usize) -> Result<Entry, Error> {
        self.space.free(entry.address(), SlotUse::Node)?;
        let address = self.space.take(SlotUse::Node, bytes as u32)?;
        self.space.fill_from(address, entry.address(), bytes)?;
        // Not sealed yet, like every node that was not written out.
        self.space.fill(address, 0, &[0; 4]);
        self.space.fill(address, node::VERSION_AT, &self.version.to_le_bytes());
        Ok(Entry::node(address))
    }

    fn rewrite_under(&mut self, entry: Entry, prefix: &[u8]) -> Result<Entry, Error> {
        let node = Node::read(self.space.view(), entry.address())?;
        node.encode_under(self.scratch, self.version, prefix);
        self.space.free(entry.address(), SlotUse::Node)?;
        self.place_node()
    }

    fn write_node(&mut self, children: &[(u8, Entry)], prefix: &[u8]) -> Result<Entry, Error> {
        node::encode(self.scratch, self.version, children, prefix);
        self.place_node()
    }

    /// Writes the node in `scratch` to a slot.
    fn place_node(&mut self) -> Result<Entry, Error> {
        let address = self.space.take(SlotUse::Node, self.scratch.len() as u32)?;
        self.space.fill(address, 0, self.scratch);
        Ok(Entry::node(address))
    }

    /// The entries of a bucket that is about to be replaced.
    fn open_bucket(&mut self, entry: Entry) -> Result<Vec<Entry>, Error> {
        let bucket = Bucket::read(self.space.view(), entry.address())?;
        let mut entries = Vec::with_capacity(bucket.len() + 1);
        entries.extend(bucket.entries());
        self.space.free(entry.address(), SlotUse::Bucket)?;
        Ok(entries)
    }

    fn write_bucket(&mut self, entries: &[Entry]) -> Result<Entry, Error> {
        bucket::encode(self.scratch, entries.iter().copied());
        self.place_bucket()
    }

    /// Writes the bucket in `scratch` to a slot.
    fn place_bucket(&mut self) -> Result<Entry, Error> {
        let address = self.space.take(SlotUse::Bucket, self.scratch.len() as u32)?;
        bucket::seal(address, self.scratch);
        self.space.fill(address, 0, self.scratch);
        Ok(Entry::bucket(address))
    }
}
