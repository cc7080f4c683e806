//! Recovery of a folder after a restart or a crash: see the module's documentation for the rules.

use super::error::{Damage, Error};
use super::format::{
    HEADER_FIELDS_BYTES, Header, MARK_BYTES, Position, SAFETY_KIND, SAFETY_NUMBER_BYTES, Seal,
    Side, Slot, decode_mark, decode_slot,
};
use super::log::{Sides, Start};
use super::options::Options;
use super::scan::{Scan, Step};
use super::segment::{Safety, Segment, activate, segment_name, segment_sequence};
use super::spares::Spares;
use crate::bytes::u64_at;
use crate::disk::{Disk, DiskFile};
use std::sync::Arc;

/// The pieces in which the tail is read and overwritten with zeros.
const PIECE_BYTES: u64 = 256 << 10;

/// The result of opening a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The newest safety record; `None` if none was ever committed.
    pub slot: Option<Vec<u8>>,
    /// The torn write that was cut off, if it could be told from a clean end.
    pub cut: Option<Cut>,
    /// Whether one of the safety record's two copies was missing and was written again.
    pub repaired: bool,
    /// Whether the folder had no segment, so that a log was created. A replica that has run before
    /// must not continue with such a log.
    pub created: bool,
}

/// A torn write at the end of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The segment.
    pub file: String,
    /// The byte offset in it behind the last kept record.
    pub offset: u64,
    /// The position of the same place: the new end of the log.
    pub position: Position,
    /// The reason why no record is there.
    pub damage: Damage,
}

/// Reads the folder and cuts a torn tail. Nothing is synced yet.
pub(super) fn recover(
    disk: &Arc<dyn Disk>,
    options: &Options,
) -> Result<(Start, Recovered), Error> {
    let seal = Seal::new(&options.identity);
    let names = disk.list().map_err(Error::io("the folder", "list"))?;
    let spares = Spares::open(disk.clone(), options, &names)?;
    let segments = open_segments(&**disk, options, &names)?;
    let Some(active) = segments.last().cloned() else {
        return create(&**disk, options, seal, spares);
    };
    let sides = ActiveSides::read(&active, seal)?;
    let mut safety = newest_slot(&segments, seal)?;
    let tail = read_records(&active, seal, sides.watermark)?;
    let copy_number = tail.copy.number;
    if copy_number > safety.number {
        safety = tail.copy;
    }
    if safety.payload.len() as u64 > options.slot_limit() {
        let reason = format!("the log holds a safety record of {} bytes", safety.payload.len());
        return Err(Error::Options { field: "slot_bytes", reason });
    }
    zero_from(&active, tail.end)?;
    let cut = tail.damage.map(|damage| Cut {
        file: active.name.clone(),
        offset: tail.end,
        position: Position(active.first + tail.end),
        damage,
    });
    let recovered = Recovered {
        slot: (safety.number > 0).then(|| safety.payload.clone()),
        cut,
        repaired: sides.slot_number != copy_number,
        created: false,
    };
    let start = Start {
        segments,
        active,
        written: tail.end,
        safety,
        slots: sides.slots,
        marks: sides.marks,
        watermark: sides.watermark,
        slot_number: sides.slot_number,
        copy_number,
        spares,
    };
    Ok((start, recovered))
}

/// Creates a log.
fn create(
    disk: &dyn Disk,
    options: &Options,
    seal: Seal,
    mut spares: Spares,
) -> Result<(Start, Recovered), Error> {
    let header = Header {
        identity: options.identity,
        sequence: 0,
        first: 0,
        previous_end: 0,
        geometry: options.geometry(),
    };
    let spare = spares.take()?;
    let (written, _) = activate(disk, seal, &header, &Safety::default(), &spare)?;
    let active = Segment::new(&header, spare.file);
    let start = Start {
        segments: vec![active.clone()],
        active,
        written,
        safety: Safety::default(),
        slots: Sides::new(Side::A),
        marks: Sides::new(Side::A),
        watermark: written,
        slot_number: 0,
        copy_number: 0,
        spares,
    };
    Ok((start, Recovered { slot: None, cut: None, repaired: false, created: true }))
}

/// Opens all segments and checks that they fit together.
fn open_segments(
    disk: &dyn Disk,
    options: &Options,
    names: &[String],
) -> Result<Vec<Segment>, Error> {
    let mut segments: Vec<Segment> = Vec::new();
    // Names have 20 digits, so their order is that of the sequence numbers.
    for name in names.iter().filter(|name| name.ends_with(".wal")) {
        let sequence =
            segment_sequence(name).ok_or_else(|| Error::Foreign { file: name.clone() })?;
        let file = disk.open(name).map_err(Error::io(name, "open"))?;
        let size = file.size().map_err(Error::io(name, "measure"))?;
        if size < HEADER_FIELDS_BYTES as u64 {
            return Err(Error::Foreign { file: name.clone() });
        }
        let mut bytes = [0; HEADER_FIELDS_BYTES];
        file.read_at(0, &mut bytes).map_err(Error::io(name, "read"))?;
        let header = Header::decode(&bytes, name, &options.identity)?;
        let wrong =
            |field| Error::Damaged { file: name.clone(), offset: 0, damage: Damage::Field(field) };
        if header.sequence != sequence {
            return Err(wrong("sequence"));
        }
        if header.geometry.segment_bytes != size {
            return Err(wrong("length"));
        }
        if let Some(previous) = segments.last_mut() {
            if previous.sequence + 1 != sequence {
                return Err(Error::MissingSegment { file: segment_name(previous.sequence + 1) });
            }
            let next_first = previous.first + previous.geometry.segment_bytes;
            if header.first != next_first {
                return Err(wrong("first position"));
            }
            if header.previous_end < previous.records_from() || header.previous_end > next_first {
                return Err(wrong("end of the previous segment"));
            }
            previous.end = Some(header.previous_end);
        }
        segments.push(Segment::new(&header, file));
    }
    Ok(segments)
}

/// The content of the marks and slots of the active segment.
struct ActiveSides {
    marks: Sides,
    slots: Sides,
    watermark: u64,
    slot_number: u64,
}

impl ActiveSides {
    fn read(active: &Segment, seal: Seal) -> Result<ActiveSides, Error> {
        let mut mark: Option<(u64, Side)> = None;
        for side in Side::BOTH {
            let at = active.geometry.mark_at(side);
            let mut bytes = [0; MARK_BYTES];
            active.file.read_at(at, &mut bytes).map_err(Error::io(&active.name, "read"))?;
            if let Some(watermark) = decode_mark(&bytes, seal, active.first + at)
                && mark.is_none_or(|(best, _)| watermark > best)
            {
                mark = Some((watermark, side));
            }
        }
        let mut newest: Option<(u64, u64, Side)> = None;
        for side in Side::BOTH {
            if let Some(slot) = read_slot(active, seal, side)? {
                let key = (slot.number, slot.watermark, side);
                if newest.is_none_or(|best| (key.0, key.1) > (best.0, best.1)) {
                    newest = Some(key);
                }
            }
        }
        let Some((slot_number, slot_watermark, slot_side)) = newest else {
            return Err(Error::MissingSafetyRecord { file: active.name.clone() });
        };
        let (mark_watermark, mark_side) = mark.unwrap_or((0, Side::A));
        Ok(ActiveSides {
            marks: Sides::new(mark_side),
            slots: Sides::new(slot_side),
            watermark: mark_watermark.max(slot_watermark),
            slot_number,
        })
    }
}

fn read_slot(segment: &Segment, seal: Seal, side: Side) -> Result<Option<Slot>, Error> {
    let at = segment.geometry.slot_at(side);
    let mut bytes = vec![0; segment.geometry.slot_bytes as usize];
    segment.file.read_at(at, &mut bytes).map_err(Error::io(&segment.name, "read"))?;
    Ok(decode_slot(&bytes, seal, segment.first + at))
}

/// The safety record with the highest number in any valid slot of any segment.
fn newest_slot(segments: &[Segment], seal: Seal) -> Result<Safety, Error> {
    let mut safety = Safety::default();
    for segment in segments {
        for side in Side::BOTH {
            match read_slot(segment, seal, side)? {
                Some(slot) if slot.number > safety.number => {
                    safety = Safety { number: slot.number, payload: slot.payload };
                }
                _ => {}
            }
        }
    }
    Ok(safety)
}

/// The result of reading the records of the active segment.
struct Tail {
    /// Offset behind the last valid record.
    end: u64,
    /// The damage of the next record, unless the log clearly ends there.
    damage: Option<Damage>,
    /// The newest copy of the safety record.
    copy: Safety,
}

fn read_records(active: &Segment, seal: Seal, watermark: u64) -> Result<Tail, Error> {
    let size = active.geometry.segment_bytes;
    let mut copy = Safety::default();
    let mut scan =
        Scan::new(active.file.clone(), seal, active.first, active.geometry.records_at(), size);
    let damage = loop {
        match scan.step().map_err(Error::io(&active.name, "read"))? {
            Step::Record { kind: SAFETY_KIND, payload, .. } => {
                if let (Some(number), Some(record)) =
                    (u64_at(payload, 0), payload.get(SAFETY_NUMBER_BYTES..))
                    && number > copy.number
                {
                    copy.number = number;
                    copy.payload.clear();
                    copy.payload.extend_from_slice(record);
                }
            }
            Step::Record { .. } => {}
            Step::End => break None,
            Step::Broken(damage) => break Some(damage),
        }
    };
    let end = scan.offset();
    if active.first + end < watermark {
        let room = watermark - active.first - end;
        let damage = damage.unwrap_or(Damage::Length { length: 0, room });
        return Err(Error::Damaged { file: active.name.clone(), offset: end, damage });
    }
    Ok(Tail { end, damage, copy })
}

/// Overwrites everything that is not zero from `offset` to the end of the file, so that no part of
/// a torn write can reappear between later records.
fn zero_from(active: &Segment, offset: u64) -> Result<(), Error> {
    let file: &Arc<dyn DiskFile> = &active.file;
    let size = active.geometry.segment_bytes;
    let mut piece = vec![0; usize::try_from(PIECE_BYTES.min(size - offset)).unwrap_or(0)];
    let zeros = [0; 512];
    let mut at = offset;
    while at < size {
        let length = piece.len().min(usize::try_from(size - at).unwrap_or(piece.len()));
        let piece = &mut piece[..length];
        file.read_at(at, piece).map_err(Error::io(&active.name, "read"))?;
        if piece.chunks(zeros.len()).any(|part| part != &zeros[..part.len()]) {
            piece.fill(0);
            file.write_at(at, piece).map_err(Error::io(&active.name, "write"))?;
        }
        at += length as u64;
    }
    Ok(())
}
