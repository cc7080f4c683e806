//! Items: a key, or its hash alone, and a value.
//!
//! ```text
//! 0  CRC-32C of all that follows, begun with the address
//! 4  varint: length of the key · 2, plus 1 if the item was put by its hash, which is then the key
//! …  varint: length of the value ‖ key ‖ value
//! ```

use super::entry::{Address, checksum};
use super::error::Error;
use super::hash::Hash;
use super::memory::View;

/// The longest key, in bytes.
pub const KEY_LIMIT_BYTES: usize = 64 << 10;
/// The longest value, in bytes.
pub const VALUE_LIMIT_BYTES: usize = 16 << 20;

const CHECKSUM_BYTES: usize = 4;
/// Every slot has at least this length, and every item's lengths end before it.
const HEAD_READ_BYTES: usize = 16;

/// Most items are no longer than this, and are read at once.
const USUAL_BYTES: usize = 192;

/// The name of an item.
#[derive(Clone, Copy, Debug)]
pub enum Name<'a> {
    /// Its key.
    Key(&'a [u8]),
    /// The hash of its key.
    Hash(Hash),
}

impl Name<'_> {
    pub(crate) fn hash(&self) -> Hash {
        match self {
            Name::Key(key) => Hash::of(key),
            Name::Hash(hash) => *hash,
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Name::Key(key) => key,
            Name::Hash(hash) => &hash.0,
        }
    }
}

impl<'a> From<&'a [u8]> for Name<'a> {
    fn from(key: &'a [u8]) -> Name<'a> {
        Name::Key(key)
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Name<'a> {
    fn from(key: &'a [u8; N]) -> Name<'a> {
        Name::Key(key)
    }
}

impl<'a> From<&'a Vec<u8>> for Name<'a> {
    fn from(key: &'a Vec<u8>) -> Name<'a> {
        Name::Key(key)
    }
}

impl<'a> From<&'a Hash> for Name<'a> {
    fn from(hash: &'a Hash) -> Name<'a> {
        Name::Hash(*hash)
    }
}

/// An item in the space.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    name: Stored<'a>,
    /// Its value.
    pub value: &'a [u8],
}

#[derive(Clone, Copy, Debug)]
enum Stored<'a> {
    Key(&'a [u8]),
    Hash(&'a [u8]),
}

impl<'a> Item<'a> {
    /// Its key, unless it was put by its hash.
    #[must_use]
    pub fn key(&self) -> Option<&'a [u8]> {
        match self.name {
            Stored::Key(key) => Some(key),
            Stored::Hash(_) => None,
        }
    }

    /// The hash of its key.
    #[must_use]
    pub fn hash(&self) -> Hash {
        match self.name {
            Stored::Key(key) => Hash::of(key),
            Stored::Hash(bytes) => Hash(bytes.first_chunk::<32>().copied().unwrap_or([0; 32])),
        }
    }

    /// Whether the item has this name; `hash` is the name's.
    pub(super) fn is(&self, name: &Name<'_>, hash: &Hash) -> bool {
        match (self.name, name) {
            (Stored::Key(mine), Name::Key(key)) => mine == *key,
            (Stored::Hash(mine), _) => mine == hash.0,
            (Stored::Key(mine), Name::Hash(hash)) => Hash::of(mine) == *hash,
        }
    }

    pub(super) fn name_bytes(&self) -> usize {
        match self.name {
            Stored::Key(bytes) | Stored::Hash(bytes) => bytes.len(),
        }
    }
}

/// The fields in front of an item's key.
pub(super) struct Front {
    bytes: [u8; HEAD_READ_BYTES],
    length: usize,
}

impl Front {
    /// The fields without the checksum.
    pub(super) fn new(name: &Name<'_>, value: &[u8]) -> Front {
        let mut front = Front { bytes: [0; HEAD_READ_BYTES], length: CHECKSUM_BYTES };
        let by_hash = usize::from(matches!(name, Name::Hash(_)));
        each_varint_byte(name.bytes().len() * 2 + by_hash, |byte| front.push(byte));
        each_varint_byte(value.len(), |byte| front.push(byte));
        front
    }

    fn push(&mut self, byte: u8) {
        debug_assert!(self.length < HEAD_READ_BYTES, "names and values are shorter");
        if let Some(place) = self.bytes.get_mut(self.length) {
            *place = byte;
            self.length += 1;
        }
    }

    /// Adds the checksum of the item at `address`.
    pub(super) fn sealed(mut self, address: Address, name: &Name<'_>, value: &[u8]) -> Front {
        let mut sum = checksum(address, self.bytes().get(CHECKSUM_BYTES..).unwrap_or(&[]));
        sum = crc32c::crc32c_append(sum, name.bytes());
        sum = crc32c::crc32c_append(sum, value);
        if let Some(stored) = self.bytes.first_chunk_mut::<CHECKSUM_BYTES>() {
            *stored = sum.to_le_bytes();
        }
        self
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or(&self.bytes)
    }
}

/// Appends a varint: seven bits in a byte, the lowest first.
pub(super) fn put_varint(into: &mut Vec<u8>, number: usize) {
    each_varint_byte(number, |byte| into.push(byte));
}

fn each_varint_byte(mut number: usize, mut put: impl FnMut(u8)) {
    while number > 0x7f {
        put((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    put(number as u8);
}

/// Reads a varint of at most 28 bits. Returns the number and the bytes behind it.
fn varint(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut number = 0;
    for (index, byte) in bytes.iter().take(4).enumerate() {
        number |= usize::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((number, bytes.get(index + 1..)?));
        }
    }
    None
}

/// The item at `address`, checked.
///
/// # Errors
/// [`Error::Damaged`].
pub(super) fn read(view: View<'_>, address: Address) -> Result<Item<'_>, Error> {
    view.ask_for(address, USUAL_BYTES);
    let (item, bytes) = parse(view, address)?;
    let (stored, content) = bytes.split_at_checked(CHECKSUM_BYTES).unwrap_or((&[], &[]));
    if stored != checksum(address, content).to_le_bytes() {
        return Err(view.memory().damaged(address, "the checksum of an item"));
    }
    Ok(item)
}

/// The lengths of name and value of the item at `address`, if its name is `name`. The caller is
/// about to remove that item. An item of another name is checked as a whole, because damage to a
/// name must not turn it into another one.
///
/// # Errors
/// [`Error::Damaged`].
pub(super) fn lengths_if(
    view: View<'_>,
    address: Address,
    name: &Name<'_>,
    hash: &Hash,
) -> Result<Option<(usize, usize)>, Error> {
    let (item, _) = parse(view, address)?;
    if item.is(name, hash) {
        return Ok(Some((item.name_bytes(), item.value.len())));
    }
    read(view, address).map(|_| None)
}

/// The item at `address`, with all its bytes. Only its bounds are checked.
fn parse(view: View<'_>, address: Address) -> Result<(Item<'_>, &[u8]), Error> {
    let damaged = |what| view.memory().damaged(address, what);
    let room = view.room(address).ok_or_else(|| damaged("nothing is there"))?;
    let head = room.take(HEAD_READ_BYTES).ok_or_else(|| damaged("an item does not fit"))?;
    let fields = head.get(CHECKSUM_BYTES..).unwrap_or(&[]);
    let (named, rest) = varint(fields).ok_or_else(|| damaged("an item's lengths"))?;
    let (value_bytes, rest) = varint(rest).ok_or_else(|| damaged("an item's lengths"))?;
    let (name_bytes, by_hash) = (named / 2, named % 2 == 1);
    let head_bytes = HEAD_READ_BYTES - rest.len();
    let length = head_bytes + name_bytes + value_bytes;
    let bytes = room.take(length).ok_or_else(|| damaged("an item's lengths"))?;
    let (name, value) = bytes
        .get(head_bytes..)
        .and_then(|content| content.split_at_checked(name_bytes))
        .ok_or_else(|| damaged("an item's lengths"))?;
    if by_hash && name.len() != 32 {
        return Err(damaged("an item's hash"));
    }
    let name = if by_hash { Stored::Hash(name) } else { Stored::Key(name) };
    Ok((Item { name, value }, bytes))
}
