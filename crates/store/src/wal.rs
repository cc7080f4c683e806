//! The write-ahead log: records are appended, made durable by one sync, replayed after a restart,
//! and retired from the front.
//!
//! Its owner also has one small *safety record* (for a replica: its last vote, its lock, its high
//! certificate). Every commit may replace it. The newest one always has two independent copies, a
//! slot and a record of the log.
//!
//! # Positions
//! A [`Position`] is a byte address in an endless log:
//! `first position of the segment + offset in its file`. Segment *n+1* starts where the file of
//! segment *n* ends. So positions strictly grow, never repeat in the life of a log, and survive
//! restarts. Every checksum covers the position of its data. So the old bytes of a recycled file,
//! written for another position, are never valid.
//!
//! # Files
//! `<sequence, 20 digits>.wal` are the segments. `<number, 20 digits>.spare` are files for future
//! segments: filled with zeros in advance (an fdatasync that must also allocate costs two to five
//! times as much), or retired segments. The content of a spare has no meaning. Integers are
//! little-endian. `crc(p, b)` is CRC-32C over identity ‖ p as u64 ‖ b.
//!
//! ```text
//! offset                bytes
//! 0                     4096   header
//! 4096, 8192            4096   mark A, mark B
//! 12288                 slot   slot A       (capacity: header field, default 128 KiB)
//! 12288 + slot          slot   slot B
//! 12288 + 2·slot        …      records, to the end of the file
//!
//! header   0 magic "QRWAL\0\0\0" | 8 version u32 = 1 | 12 identity [16] | 28 sequence u64
//!          | 36 first position u64
//!          | 44 end of the previous segment: position u64 (0 for sequence 0)
//!          | 52 length of this file u64 | 60 slot capacity u32 | 64 CRC-32C of bytes 0..64
//! mark     0 crc(position of the mark, bytes 4..12) u32 | 4 watermark u64
//! slot     0 crc(position of the slot, bytes 4..24 + length) u32 | 4 length u32 | 8 number u64
//!          | 16 watermark u64 | 24 payload.   Number 0: no safety record was ever given.
//! record   0 length u32 = 1 + payload
//!          | 4 crc(position of the record, length ‖ kind ‖ payload) u32 | 8 kind u8
//!          | 9 payload.   Length 0: nothing follows.
//!          kind 0 is reserved: number u64 ‖ safety record.
//! ```
//! A record never spans segments. Four zero bytes follow the last record of each write, if the file
//! has room. If the write began a page, zeros fill it: a page of a recycled file that is written as
//! a whole need not be read first. The log tells the system to write records out piece by piece,
//! without waiting. Otherwise, if commits are not synced, a rotation would wait for a whole
//! segment. It also releases the memory of all but the newest records. Otherwise the log would
//! occupy as much memory as its length. A log that is written through memory does neither.
//!
//! # Commit
//! One commit is one write of all buffered records, the safety record last, then one write of a
//! slot, then one fdatasync of the segment. The slot carries the *durable watermark*: the position
//! up to which the previous syncs made the log durable. A commit without a safety record writes a
//! mark instead (12 bytes: only the watermark), and only if the watermark has moved since it was
//! last written. So all records except those of the last commit are guarded, and no large slot has
//! to be rewritten. An empty commit with [`Durability::Sync`] moves the watermark to the end; an
//! idle owner may call it to guard the last commit. Slots and marks alternate between A and B, but
//! the side changes only after a sync. A commit with [`Durability::Os`] overwrites the same side
//! again, so the side with the last *durable* copy is never at risk.
//!
//! # Spares
//! A spare is made while the log fills the active segment, piece by piece and twice as fast as the
//! log. Retired segments become spares too, and then none need be made. All of this is done beside
//! the log, so no commit waits for it (`spares.rs`). A crash may leave a spare of any length. The
//! next start removes spares that are not whole.
//!
//! # Rotation
//! When a record does not fit, the old segment is written out and synced. A spare gets header,
//! marks, both slots and, as its first record, the newest safety record. It is synced and renamed
//! to its segment name, and the folder is synced. Only then is it used. So every segment except the
//! newest is durable as a whole, up to the end that its successor's header names.
//!
//! # Recovery
//! 1. Segments must be consecutive, with valid headers of this identity and version. The newest
//!    must have a valid slot.
//! 2. The watermark is the highest in any valid mark or slot of the newest segment. Its records are
//!    read up to the first invalid one. Below the watermark that is damage, and refused. At or
//!    above it, it is the torn tail of a write that no sync had confirmed. Everything after it is
//!    overwritten with zeros and synced before any other write. So no part of it can reappear
//!    between later records.
//! 3. The safety record is the one with the highest number among valid slots and the records of the
//!    newest segment (each segment starts with a copy). A missing copy is written again, and the
//!    watermark moves to the end.
//! 4. The records of older segments are verified when they are read or replayed. An invalid one is
//!    damage, and refused.
//!
//! Two faults cannot be detected from inside. First, the whole folder, or its newest segments, may
//! have been replaced by an older copy. Second, bit rot in the records of the very last commit
//! looks like a torn write, unless an empty commit followed. The safety record of that commit is
//! still in its slot.

mod error;
mod format;
mod log;
mod options;
mod reader;
mod recover;
mod salvage;
mod scan;
mod segment;
mod spares;

pub use error::{Damage, Error};
pub use format::{FORMAT_VERSION, Position};
pub use log::{Durability, Log, Statistics};
pub use options::{Options, Preparation};
pub use reader::LogReader;
pub use recover::{Cut, Recovered};
pub use salvage::{Salvaged, salvage, set_aside};
