//! Batches of changes, and their encoding in the log.
//!
//! A batch is one record of the log, or several if it is longer than a record may be. The record
//! kinds are: 1 a whole batch; 2 its first part, 3 a middle one, 4 the last one; 5 a checkpoint
//! (its number, u64). A batch without its last part does not count.
//! ```text
//! payload of a batch   the version it made u64 ‖ changes
//! change               kind u8: 1 put, 2 put by hash, 3 delete, 4 delete by hash
//!                      ‖ varint: length of the key (not by hash)
//!                      ‖ varint: length of the value (put) ‖ key or hash ‖ value
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

/// The longest batch, in bytes of its record.
pub const BATCH_LIMIT_BYTES: usize = 1 << 30;

/// Changes that are committed together, in order, or not at all.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    changes: usize,
}

/// A change of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change<'a> {
    pub(super) name: Name<'a>,
    /// `None`: a removal.
    pub(super) value: Option<&'a [u8]>,
}

impl Batch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Puts an item, and replaces the item of the same name.
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

    /// The number of changes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.changes
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes == 0
    }

    /// Removes all changes and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.changes = 0;
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Checks the lengths of name and value.
pub(super) fn check_lengths(name: &Name<'_>, value: Option<&[u8]>) -> Result<(), Error> {
    within("a key", name.bytes().len(), KEY_LIMIT_BYTES)?;
    within("a value", value.map_or(0, <[u8]>::len), VALUE_LIMIT_BYTES)
}

/// Appends a change in the log's encoding.
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

/// Reads changes. A malformed one is `Err`, and the last.
pub(super) struct Changes<'a> {
    rest: &'a [u8],
}

/// A malformed change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoChange;

impl<'a> Changes<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Changes<'a> {
        Changes { rest: bytes }
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

    fn change(&mut self) -> Option<Change<'a>> {
        let [kind] = *self.bytes(1)? else { return None };
        let key = match kind {
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
        Some(Change { name, value })
    }
}

impl<'a> Iterator for Changes<'a> {
    type Item = Result<Change<'a>, NoChange>;

    fn next(&mut self) -> Option<Result<Change<'a>, NoChange>> {
        if self.rest.is_empty() {
            return None;
        }
        let change = self.change().ok_or(NoChange);
        if change.is_err() {
            self.rest = &[];
        }
        Some(change)
    }
}
