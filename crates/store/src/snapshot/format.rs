//! The encoding of a snapshot: see the module's documentation for the layout.

use super::SnapshotError;
use crate::bytes::{array, u32_at, u64_at};

/// The longest metadata.
pub const METADATA_LIMIT_BYTES: u64 = 1 << 20;
/// The largest content.
pub const TOTAL_LIMIT_BYTES: u64 = 1 << 40;

pub(super) const TEMPORARY: &str = ".tmp";
pub(super) const CHUNK_HEAD_BYTES: u64 = 8;
pub(super) const TRAILER_BYTES: u64 = 52;
pub(super) const HEADER_FIXED_BYTES: usize = 44;
const MAGIC: [u8; 8] = *b"QRSNAP\0\0";
const END_MAGIC: [u8; 8] = *b"QRSNEND\0";
/// The version of the files' format.
pub const VERSION: u32 = 1;
const LEAST_CHUNK_BYTES: u64 = 4 << 10;
/// The longest chunk.
pub const MOST_CHUNK_BYTES: u64 = 16 << 20;

/// The description of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// The caller's number; a higher one is newer.
    pub number: u64,
    /// The caller's own bytes, for example a certificate.
    pub metadata: Vec<u8>,
    /// The length of each chunk except the last.
    pub chunk_bytes: u32,
    /// The length of the content.
    pub total_bytes: u64,
    /// BLAKE3 of the content.
    pub hash: [u8; 32],
}

impl SnapshotInfo {
    /// The number of chunks.
    pub fn chunks(&self) -> u64 {
        self.total_bytes.div_ceil(u64::from(self.chunk_bytes))
    }

    /// The length of chunk `index`; 0 past the end.
    pub fn chunk_length(&self, index: u64) -> u64 {
        let chunk = u64::from(self.chunk_bytes);
        self.total_bytes.saturating_sub(index.saturating_mul(chunk)).min(chunk)
    }

    pub(super) fn header_bytes(&self) -> u64 {
        (HEADER_FIXED_BYTES + self.metadata.len() + 4) as u64
    }

    pub(super) fn chunk_at(&self, index: u64) -> u64 {
        self.header_bytes() + index * (CHUNK_HEAD_BYTES + u64::from(self.chunk_bytes))
    }

    pub(super) fn trailer_at(&self) -> u64 {
        self.header_bytes() + self.chunks() * CHUNK_HEAD_BYTES + self.total_bytes
    }

    pub(super) fn check_limits(&self) -> Result<(), SnapshotError> {
        let limits = [
            ("metadata length", self.metadata.len() as u64, METADATA_LIMIT_BYTES),
            ("total length", self.total_bytes, TOTAL_LIMIT_BYTES),
            ("chunk size", u64::from(self.chunk_bytes), MOST_CHUNK_BYTES),
        ];
        for (what, value, limit) in limits {
            if value > limit {
                return Err(SnapshotError::Limit { what, value, limit });
            }
        }
        let value = u64::from(self.chunk_bytes);
        if value < LEAST_CHUNK_BYTES {
            return Err(SnapshotError::Limit {
                what: "chunk size (at least)",
                value,
                limit: LEAST_CHUNK_BYTES,
            });
        }
        Ok(())
    }
}

/// The name of snapshot `number` of a kind.
pub(super) fn snapshot_name(number: u64, kind: &str) -> String {
    format!("{number:020}.{kind}")
}

/// The number of a snapshot of this kind, if `name` is one.
pub(super) fn snapshot_number(name: &str, kind: &str) -> Option<u64> {
    let digits = name.strip_suffix(kind)?.strip_suffix('.')?;
    (digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit()))
        .then(|| digits.parse().ok())?
}

/// The checksums of one snapshot.
#[derive(Clone, Copy)]
pub(super) struct Seal(u32);

impl Seal {
    pub(super) fn new(identity: &[u8; 16], number: u64) -> Seal {
        Seal(crc32c::crc32c_append(crc32c::crc32c(identity), &number.to_le_bytes()))
    }

    pub(super) fn chunk(self, index: u64, bytes: &[u8]) -> u32 {
        crc32c::crc32c_append(crc32c::crc32c_append(self.0, &index.to_le_bytes()), bytes)
    }

    /// The head of a chunk.
    pub(super) fn chunk_head(self, index: u64, bytes: &[u8]) -> [u8; CHUNK_HEAD_BYTES as usize] {
        let mut head = [0; CHUNK_HEAD_BYTES as usize];
        head[..4].copy_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
        head[4..].copy_from_slice(&self.chunk(index, bytes).to_le_bytes());
        head
    }

    pub(super) fn encode_trailer(self, total_bytes: u64, hash: &[u8; 32]) -> Vec<u8> {
        let mut trailer = Vec::with_capacity(TRAILER_BYTES as usize);
        trailer.extend_from_slice(&END_MAGIC);
        trailer.extend_from_slice(&total_bytes.to_le_bytes());
        trailer.extend_from_slice(hash);
        trailer.extend_from_slice(&crc32c::crc32c_append(self.0, &trailer).to_le_bytes());
        trailer
    }

    /// The total length and the hash, if the trailer is valid.
    pub(super) fn decode_trailer(self, bytes: &[u8]) -> Option<(u64, [u8; 32])> {
        let checksum = crc32c::crc32c_append(self.0, bytes.get(..48)?);
        let valid = bytes.starts_with(&END_MAGIC) && u32_at(bytes, 48)? == checksum;
        valid.then_some((u64_at(bytes, 8)?, array(bytes, 16)?))
    }
}

pub(super) fn encode_header(identity: &[u8; 16], info: &SnapshotInfo) -> Vec<u8> {
    let mut header = Vec::with_capacity(HEADER_FIXED_BYTES + info.metadata.len() + 4);
    header.extend_from_slice(&MAGIC);
    header.extend_from_slice(&VERSION.to_le_bytes());
    header.extend_from_slice(identity);
    header.extend_from_slice(&info.number.to_le_bytes());
    header.extend_from_slice(&info.chunk_bytes.to_le_bytes());
    header.extend_from_slice(&u32::try_from(info.metadata.len()).unwrap_or(u32::MAX).to_le_bytes());
    header.extend_from_slice(&info.metadata);
    header.extend_from_slice(&crc32c::crc32c(&header).to_le_bytes());
    header
}

/// The fixed fields of a header.
pub(super) struct Fixed {
    pub(super) identity: [u8; 16],
    pub(super) number: u64,
    pub(super) chunk_bytes: u32,
    pub(super) metadata_bytes: u32,
}

/// Reads the fixed fields, whose checksum can be checked only later.
pub(super) fn decode_fixed(bytes: &[u8], file: &str) -> Result<Fixed, SnapshotError> {
    let foreign = |what: String| SnapshotError::Foreign { file: file.to_string(), what };
    let short = || foreign("it is too short for a snapshot".to_string());
    if !bytes.starts_with(&MAGIC) {
        return Err(foreign("it is no snapshot".to_string()));
    }
    let version = u32_at(bytes, 8).ok_or_else(short)?;
    if version != VERSION {
        return Err(foreign(format!(
            "its format version is {version}, this program reads {VERSION}"
        )));
    }
    Ok(Fixed {
        identity: array(bytes, 12).ok_or_else(short)?,
        number: u64_at(bytes, 28).ok_or_else(short)?,
        chunk_bytes: u32_at(bytes, 36).ok_or_else(short)?,
        metadata_bytes: u32_at(bytes, 40).ok_or_else(short)?,
    })
}
