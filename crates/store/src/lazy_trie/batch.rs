//! Batches of changes, and how the log records them.
//!
//! A batch is one record of the log, or several if it is longer than a record may be. Record kinds: 1 the whole batch, 2 its first
//! part, 3 a middle one, 4 the last; 5 a checkpoint: its number, u64. Without its last part a batch does not count.
//! ```text
//! payload of a batch   the version it made u64 ‖ changes, and what is of the trail
//! change               kind u8: 1 put, 2 put by hash, 3 delete, 4 delete by hash
//!                      ‖ varint: length of the key (not by hash) ‖ varint: length of the value (put) ‖ key or hash ‖ value
//! of the trail         kind u8 = 6: an entry ‖ varint: its length ‖ the entry
//!                      kind u8 = 7: the trail that counts begins with the batch at position u64 of the log (0: with this one)
//! ```

use super::error::Error;
use super::hash::Hash;
use super::item::{KEY_LIMIT_BYTES, Name, VALUE_LIMIT_BYTES, put_varint};

pub(super) const WHOLE: u8 = 1;
pub(super) const FIRST: u8 = 2;
pub(super) const MIDDLE: u8 = 3;
pub(super) const LAST: u8 = 4;
pub(super) const CHECKPOINT: u8 = 5;

const PUT: u8 = 1;
const PUT_HASH: u8 = 2;
const DELETE: u8 = 3;
const DELETE_HASH: u8 = 4;
const ENTRY: u8 = 6;
const TURN: u8 = 7;

/// The longest batch, in bytes of its record.
pub const BATCH_LIMIT_BYTES: usize = 1 << 30;

/// Changes that are made together or not at all, in order.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    changes: usize,
    begins_trail: bool,
    turns_trail: bool,
}

/// A change of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change<'a> {
    pub(super) name: Name<'a>,
    /// `None`: a removal.
    pub(super) value: Option<&'a [u8]>,
}

impl Batch {
    /// No changes.
    #[must_use]
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Puts an item, replacing one of the same name.
    ///
    /// # Errors
    /// [`Error::TooLarge`].
    pub fn put<'a>(&mut self, name: impl Into<Name<'a>>, value: &[u8]) -> Result<(), Error> {
        self.add(&name.into(), Some(value))
    }

    /// Removes the item of a name, if there is one.
    ///
    /// # Errors
    /// [`Error::TooLarge`].
    pub fn delete<'a>(&mut self, name: impl Into<Name<'a>>) -> Result<(), Error> {
        self.add(&name.into(), None)
    }

    fn add(&mut self, name: &Name<'_>, value: Option<&[u8]>) -> Result<(), Error> {
        check_lengths(name, value)?;
        let bytes = self.bytes.len() + name.bytes().len() + value.map_or(0, <[u8]>::len) + 16;
        within("a batch", bytes, BATCH_LIMIT_BYTES)?;
        encode(&mut self.bytes, name, value);
        self.changes += 1;
        Ok(())
    }

    /// Leaves `parts`, one behind the other, as one entry in the log and nowhere else: the *trail* of the store ([`Store::trail`](super::Store::trail)). It is kept
    /// if a trail was begun with this batch or an earlier one.
    ///
    /// # Errors
    /// [`Error::TooLarge`]: an entry has at most [`VALUE_LIMIT_BYTES`](super::VALUE_LIMIT_BYTES).
    pub fn entry(&mut self, parts: &[&[u8]]) -> Result<(), Error> {
        let bytes = parts.iter().map(|part| part.len()).sum();
        within("an entry of the trail", bytes, VALUE_LIMIT_BYTES)?;
        within("a batch", self.bytes.len() + bytes + 16, BATCH_LIMIT_BYTES)?;
        self.bytes.push(ENTRY);
        put_varint(&mut self.bytes, bytes);
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        Ok(())
    }

    /// Begins another trail with this batch. The last one counts until a batch [turns](Self::turn_trail) to this.
    pub fn begin_trail(&mut self) {
        self.begins_trail = true;
    }

    /// From this batch on the trail that was begun last is the one that counts; if none was since the last such batch, or since the store was opened, it
    /// begins here.
    pub fn turn_trail(&mut self) {
        self.turns_trail = true;
    }

    pub(super) fn begins_trail(&self) -> bool {
        self.begins_trail
    }

    pub(super) fn turns_trail(&self) -> bool {
        self.turns_trail
    }

    /// How many changes it has, entries of the trail not among them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.changes
    }

    /// Whether it has no change; it may have entries of the trail.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes == 0
    }

    /// Forgets all changes; the memory is kept.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.changes = 0;
        (self.begins_trail, self.turns_trail) = (false, false);
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Whether name and value are as short as they must be.
pub(super) fn check_lengths(name: &Name<'_>, value: Option<&[u8]>) -> Result<(), Error> {
    within("a key", name.bytes().len(), KEY_LIMIT_BYTES)?;
    within("a value", value.map_or(0, <[u8]>::len), VALUE_LIMIT_BYTES)
}

/// Appends a change, as it stands in the log.
pub(super) fn encode(into: &mut Vec<u8>, name: &Name<'_>, value: Option<&[u8]>) {
    into.push(match (name, value) {
        (Name::Key(_), Some(_)) => PUT,
        (Name::Hash(_), Some(_)) => PUT_HASH,
        (Name::Key(_), None) => DELETE,
        (Name::Hash(_), None) => DELETE_HASH,
    });
    if let Name::Key(key) = name {
        put_varint(into, key.len());
    }
    if let Some(value) = value {
        put_varint(into, value.len());
    }
    into.extend_from_slice(name.bytes());
    into.extend_from_slice(value.unwrap_or(&[]));
}

fn within(what: &'static str, bytes: usize, limit: usize) -> Result<(), Error> {
    if bytes <= limit {
        return Ok(());
    }
    Err(Error::TooLarge { what, bytes: bytes as u64, limit: limit as u64 })
}

/// Reads changes; an item that makes no sense is `Err`, and the last.
pub(super) struct Changes<'a> {
    rest: &'a [u8],
}

/// What stands there is no change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoChange;

impl<'a> Changes<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Changes<'a> {
        Changes { rest: bytes }
    }

    fn next_step(&mut self) -> Option<Result<Step<'a>, NoChange>> {
        if self.rest.is_empty() {
            return None;
        }
        let step = self.step().ok_or(NoChange);
        if step.is_err() {
            self.rest = &[];
        }
        Some(step)
    }

    fn length(&mut self, limit: usize) -> Option<usize> {
        let mut length = 0;
        for index in 0..4 {
            let (byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            length |= usize::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                return (length <= limit).then_some(length);
            }
        }
        None
    }

    fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(bytes)
    }

    /// The next change, or what is of the trail.
    fn step(&mut self) -> Option<Step<'a>> {
        let [kind] = *self.bytes(1)? else { return None };
        let key = match kind {
            ENTRY => {
                let length = self.length(VALUE_LIMIT_BYTES)?;
                return Some(Step::Stray(Stray::Entry(self.bytes(length)?)));
            }
            TURN => {
                let position = *self.bytes(8)?.first_chunk()?;
                return Some(Step::Stray(Stray::Turn(u64::from_le_bytes(position))));
            }
            PUT | DELETE => Some(self.length(KEY_LIMIT_BYTES)?),
            PUT_HASH | DELETE_HASH => None,
            _ => return None,
        };
        let value = match kind {
            PUT | PUT_HASH => Some(self.length(VALUE_LIMIT_BYTES)?),
            _ => None,
        };
        let name = match key {
            Some(length) => Name::Key(self.bytes(length)?),
            None => Name::Hash(Hash(*self.bytes(32)?.first_chunk()?)),
        };
        let value = match value {
            Some(length) => Some(self.bytes(length)?),
            None => None,
        };
        Some(Step::Change(Change { name, value }))
    }
}

/// What the log has of a batch.
enum Step<'a> {
    Change(Change<'a>),
    Stray(Stray<'a>),
}

/// What a batch has beside changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stray<'a> {
    /// An entry of the trail.
    Entry(&'a [u8]),
    /// The trail that counts begins with the batch at this position.
    Turn(u64),
}

impl<'a> Stray<'a> {
    /// All that a batch has; what makes no sense is `Err`, and the last.
    pub(super) fn of(bytes: &'a [u8]) -> impl Iterator<Item = Result<Stray<'a>, NoChange>> {
        let mut changes = Changes::of(bytes);
        std::iter::from_fn(move || {
            loop {
                match changes.next_step()? {
                    Ok(Step::Stray(stray)) => return Some(Ok(stray)),
                    Ok(Step::Change(_)) => {}
                    Err(error) => return Some(Err(error)),
                }
            }
        })
    }
}

/// Appends what makes the trail count that begins with the batch at `position`.
pub(super) fn encode_turn(into: &mut Vec<u8>, position: u64) {
    into.push(TURN);
    into.extend_from_slice(&position.to_le_bytes());
}

impl<'a> Iterator for Changes<'a> {
    type Item = Result<Change<'a>, NoChange>;

    fn next(&mut self) -> Option<Result<Change<'a>, NoChange>> {
        loop {
            match self.next_step()? {
                Ok(Step::Change(change)) => return Some(Ok(change)),
                Ok(Step::Stray(_)) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
