//! Segments: their names, and the activation of a spare.

use super::error::Error;
use super::format::{
    END_MARK, Geometry, Header, SAFETY_KIND, Seal, Side, encode_mark, encode_slot, put_record,
};
use super::options::Options;
use super::spares::Spare;
use crate::disk::{Disk, DiskFile};
use std::sync::Arc;

/// A segment as readers see it.
#[derive(Clone)]
pub(super) struct Segment {
    pub(super) sequence: u64,
    pub(super) name: String,
    pub(super) file: Arc<dyn DiskFile>,
    /// The position of the file's first byte.
    pub(super) first: u64,
    pub(super) geometry: Geometry,
    /// The position behind the last record, once there is a successor.
    pub(super) end: Option<u64>,
}

impl Segment {
    pub(super) fn new(header: &Header, file: Arc<dyn DiskFile>) -> Segment {
        Segment {
            sequence: header.sequence,
            name: segment_name(header.sequence),
            file,
            first: header.first,
            geometry: header.geometry,
            end: None,
        }
    }

    /// The segment, ready for appending.
    pub(super) fn writable(mut self, options: &Options) -> Result<Segment, Error> {
        if options.through_memory {
            let bytes = self.geometry.segment_bytes;
            let mapped =
                self.file.written_through_memory(bytes).map_err(Error::io(&self.name, "map"))?;
            self.file = mapped.unwrap_or(self.file);
        }
        Ok(self)
    }

    /// Position of the first record.
    pub(super) fn records_from(&self) -> u64 {
        self.first + self.geometry.records_at()
    }
}

/// The newest safety record. Number 0 means that there was none yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Safety {
    pub(super) number: u64,
    pub(super) payload: Vec<u8>,
}

/// The name of segment `sequence`.
pub(super) fn segment_name(sequence: u64) -> String {
    format!("{sequence:020}.wal")
}

/// The sequence number of the segment, if `name` has the form of one.
pub(super) fn segment_sequence(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".wal")?;
    (digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit()))
        .then(|| digits.parse().ok())?
}

/// Writes the start of a segment into a spare and renames it. Returns the offset behind its first
/// records, and the bytes written. This takes two syncs. The segment may be used only when all of
/// it is durable.
pub(super) fn activate(
    disk: &dyn Disk,
    seal: Seal,
    header: &Header,
    safety: &Safety,
    spare: &Spare,
) -> Result<(u64, u64), Error> {
    let (first, geometry) = (header.first, header.geometry);
    let mut records = Vec::new();
    if safety.number > 0 {
        let parts: [&[u8]; 2] = [&safety.number.to_le_bytes(), &safety.payload];
        put_record(&mut records, seal, first + geometry.records_at(), SAFETY_KIND, &parts);
    }
    let end = geometry.records_at() + records.len() as u64;
    records.extend_from_slice(&END_MARK);
    let mut bytes = 0;
    let mut write = |offset, part: &[u8]| {
        bytes += part.len() as u64;
        spare.file.write_at(offset, part).map_err(Error::io(&spare.name, "write"))
    };
    write(0, &header.encode())?;
    for side in Side::BOTH {
        let at = geometry.mark_at(side);
        write(at, &encode_mark(seal, first + at, first + end))?;
        let at = geometry.slot_at(side);
        write(at, &encode_slot(seal, first + at, safety.number, first + end, &safety.payload))?;
    }
    write(geometry.records_at(), &records)?;
    spare.file.sync_data().map_err(Error::io(&spare.name, "sync"))?;
    let name = segment_name(header.sequence);
    disk.rename(&spare.name, &name).map_err(Error::io(&spare.name, "rename"))?;
    disk.sync_dir().map_err(Error::io("the folder", "sync"))?;
    Ok((end, bytes))
}
