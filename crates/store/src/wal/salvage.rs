//! The salvage of a damaged log: reading its intact records, and setting it aside.

use super::error::Error;
use super::format::{HEADER_FIELDS_BYTES, Header, Position, SAFETY_KIND, Seal};
use super::scan::{Scan, Step};
use super::segment::segment_sequence;
use crate::disk::{Disk, DiskFile};
use std::sync::Arc;

/// The suffix of a segment that was set aside.
const SUFFIX: &str = ".lost";

/// A segment with a valid header.
struct Found {
    header: Header,
    file: Arc<dyn DiskFile>,
    name: String,
}

/// A record that could be read.
pub struct Salvaged<'a> {
    /// The position of the record.
    pub position: Position,
    /// Its kind.
    pub kind: u8,
    /// Its payload.
    pub payload: &'a [u8],
    /// Whether every record from the start of the reading to this one was readable.
    pub follows: bool,
}

/// Calls `each` with every readable record at or above `from` of the log of `identity`, oldest
/// first, those behind damage included. Changes nothing.
///
/// # Errors
/// [`Error::Io`].
pub fn salvage(
    disk: &dyn Disk,
    identity: &[u8; 16],
    from: Position,
    mut each: impl FnMut(&Salvaged<'_>),
) -> Result<(), Error> {
    let seal = Seal::new(identity);
    let mut follows = true;
    let mut previous_end = None;
    for Found { header, file, name } in segments(disk, identity)? {
        if header.first + header.geometry.segment_bytes <= from.0 {
            continue;
        }
        // The first must contain `from`, and each must begin where the previous one ended.
        follows &= match previous_end {
            None => header.first <= from.0,
            Some(end) => header.previous_end == end,
        };
        let size = header.geometry.segment_bytes;
        let offset = header.geometry.records_at().max(from.0.saturating_sub(header.first));
        let mut scan = Scan::new(file, seal, header.first, offset, size);
        loop {
            match scan.step().map_err(Error::io(&name, "read"))? {
                Step::Record { kind: SAFETY_KIND, .. } => {}
                Step::Record { offset, kind, payload } => {
                    let position = Position(header.first + offset);
                    each(&Salvaged { position, kind, payload, follows });
                }
                Step::End => break,
                Step::Broken(_) => {
                    follows = false;
                    break;
                }
            }
        }
        previous_end = Some(header.first + scan.offset());
    }
    Ok(())
}

/// The segments with valid headers, in order.
fn segments(disk: &dyn Disk, identity: &[u8; 16]) -> Result<Vec<Found>, Error> {
    let mut found: Vec<Found> = Vec::new();
    for name in disk.list().map_err(Error::io("the folder", "list"))? {
        let Some(sequence) = segment_sequence(&name) else { continue };
        let file = disk.open(&name).map_err(Error::io(&name, "open"))?;
        let size = file.size().map_err(Error::io(&name, "measure"))?;
        let Some(header) = header_of(&*file, &name, identity)? else { continue };
        if header.sequence == sequence && header.geometry.segment_bytes == size {
            found.push(Found { header, file, name });
        }
    }
    Ok(found)
}

fn header_of(
    file: &dyn DiskFile,
    name: &str,
    identity: &[u8; 16],
) -> Result<Option<Header>, Error> {
    if file.size().map_err(Error::io(name, "measure"))? < HEADER_FIELDS_BYTES as u64 {
        return Ok(None);
    }
    let mut bytes = [0; HEADER_FIELDS_BYTES];
    file.read_at(0, &mut bytes).map_err(Error::io(name, "read"))?;
    Ok(Header::decode(&bytes, name, identity).ok())
}

/// Renames every segment that does not belong to the log of `identity` to `<name>.lost`, so that
/// this log can be created.
///
/// # Errors
/// [`Error::Io`].
pub fn set_aside(disk: &dyn Disk, identity: &[u8; 16]) -> Result<(), Error> {
    let mut renamed = false;
    for name in disk.list().map_err(Error::io("the folder", "list"))? {
        if !name.ends_with(".wal") {
            continue;
        }
        let file = disk.open(&name).map_err(Error::io(&name, "open"))?;
        if header_of(&*file, &name, identity)?.is_none() {
            disk.rename(&name, &format!("{name}{SUFFIX}")).map_err(Error::io(&name, "rename"))?;
            renamed = true;
        }
    }
    if renamed {
        disk.sync_dir().map_err(Error::io("the folder", "sync"))?;
    }
    Ok(())
}
