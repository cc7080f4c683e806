//! Regions: the files of the space.
//!
//! `<index, 6 digits>.space`, each of `region_bytes`, one behind the other. The first slab of each
//! is its header:
//! ```text
//! 0 magic "QRSPACE\0" | 8 version u32 = 2 | 12 identity of the store [16] | 28 index u32
//! | 32 slab bytes u32 | 36 region bytes u64 | 44 CRC-32C of bytes 0..44
//! ```

use super::error::Error;
use super::head::FORMAT_VERSION;
use crate::bytes::{array, u32_at, u64_at};
use crate::disk::{Disk, DiskFile};
use std::io;
use std::sync::Arc;

const MAGIC: [u8; 8] = *b"QRSPACE\0";
const HEADER_BYTES: usize = 48;
const SUFFIX: &str = ".space";

/// The sizes a store was created with, and its identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    pub(super) identity: [u8; 16],
    pub(super) slab_bytes: u32,
    pub(super) region_bytes: u64,
}

impl Geometry {
    pub(super) fn region_slabs(&self) -> u32 {
        (self.region_bytes / u64::from(self.slab_bytes)) as u32
    }
}

/// A file of the space.
#[derive(Clone)]
pub(super) struct Region {
    pub(super) name: String,
    pub(super) file: Arc<dyn DiskFile>,
}

/// The name of region `index`.
pub(super) fn region_name(index: usize) -> String {
    format!("{index:06}{SUFFIX}")
}

/// The index, if `name` is a region's.
pub(super) fn region_index(name: &str) -> Option<usize> {
    let digits = name.strip_suffix(SUFFIX)?;
    (digits.len() == 6 && digits.bytes().all(|b| b.is_ascii_digit()))
        .then(|| digits.parse().ok())?
}

fn header(geometry: &Geometry, index: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes.extend_from_slice(&geometry.identity);
    bytes.extend_from_slice(&(index as u32).to_le_bytes());
    bytes.extend_from_slice(&geometry.slab_bytes.to_le_bytes());
    bytes.extend_from_slice(&geometry.region_bytes.to_le_bytes());
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    bytes
}

impl Region {
    /// Creates region `index`, and replaces one that a crash has left. Neither content nor name is
    /// durable.
    pub(super) fn create(
        disk: &dyn Disk,
        geometry: &Geometry,
        index: usize,
    ) -> Result<Region, Error> {
        let name = region_name(index);
        match disk.remove(&name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io(&name, "remove")(error));
            }
            _ => {}
        }
        let made = disk.reserve(&name, geometry.region_bytes).and_then(|file| {
            file.write_at(0, &header(geometry, index))?;
            Ok(file)
        });
        match made {
            Ok(file) => Ok(Region { name, file }),
            Err(error) => {
                // A partial file must not take the room that deletions may need.
                let _ = disk.remove(&name);
                Err(Error::io(&name, "make")(error))
            }
        }
    }

    /// Opens region `index`, and checks that it is complete and belongs to this store.
    pub(super) fn open(
        disk: &dyn Disk,
        geometry: &Geometry,
        index: usize,
    ) -> Result<Region, Error> {
        let name = region_name(index);
        let file = match disk.open(&name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(Error::Missing { file: name, hint: "" });
            }
            other => other.map_err(Error::io(&name, "open"))?,
        };
        let size = file.size().map_err(Error::io(&name, "measure"))?;
        let damaged = |offset, what| Error::Damaged { file: name.clone(), offset, what };
        let foreign = |what| Error::Foreign { file: name.clone(), what };
        if size < HEADER_BYTES as u64 {
            return Err(damaged(size, "the file ends here"));
        }
        let mut bytes = [0; HEADER_BYTES];
        file.read_at(0, &mut bytes).map_err(Error::io(&name, "read"))?;
        if !bytes.starts_with(&MAGIC) {
            return Err(foreign("no magic number"));
        }
        let found = u32_at(&bytes, 8).unwrap_or(0);
        if found != FORMAT_VERSION {
            return Err(Error::Version { file: name, found, supported: FORMAT_VERSION });
        }
        if u32_at(&bytes, 44) != bytes.get(..44).map(crc32c::crc32c) {
            return Err(damaged(0, "the checksum of the header"));
        }
        if array(&bytes, 12) != Some(geometry.identity) {
            return Err(foreign("it belongs to another store"));
        }
        let index_there = u32_at(&bytes, 28).map(|index| index as usize);
        if index_there != Some(index)
            || u32_at(&bytes, 32) != Some(geometry.slab_bytes)
            || u64_at(&bytes, 36) != Some(geometry.region_bytes)
        {
            return Err(foreign("it has another index or other sizes"));
        }
        if size < geometry.region_bytes {
            return Err(damaged(size, "the file ends here"));
        }
        Ok(Region { name, file })
    }
}
