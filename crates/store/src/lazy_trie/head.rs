//! The head of a store: the file that locates the last checkpoint.
//!
//! `store.head` has 12 KiB. The first page never changes. The two others alternate, so that a torn
//! write leaves one intact.
//! ```text
//! page 0    0 magic "QRTRIE\0\0" | 8 version u32 = 2 | 12 identity [16] | 28 slab bytes u32
//!           | 32 region bytes u64 | 40 hash u32 | 44 CRC-32C of bytes 0..44
//!           hash: 1 BLAKE3, 2 the same, authenticated, 3 with digests of values by their owner
//! page 1, 2 0 CRC-32C of identity ‖ bytes 4..104 | 4 regions u32
//!           | 8 number u64, the higher counts
//!           | 16 version u64 | 24 root entry u64 (authenticated: of the digest tree)
//!           | 32 items u64 | 40 bytes of keys u64 | 48 of values u64 | 56 log generation u64
//!           | 64 log position u64 | 72 ledger: address u64 | 80 length u64 | 88 CRC-32C u32
//!           | 92 zero [12]
//! ```
//! If all bits of the log position are ones, the log of this generation has not been begun. The
//! log's identity is that of the store, with the generation added to its last eight bytes.

use super::entry::ADDRESS_BITS;
use super::error::Error;
use super::open::FIRST_VERSION;
use super::options::{Options, SPACE_LIMIT_BYTES, is_region, is_slab};
use super::regions::Geometry;
use crate::atomic_file;
use crate::bytes::{array, u32_at, u64_at};
use crate::disk::{Disk, DiskFile};
use std::io;
use std::sync::Arc;

/// The format of heads, regions and ledgers.
pub const FORMAT_VERSION: u32 = 2;

/// The file's name.
pub(super) const HEAD_NAME: &str = "store.head";
const MAGIC: [u8; 8] = *b"QRTRIE\0\0";
const HASH_BLAKE3: u32 = 1;
const HASH_BLAKE3_AUTHENTICATED: u32 = 2;
const HASH_AUTHENTICATED_BY_OWNER: u32 = 3;
const PAGE_BYTES: usize = 4096;
const FIXED_BYTES: usize = 48;
const FIELDS_BYTES: usize = 104;
/// Numbers grow by one at a time.
const NUMBER_LIMIT: u64 = 1 << 62;

/// The contents of a checkpoint's page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) number: u64,
    pub(super) regions: u32,
    pub(super) version: u64,
    pub(super) root: u64,
    pub(super) items: u64,
    pub(super) key_bytes: u64,
    pub(super) value_bytes: u64,
    pub(super) log_generation: u64,
    pub(super) log_position: u64,
    pub(super) ledger_address: u64,
    pub(super) ledger_bytes: u64,
    pub(super) ledger_checksum: u32,
}

/// The file.
#[derive(Clone)]
pub(super) struct HeadFile {
    file: Arc<dyn DiskFile>,
    pub(super) geometry: Geometry,
    pub(super) authenticated: bool,
    /// Whether the owner defines the digests of values.
    pub(super) by_owner: bool,
}

impl Head {
    fn encode(&self, identity: &[u8; 16]) -> Vec<u8> {
        let mut bytes = vec![0; 4];
        bytes.extend_from_slice(&self.regions.to_le_bytes());
        let fields = [
            self.number,
            self.version,
            self.root,
            self.items,
            self.key_bytes,
            self.value_bytes,
            self.log_generation,
            self.log_position,
            self.ledger_address,
            self.ledger_bytes,
        ];
        fields.iter().for_each(|field| bytes.extend_from_slice(&field.to_le_bytes()));
        bytes.extend_from_slice(&self.ledger_checksum.to_le_bytes());
        bytes.resize(FIELDS_BYTES, 0);
        let checksum = checksum(identity, &bytes);
        bytes.splice(..4, checksum.to_le_bytes());
        bytes
    }

    /// The reason why no store can have written it, if there is one.
    fn nonsense(&self, geometry: &Geometry) -> Option<&'static str> {
        if [self.number, self.version, self.log_generation].iter().any(|n| *n > NUMBER_LIMIT) {
            return Some("a number that no store comes to");
        }
        // Readers use this number for "no version".
        if self.version < FIRST_VERSION {
            return Some("the version");
        }
        if u64::from(self.regions) > SPACE_LIMIT_BYTES / geometry.region_bytes {
            return Some("the number of regions");
        }
        if self.ledger_address >= 1 << ADDRESS_BITS {
            return Some("the address of the ledger");
        }
        (self.regions == 0 && self.ledger_bytes > 0).then_some("a ledger without a region")
    }

    fn decode(bytes: &[u8], identity: &[u8; 16]) -> Option<Head> {
        if u32_at(bytes, 0)? != checksum(identity, bytes) {
            return None;
        }
        Some(Head {
            regions: u32_at(bytes, 4)?,
            number: u64_at(bytes, 8)?,
            version: u64_at(bytes, 16)?,
            root: u64_at(bytes, 24)?,
            items: u64_at(bytes, 32)?,
            key_bytes: u64_at(bytes, 40)?,
            value_bytes: u64_at(bytes, 48)?,
            log_generation: u64_at(bytes, 56)?,
            log_position: u64_at(bytes, 64)?,
            ledger_address: u64_at(bytes, 72)?,
            ledger_bytes: u64_at(bytes, 80)?,
            ledger_checksum: u32_at(bytes, 88)?,
        })
    }
}

/// The offset of a checkpoint's page.
fn page_at(number: u64) -> u64 {
    PAGE_BYTES as u64 * (1 + number % 2)
}

fn checksum(identity: &[u8; 16], bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(identity), bytes.get(4..FIELDS_BYTES).unwrap_or(&[]))
}

impl HeadFile {
    /// Creates the head of an empty store, durably.
    pub(super) fn create(
        disk: &dyn Disk,
        geometry: &Geometry,
        options: &Options,
        head: &Head,
    ) -> Result<(), Error> {
        let mut bytes = Vec::with_capacity(3 * PAGE_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes.extend_from_slice(&geometry.identity);
        bytes.extend_from_slice(&geometry.slab_bytes.to_le_bytes());
        bytes.extend_from_slice(&geometry.region_bytes.to_le_bytes());
        let hash = match (options.authenticated, options.value_digest) {
            (false, _) => HASH_BLAKE3,
            (true, None) => HASH_BLAKE3_AUTHENTICATED,
            (true, Some(_)) => HASH_AUTHENTICATED_BY_OWNER,
        };
        bytes.extend_from_slice(&hash.to_le_bytes());
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        bytes.resize(PAGE_BYTES * (1 + (head.number % 2) as usize), 0);
        bytes.extend_from_slice(&head.encode(&geometry.identity));
        bytes.resize(3 * PAGE_BYTES, 0);
        atomic_file::replace(disk, HEAD_NAME, &bytes).map_err(Error::io(HEAD_NAME, "make"))
    }

    /// Opens the head and finds the newest checkpoint; `None` if the file does not exist.
    pub(super) fn open(disk: &dyn Disk) -> Result<Option<(HeadFile, Head)>, Error> {
        let file = match disk.open(HEAD_NAME) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(Error::io(HEAD_NAME, "open"))?,
        };
        let damaged = |offset, what| Error::Damaged { file: HEAD_NAME.to_string(), offset, what };
        let foreign = |what| Error::Foreign { file: HEAD_NAME.to_string(), what };
        let size = file.size().map_err(Error::io(HEAD_NAME, "measure"))?;
        let mut bytes = vec![0; (3 * PAGE_BYTES).min(usize::try_from(size).unwrap_or(usize::MAX))];
        file.read_at(0, &mut bytes).map_err(Error::io(HEAD_NAME, "read"))?;
        if !bytes.starts_with(&MAGIC) {
            return Err(foreign("no magic number"));
        }
        let found = u32_at(&bytes, 8).ok_or_else(|| damaged(size, "the file ends here"))?;
        if found != FORMAT_VERSION {
            return Err(Error::Version {
                file: HEAD_NAME.to_string(),
                found,
                supported: FORMAT_VERSION,
            });
        }
        let fixed = bytes.get(..FIXED_BYTES).ok_or_else(|| damaged(size, "the file ends here"))?;
        if u32_at(fixed, 44) != fixed.get(..44).map(crc32c::crc32c) {
            return Err(damaged(0, "the checksum of the head"));
        }
        let (authenticated, by_owner) = match u32_at(fixed, 40) {
            Some(HASH_BLAKE3) => (false, false),
            Some(HASH_BLAKE3_AUTHENTICATED) => (true, false),
            Some(HASH_AUTHENTICATED_BY_OWNER) => (true, true),
            _ => return Err(foreign("it uses another hash")),
        };
        if size < 3 * PAGE_BYTES as u64 {
            return Err(damaged(size, "the file ends here"));
        }
        let geometry = Geometry {
            identity: array(fixed, 12).unwrap_or_default(),
            slab_bytes: u32_at(fixed, 28).unwrap_or(0),
            region_bytes: u64_at(fixed, 32).unwrap_or(0),
        };
        let slab = u64::from(geometry.slab_bytes);
        if !is_slab(slab) || !is_region(geometry.region_bytes, slab) {
            return Err(damaged(28, "the sizes of slabs and regions"));
        }
        let newest = [1, 2]
            .into_iter()
            .filter_map(|page| Head::decode(bytes.get(page * PAGE_BYTES..)?, &geometry.identity))
            .max_by_key(|head| head.number);
        let head = newest
            .ok_or_else(|| damaged(PAGE_BYTES as u64, "neither page of a checkpoint is sound"))?;
        if let Some(what) = head.nonsense(&geometry) {
            return Err(damaged(page_at(head.number), what));
        }
        Ok(Some((HeadFile { file, geometry, authenticated, by_owner }, head)))
    }

    /// Writes a checkpoint over the older of the two pages, durably.
    pub(super) fn write(&self, head: &Head) -> Result<(), Error> {
        let at = page_at(head.number);
        let bytes = head.encode(&self.geometry.identity);
        self.file.write_at(at, &bytes).map_err(Error::io(HEAD_NAME, "write"))?;
        self.file.sync_data().map_err(Error::io(HEAD_NAME, "sync"))
    }
}

/// The log position that means: the log has not been begun.
pub(super) const LOG_TO_BEGIN: u64 = u64::MAX;

/// The identity of a store's log.
pub(super) fn log_identity(store: &[u8; 16], generation: u64) -> [u8; 16] {
    let mut identity = *store;
    if let Some(low) = identity.last_chunk_mut::<8>() {
        *low = u64::from_le_bytes(*low).wrapping_add(generation).to_le_bytes();
    }
    identity
}
