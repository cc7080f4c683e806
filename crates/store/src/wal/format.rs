//! The encoding of a segment: see the module's documentation for the layout.

use super::error::{Damage, Error};
use crate::bytes::{array, u32_at, u64_at};
use std::fmt;

/// The format written and read.
pub const FORMAT_VERSION: u32 = 1;

pub(super) const MAGIC: [u8; 8] = *b"QRWAL\0\0\0";
/// Header and marks have a page each, so a torn page damages no other.
pub(super) const PAGE_BYTES: u64 = 4096;
pub(super) const HEADER_FIELDS_BYTES: usize = 68;
pub(super) const MARK_BYTES: usize = 12;
pub(super) const SLOT_HEAD_BYTES: usize = 24;
pub(super) const RECORD_HEAD_BYTES: usize = 9;
/// Four zero bytes: nothing follows.
pub(super) const END_MARK: [u8; 4] = [0; 4];
/// The kind of the log's own copies of the safety record.
pub(super) const SAFETY_KIND: u8 = 0;
/// The length of the number in front of the safety record in such a copy.
pub(super) const SAFETY_NUMBER_BYTES: usize = 8;

/// An address in the log: strictly increasing from record to record, stable across restarts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

impl Position {
    /// The oldest record, wherever it is.
    pub const START: Position = Position(0);
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One of two alternating places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    A,
    B,
}

impl Side {
    pub(super) const BOTH: [Side; 2] = [Side::A, Side::B];

    pub(super) fn other(self) -> Side {
        match self {
            Side::A => Side::B,
            Side::B => Side::A,
        }
    }
}

/// The sizes of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    pub(super) segment_bytes: u64,
    pub(super) slot_bytes: u32,
}

impl Geometry {
    pub(super) fn mark_at(self, side: Side) -> u64 {
        match side {
            Side::A => PAGE_BYTES,
            Side::B => 2 * PAGE_BYTES,
        }
    }

    pub(super) fn slot_at(self, side: Side) -> u64 {
        match side {
            Side::A => 3 * PAGE_BYTES,
            Side::B => 3 * PAGE_BYTES + u64::from(self.slot_bytes),
        }
    }

    pub(super) fn records_at(self) -> u64 {
        3 * PAGE_BYTES + 2 * u64::from(self.slot_bytes)
    }

    /// The longest payload that fits a new segment behind its copy of the safety record, whatever
    /// the length of that copy.
    pub(super) fn record_limit(self) -> u64 {
        self.segment_bytes.saturating_sub(self.overhead())
    }

    /// The length of a segment that has room for a record of `bytes`.
    pub(super) fn segment_for(self, bytes: u64) -> u64 {
        let checked = self.records_at() + 2 * (u64::from(self.slot_bytes) + PAGE_BYTES);
        (self.overhead() + bytes).max(checked).next_multiple_of(PAGE_BYTES)
    }

    /// The length of a segment without its one record: its head, and a copy of the safety record.
    fn overhead(self) -> u64 {
        let copy = u64::from(self.slot_bytes) + (RECORD_HEAD_BYTES + SAFETY_NUMBER_BYTES) as u64;
        self.records_at() + copy + RECORD_HEAD_BYTES as u64
    }
}

/// The checksums of one log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seal(u32);

impl Seal {
    pub(super) fn new(identity: &[u8; 16]) -> Seal {
        Seal(crc32c::crc32c(identity))
    }

    /// `crc(position, bytes)`.
    pub(super) fn checksum(self, position: u64, bytes: &[u8]) -> u32 {
        crc32c::crc32c_append(self.at(position), bytes)
    }

    fn at(self, position: u64) -> u32 {
        crc32c::crc32c_append(self.0, &position.to_le_bytes())
    }

    /// The checksum of a record.
    pub(super) fn record(self, position: u64, kind: u8, payload: &[u8]) -> u32 {
        let length = u32::try_from(payload.len() + 1).unwrap_or(u32::MAX).to_le_bytes();
        let [l0, l1, l2, l3] = length;
        crc32c::crc32c_append(
            crc32c::crc32c_append(self.at(position), &[l0, l1, l2, l3, kind]),
            payload,
        )
    }
}

/// Appends a record for `position`. The caller has checked that it fits.
pub(super) fn put_record(into: &mut Vec<u8>, seal: Seal, position: u64, kind: u8, parts: &[&[u8]]) {
    let start = into.len();
    into.extend_from_slice(&[0; 8]);
    into.push(kind);
    for part in parts {
        into.extend_from_slice(part);
    }
    let payload = &into[start + RECORD_HEAD_BYTES..];
    let length = u32::try_from(payload.len() + 1).unwrap_or(u32::MAX);
    let checksum = seal.record(position, kind, payload);
    into[start..start + 4].copy_from_slice(&length.to_le_bytes());
    into[start + 4..start + 8].copy_from_slice(&checksum.to_le_bytes());
}

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) identity: [u8; 16],
    pub(super) sequence: u64,
    pub(super) first: u64,
    pub(super) previous_end: u64,
    pub(super) geometry: Geometry,
}

impl Header {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut page = Vec::with_capacity(PAGE_BYTES as usize);
        page.extend_from_slice(&MAGIC);
        page.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        page.extend_from_slice(&self.identity);
        for field in [self.sequence, self.first, self.previous_end, self.geometry.segment_bytes] {
            page.extend_from_slice(&field.to_le_bytes());
        }
        page.extend_from_slice(&self.geometry.slot_bytes.to_le_bytes());
        page.extend_from_slice(&crc32c::crc32c(&page).to_le_bytes());
        page.resize(PAGE_BYTES as usize, 0);
        page
    }

    /// Reads a header and checks it alone. The caller compares it with its neighbours.
    pub(super) fn decode(bytes: &[u8], file: &str, identity: &[u8; 16]) -> Result<Header, Error> {
        let foreign = || Error::Foreign { file: file.to_string() };
        if !bytes.starts_with(&MAGIC) {
            return Err(foreign());
        }
        let version = u32_at(bytes, 8).ok_or_else(foreign)?;
        if version != FORMAT_VERSION {
            return Err(Error::Version {
                file: file.to_string(),
                found: version,
                supported: FORMAT_VERSION,
            });
        }
        let expected = crc32c::crc32c(bytes.get(..64).ok_or_else(foreign)?);
        let actual = u32_at(bytes, 64).ok_or_else(foreign)?;
        let damaged = |damage| Error::Damaged { file: file.to_string(), offset: 0, damage };
        if expected != actual {
            return Err(damaged(Damage::Checksum { expected, actual }));
        }
        let found: [u8; 16] = array(bytes, 12).ok_or_else(foreign)?;
        if found != *identity {
            return Err(Error::Identity {
                file: file.to_string(),
                found: hex(&found),
                expected: hex(identity),
            });
        }
        let field = |at| u64_at(bytes, at).ok_or_else(foreign);
        let geometry = Geometry {
            segment_bytes: field(52)?,
            slot_bytes: u32_at(bytes, 60).ok_or_else(foreign)?,
        };
        let header = Header {
            identity: found,
            sequence: field(28)?,
            first: field(36)?,
            previous_end: field(44)?,
            geometry,
        };
        if geometry.slot_bytes < PAGE_BYTES as u32
            || geometry.records_at() >= geometry.segment_bytes
        {
            return Err(damaged(Damage::Field("slot capacity")));
        }
        if header.first.checked_add(geometry.segment_bytes).is_none() {
            return Err(damaged(Damage::Field("first position")));
        }
        Ok(header)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Encodes a mark for `position`.
pub(super) fn encode_mark(seal: Seal, position: u64, watermark: u64) -> [u8; MARK_BYTES] {
    let mut mark = [0; MARK_BYTES];
    mark[4..].copy_from_slice(&watermark.to_le_bytes());
    let checksum = seal.checksum(position, &mark[4..]);
    mark[..4].copy_from_slice(&checksum.to_le_bytes());
    mark
}

/// The watermark of a mark, if it is valid.
pub(super) fn decode_mark(bytes: &[u8], seal: Seal, position: u64) -> Option<u64> {
    (u32_at(bytes, 0)? == seal.checksum(position, bytes.get(4..MARK_BYTES)?))
        .then(|| u64_at(bytes, 4))?
}

/// The content of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) number: u64,
    pub(super) watermark: u64,
    pub(super) payload: Vec<u8>,
}

/// Encodes a slot for `position`.
pub(super) fn encode_slot(
    seal: Seal,
    position: u64,
    number: u64,
    watermark: u64,
    payload: &[u8],
) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(SLOT_HEAD_BYTES + payload.len());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&u32::try_from(payload.len()).unwrap_or(u32::MAX).to_le_bytes());
    bytes.extend_from_slice(&number.to_le_bytes());
    bytes.extend_from_slice(&watermark.to_le_bytes());
    bytes.extend_from_slice(payload);
    let checksum = seal.checksum(position, &bytes[4..]);
    bytes[..4].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// The slot in `bytes` (its whole capacity), if it is valid.
pub(super) fn decode_slot(bytes: &[u8], seal: Seal, position: u64) -> Option<Slot> {
    let length = usize::try_from(u32_at(bytes, 4)?).ok()?;
    let used = bytes.get(4..SLOT_HEAD_BYTES.checked_add(length)?)?;
    if u32_at(bytes, 0)? != seal.checksum(position, used) {
        return None;
    }
    let payload = bytes.get(SLOT_HEAD_BYTES..)?.get(..length)?.to_vec();
    Some(Slot { number: u64_at(bytes, 8)?, watermark: u64_at(bytes, 16)?, payload })
}
