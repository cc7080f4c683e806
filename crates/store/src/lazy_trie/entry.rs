//! Entries: the reference of a node or a bucket to a child, in eight bytes.

use super::hash::TAG_BITS;

/// Space is addressed in units of this many bytes.
pub(super) const UNIT_BYTES: u64 = 16;
/// Bits of an address: 2^40 units are 16 TiB.
pub(super) const ADDRESS_BITS: u32 = 40;

/// A place in the linear space, in units of [`UNIT_BYTES`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Address(pub(super) u64);

impl Address {
    pub(super) fn bytes(self) -> u64 {
        self.0 * UNIT_BYTES
    }
}

/// The kind of data at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Empty,
    Item,
    Bucket,
    Node,
}

/// `kind (2 bits, the highest) ‖ tag (22) ‖ address (40)`. All zeros mean that nothing is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry(pub(super) u64);

impl Entry {
    pub(super) const EMPTY: Entry = Entry(0);

    pub(super) fn item(address: Address, tag: u32) -> Entry {
        Entry(1 << 62 | u64::from(tag) << ADDRESS_BITS | address.0)
    }

    pub(super) fn bucket(address: Address) -> Entry {
        Entry(2 << 62 | address.0)
    }

    pub(super) fn node(address: Address) -> Entry {
        Entry(3 << 62 | address.0)
    }

    /// An entry of a node.
    pub(super) fn decode(bytes: &[u8; 8]) -> Entry {
        Entry(u64::from_le_bytes(*bytes))
    }

    pub(super) fn kind(self) -> Kind {
        match self.0 >> 62 {
            0 => Kind::Empty,
            1 => Kind::Item,
            2 => Kind::Bucket,
            _ => Kind::Node,
        }
    }

    pub(super) fn address(self) -> Address {
        Address(self.0 & ((1 << ADDRESS_BITS) - 1))
    }

    pub(super) fn tag(self) -> u32 {
        (self.0 >> ADDRESS_BITS) as u32 & ((1 << TAG_BITS) - 1)
    }
}

/// The checksum of the data at `address`: CRC-32C of `bytes`, begun with the address, with its
/// halves combined.
pub(super) fn checksum(address: Address, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(address.0 as u32 ^ (address.0 >> 32) as u32, bytes)
}
