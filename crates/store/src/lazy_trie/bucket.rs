//! Buckets: the items at one slot of a node, side by side, until there are too many.
//!
//! ```text
//! 0  CRC-32C of bytes 4 to the end, begun with the address
//! 4  number of entries u16 | 6 zero u16 | 8 the entries, u64 each, all items
//! ```

use super::entry::{Address, Entry, Kind, checksum};
use super::error::Error;
use super::memory::View;

pub(super) const HEAD_BYTES: usize = 8;
/// Most buckets are no longer than this, and are read at once.
const USUAL_BYTES: usize = 64;
/// No option allows more entries, so more of them are damage.
const LIMIT: usize = 128;

/// A bucket in the space.
#[derive(Clone, Copy)]
pub(super) struct Bucket<'a> {
    entries: &'a [[u8; 8]],
}

impl<'a> Bucket<'a> {
    /// Reads and checks the bucket at `address`.
    pub(super) fn read(view: View<'a>, address: Address) -> Result<Bucket<'a>, Error> {
        let damaged = |what| view.memory().damaged(address, what);
        let room = view.room(address).ok_or_else(|| damaged("nothing is there"))?;
        room.ask_for(0, USUAL_BYTES);
        let head = room.take(HEAD_BYTES).ok_or_else(|| damaged("a bucket does not fit"))?;
        let count =
            head.get(4..6).and_then(|b| b.first_chunk().copied()).map_or(0, u16::from_le_bytes);
        let count = usize::from(count);
        let bytes =
            (1..=LIMIT).contains(&count).then(|| room.take(HEAD_BYTES + 8 * count)).flatten();
        let bytes = bytes.ok_or_else(|| damaged("the length of a bucket"))?;
        let (stored, content) = bytes.split_at_checked(4).unwrap_or((&[], &[]));
        if stored != checksum(address, content).to_le_bytes() {
            return Err(damaged("the checksum of a bucket"));
        }
        let (entries, _) = bytes.get(HEAD_BYTES..).unwrap_or(&[]).as_chunks::<8>();
        let bucket = Bucket { entries };
        // Without a branch for each entry.
        if !bucket.entries().fold(true, |all, entry| all & (entry.kind() == Kind::Item)) {
            return Err(damaged("the entries of a bucket"));
        }
        Ok(bucket)
    }

    /// The entries of the bucket at `address`, unchecked, so they may be wrong.
    pub(super) fn glance(view: View<'a>, address: Address) -> Option<Bucket<'a>> {
        let room = view.room(address)?;
        room.ask_for(0, USUAL_BYTES);
        let count =
            room.take(HEAD_BYTES)?.get(4..6)?.first_chunk().copied().map(u16::from_le_bytes)?;
        let bytes = room.take(HEAD_BYTES + 8 * usize::from(count).min(LIMIT))?;
        Some(Bucket { entries: bytes.get(HEAD_BYTES..)?.as_chunks().0 })
    }

    pub(super) fn entries(self) -> impl ExactSizeIterator<Item = Entry> + DoubleEndedIterator + 'a {
        self.entries.iter().map(|bytes| Entry(u64::from_le_bytes(*bytes)))
    }

    pub(super) fn len(self) -> usize {
        self.entries.len()
    }
}

/// Encodes a bucket, without its checksum.
pub(super) fn encode(into: &mut Vec<u8>, entries: impl ExactSizeIterator<Item = Entry>) {
    into.clear();
    into.extend_from_slice(&[0; 4]);
    into.extend_from_slice(&u16::try_from(entries.len()).unwrap_or(u16::MAX).to_le_bytes());
    into.extend_from_slice(&[0; 2]);
    for entry in entries {
        debug_assert_eq!(entry.kind(), Kind::Item);
        into.extend_from_slice(&entry.0.to_le_bytes());
    }
}

/// Sets the checksum of these bytes as the bucket at `address`.
pub(super) fn seal(address: Address, bytes: &mut [u8]) {
    if let Some((stored, content)) = bytes.split_first_chunk_mut::<4>() {
        *stored = checksum(address, content).to_le_bytes();
    }
}
