//! The check of a store: it reads everything, and compares the tree with the space's lists of used
//! slots.

use super::bucket::Bucket;
use super::checkpoint::Pause;
use super::digests::verify::Survey;
use super::entry::{Address, Entry, Kind};
use super::error::Error;
use super::head::HEAD_NAME;
use super::item;
use super::memory::View;
use super::node::{self, Node};
use super::slab::Use;
use super::store::{Store, lock};
use super::tree::check_depth;
use std::collections::BTreeSet;

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Readable items whose place matches their hash.
    pub items: u64,
    /// Buckets and nodes.
    pub buckets: u64,
    /// Nodes.
    pub nodes: u64,
    /// The number of nodes on the longest path.
    pub height: usize,
    /// The damage found, at most the first thousand.
    pub damage: Vec<Damage>,
}

/// Damaged data, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: String,
    /// The byte offset in the file.
    pub offset: u64,
    /// The kind of damage.
    pub what: String,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is damaged at offset {}: {}", self.file, self.offset, self.what)
    }
}

impl From<Error> for Damage {
    fn from(error: Error) -> Damage {
        match error {
            Error::Damaged { file, offset, what } => {
                Damage { file, offset, what: what.to_string() }
            }
            other => Damage { file: HEAD_NAME.to_string(), offset: 0, what: other.to_string() },
        }
    }
}

/// The limit of the list.
const DAMAGE_LISTED: usize = 1000;

impl Store {
    /// Reads everything in the last commit, and verifies checksums, places and the lists of used
    /// slots. For an authenticated store it also computes every digest again from the items.
    /// Writers wait meanwhile.
    ///
    /// # Errors
    /// [`Error::TooManySnapshots`]; as [`Store::provable_snapshot`]. The result reports damage.
    pub fn check(&self) -> Result<Checked, Error> {
        // A running checkpoint holds slots that no list names.
        let _none = Pause::new(&self.shared);
        // The log's lock prevents the publication of other batches, the lanes' locks and the
        // writer's lock their creation.
        let mut alone = self.shared.alone();
        let mut log = lock(&self.shared.log);
        let mut writer = lock(&self.shared.writer);
        let collected = self.shared.collect(&mut alone, &mut writer);
        if writer.stopped.is_none() {
            self.shared.show_united(&mut log, &mut writer)?;
            self.shared.show_proofs(&mut log, &mut writer)?;
        }
        let snapshot = self.snapshot()?;
        let mut walk = Walk {
            view: snapshot.reading(),
            path: Vec::new(),
            seen: BTreeSet::new(),
            aside: 0,
            checked: Checked::default(),
        };
        for (digit, root) in snapshot.roots() {
            walk.path.extend(digit);
            walk.checked.height = walk.checked.height.max(walk.path.len());
            walk.entry(root);
            walk.path.clear();
        }
        let Walk { mut seen, mut checked, aside, view, .. } = walk;
        if let Some(root) = snapshot.digests().filter(|_| snapshot.is_provable()) {
            let hashing = self.shared.options.digest_of_values();
            let mut survey = Survey { view, hashing, seen, leaves: 0, damage: Vec::new() };
            survey.root(root);
            survey.damage.into_iter().for_each(|error| checked.note(error));
            if survey.leaves != checked.items - aside {
                let (leaves, items) = (survey.leaves, checked.items - aside);
                let what = format!("{leaves} of {items} items have the digest they should");
                checked.note(Damage { file: HEAD_NAME.to_string(), offset: 0, what });
            }
            seen = survey.seen;
        }
        if let Err(error) = collected {
            checked.note(error);
        }
        if lock(&self.shared.queue).is_empty() && writer.stopped.is_none() {
            if checked.items != writer.totals.items {
                let what =
                    format!("{} items were found, {} counted", checked.items, writer.totals.items);
                checked.note(Damage { file: HEAD_NAME.to_string(), offset: 0, what });
            }
            seen.extend(writer.space.waiting().chain(writer.next_root));
            compare(&writer.space, &seen, &mut checked);
        }
        Ok(checked)
    }
}

/// Every used slot must be reachable or wait for its release, and the reverse.
fn compare(space: &super::space::Space, seen: &BTreeSet<Address>, checked: &mut Checked) {
    let mut taken = BTreeSet::new();
    for (index, slab) in space.slabs.iter().enumerate() {
        let slot_bytes = match slab.usage {
            Use::Slots(_) => space.classes.size(slab.class),
            Use::Run => 0,
            _ => continue,
        };
        if slab.used.count() + slab.unused != slab.slots {
            let address = space.memory.address(index as u32, 0);
            checked.note(space.memory.damaged(address, "the count of a slab's free slots"));
        }
        taken.extend(
            slab.used.iter().map(|slot| space.memory.address(index as u32, slot * slot_bytes)),
        );
    }
    for address in taken.difference(seen) {
        if !space.is_idle_slot(*address) {
            checked.note(space.memory.damaged(*address, "a slot that nothing leads to"));
        }
    }
    for address in seen.difference(&taken) {
        checked.note(space.memory.damaged(*address, "a slot in use that counts as free"));
    }
}

impl Checked {
    fn note(&mut self, damage: impl Into<Damage>) {
        if self.damage.len() < DAMAGE_LISTED {
            self.damage.push(damage.into());
        }
    }
}

struct Walk<'a> {
    view: View<'a>,
    /// The digits on the path to here.
    path: Vec<u8>,
    seen: BTreeSet<Address>,
    /// Items without a digest.
    aside: u64,
    checked: Checked,
}

impl Walk<'_> {
    fn entry(&mut self, entry: Entry) {
        if entry.kind() == Kind::Empty {
            return;
        }
        if !self.seen.insert(entry.address()) {
            let damage = self.view.memory().damaged(entry.address(), "two entries lead there");
            self.checked.note(damage);
            return;
        }
        if let Err(error) = self.look_into(entry) {
            self.checked.note(error);
        }
    }

    fn look_into(&mut self, entry: Entry) -> Result<(), Error> {
        let address = entry.address();
        match entry.kind() {
            Kind::Empty => {}
            Kind::Item => {
                let hash = item::read(self.view, address)?.hash();
                let here = self.path.iter().enumerate().all(|(i, digit)| hash.digit(i) == *digit);
                if !here || hash.tag() != entry.tag() {
                    return Err(self
                        .view
                        .memory()
                        .damaged(address, "an item is not where it belongs"));
                }
                self.checked.items += 1;
                self.aside += u64::from(hash.is_aside());
            }
            Kind::Bucket => {
                self.checked.buckets += 1;
                for entry in Bucket::read(self.view, address)?.entries() {
                    self.entry(entry);
                }
            }
            Kind::Node => {
                self.checked.nodes += 1;
                let node = Node::read(self.view, address)?;
                self.verify(address)?;
                let depth = self.path.len();
                check_depth(self.view, entry, depth + node.prefix.len())?;
                self.path.extend_from_slice(node.prefix);
                let mut slots = node.slots();
                while slots != 0 {
                    let digit = slots.trailing_zeros() as u8;
                    slots &= slots - 1;
                    self.path.push(digit);
                    self.checked.height = self.checked.height.max(self.path.len());
                    self.entry(node.child(digit));
                    self.path.pop();
                }
                self.path.truncate(depth);
            }
        }
        Ok(())
    }

    /// Verifies the checksum of a node that was written out. Readers may have skipped it.
    fn verify(&self, address: Address) -> Result<(), Error> {
        let damaged = |what| self.view.memory().damaged(address, what);
        let room = self.view.room(address).ok_or_else(|| damaged("nothing is there"))?;
        let head = room.take(node::HEAD_BYTES).ok_or_else(|| damaged("a node does not fit"))?;
        let bytes = node::length(head).and_then(|length| room.take(length));
        let bytes = bytes.ok_or_else(|| damaged("the length of a node"))?;
        // A shadow's nodes get their checksums when they are written out.
        if bytes.starts_with(&[0; 4]) || node::is_sound(address, bytes) {
            return Ok(());
        }
        Err(damaged("the checksum of a node"))
    }
}
