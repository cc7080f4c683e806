//! The errors of the log, each with its place and its remedy.

use super::format::Position;
use std::fmt;
use std::io;

/// An error of the log.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The disk refused an operation.
    #[error("cannot {action} {file}: {source}")]
    Io {
        /// The file, or "the folder".
        file: String,
        /// The operation.
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// An earlier write or sync failed; the log accepts nothing more.
    #[error("the log stopped at an earlier error and must be opened again: {reason}")]
    Poisoned {
        /// The first error.
        reason: String,
    },
    /// Data that a sync had confirmed is damaged.
    #[error(
        "{file} is damaged at offset {offset}: {damage}; restore this replica with the rejoin flag"
    )]
    Damaged {
        /// The segment.
        file: String,
        /// The byte offset in the file.
        offset: u64,
        /// The damage.
        damage: Damage,
    },
    /// A file has a name of the log but does not belong to it.
    #[error("{file} is not a segment of a Quorate log: move it out of the folder")]
    Foreign {
        /// The file.
        file: String,
    },
    /// A segment of another format version.
    #[error(
        "{file} has format version {found}, this program reads {supported}: use the program \
         version that wrote it"
    )]
    Version {
        /// The segment.
        file: String,
        /// Its version.
        found: u32,
        /// The version that this program reads.
        supported: u32,
    },
    /// A segment of another log.
    #[error(
        "{file} belongs to log {found}, not to {expected}: this is the data folder of another \
         replica"
    )]
    Identity {
        /// The segment.
        file: String,
        /// The identity found, hexadecimal.
        found: String,
        /// The expected identity, hexadecimal.
        expected: String,
    },
    /// A segment between two others is missing.
    #[error("segment {file} is missing; restore this replica with the rejoin flag")]
    MissingSegment {
        /// The expected name.
        file: String,
    },
    /// Neither slot of the newest segment is valid.
    #[error(
        "missing safety record: no slot of {file} is valid; restore this replica with the rejoin \
         flag"
    )]
    MissingSafetyRecord {
        /// The newest segment.
        file: String,
    },
    /// A record larger than a segment can hold.
    #[error(
        "a record of {bytes} bytes exceeds the limit of {limit} (segment_bytes less header and \
         slots)"
    )]
    RecordTooLarge {
        /// Its payload.
        bytes: u64,
        /// The largest payload.
        limit: u64,
    },
    /// A safety record larger than a slot.
    #[error("a safety record of {bytes} bytes exceeds the limit of {limit} (slot_bytes less 24)")]
    SlotTooLarge {
        /// Its length.
        bytes: u64,
        /// The largest length.
        limit: u64,
    },
    /// Record kind 0 is reserved for the log itself.
    #[error("record kind 0 is reserved")]
    ReservedKind,
    /// A position whose segment was retired.
    #[error("position {position} was retired, the log starts at {first}")]
    Retired {
        /// The requested position.
        position: Position,
        /// The start of the log.
        first: Position,
    },
    /// A position at which nothing was committed.
    #[error("position {position} is past the committed end {end}")]
    PastEnd {
        /// The requested position.
        position: Position,
        /// The end.
        end: Position,
    },
    /// An option is out of its range.
    #[error("option {field}: {reason}")]
    Options {
        /// The option.
        field: &'static str,
        /// The problem with it.
        reason: String,
    },
}

/// The kind of damage at a place of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The checksum does not match the content.
    Checksum {
        /// The checksum computed over the content.
        expected: u32,
        /// The checksum stored.
        actual: u32,
    },
    /// The length field is impossible.
    Length {
        /// Its value.
        length: u64,
        /// The bytes available.
        room: u64,
    },
    /// A header field contradicts the file's name, length or neighbours.
    Field(&'static str),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::Checksum { expected, actual } => {
                write!(f, "checksum is {actual:#010x}, the content has {expected:#010x}")
            }
            Damage::Length { length, room } => {
                write!(f, "length is {length}, there is room for {room}")
            }
            Damage::Field(field) => {
                write!(f, "field {field} contradicts the file's name, length or neighbours")
            }
        }
    }
}

impl Error {
    /// Wraps the disk's error.
    pub(super) fn io(file: &str, action: &'static str) -> impl FnOnce(io::Error) -> Error {
        let file = file.to_string();
        move |source| Error::Io { file, action, source }
    }
}
