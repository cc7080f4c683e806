//! The write-ahead log: records appended, made durable by one sync, replayed after a restart, retired from the front.
//!
//! Its owner also has one small *safety record* (what a replica voted, its lock, its high certificate) that every commit
//! may replace. The newest one always has two independent copies, a slot and a record of the log.
//!
//! # Positions
//! A [`Position`] is a byte address in an endless log: `first position of the segment + offset in its file`. Segment *n+1*
//! starts where the file of segment *n* ends, so positions grow strictly, never repeat in the life of a log, and survive
//! restarts. Every checksum covers the position of what it protects. So the old bytes of a recycled file, which were
//! written for another position, never read as valid.
//!
//! # Files
//! `<sequence, 20 digits>.wal` are the segments; `<number, 20 digits>.spare` are files for coming ones: filled with zeros ahead
//! of time (an fdatasync that must also allocate costs two to five times as much) or retired segments. The content of a spare
//! means nothing. Integers are little-endian. `crc(p, b)` is CRC-32C over identity ‖ p as u64 ‖ b.
//!
//! ```text
//! offset                bytes
//! 0                     4096   header
//! 4096, 8192            4096   mark A, mark B
//! 12288                 slot   slot A       (capacity: header field, default 128 KiB)
//! 12288 + slot          slot   slot B
//! 12288 + 2·slot        …      records, to the end of the file
//!
//! header   0 magic "QRWAL\0\0\0" | 8 version u32 = 1 | 12 identity [16] | 28 sequence u64 | 36 first position u64
//!          | 44 end of the previous segment: position u64 (0 for sequence 0) | 52 length of this file u64
//!          | 60 slot capacity u32 | 64 CRC-32C of bytes 0..64
//! mark     0 crc(position of the mark, bytes 4..12) u32 | 4 watermark u64
//! slot     0 crc(position of the slot, bytes 4..24 + length) u32 | 4 length u32 | 8 number u64 | 16 watermark u64
//!          | 24 payload.   Number 0: no safety record was ever given.
//! record   0 length u32 = 1 + payload | 4 crc(position of the record, length ‖ kind ‖ payload) u32 | 8 kind u8 | 9 payload
//!          kind 0 is reserved: number u64 ‖ safety record.   Length 0: nothing follows.
//! ```
//! A record never spans segments. After the last record of each write stand four zero bytes (if the file has room), and zeros up to
//! the end of the page if the write has begun one: what is written as a whole need not be read first where a recycled file is not in
//! memory. What is written is handed to the disk in pieces without waiting for it, or a rotation would wait for a whole segment where commits are
//! not synced; and all but the newest is let go of, or the log would take memory as long as it is. Neither where a log is written through memory.
//!
//! # Commit
//! One commit is one write of all buffered records, the safety record last, then one write of a slot, then one fdatasync of
//! the segment. The slot carries the *durable watermark*: the position up to which the previous syncs made the log durable. A
//! commit without a safety record writes a mark (12 bytes: watermark alone) instead, and only if the watermark has moved since it
//! was last written; so every record but those of the last commit is guarded, and rewriting a large slot is never needed. An
//! empty commit with [`Durability::Sync`] moves the watermark up to the end: an idle owner may call it to guard the last commit.
//! Slots and marks alternate between A and B, but a side is left only after a sync: a commit with [`Durability::Os`] overwrites the
//! same side again, so the side that holds the last *durable* copy is never at risk.
//!
//! # Rotation
//! When a record does not fit, the old segment is written out and synced. A spare gets header, marks, both slots and, as its
//! first record, the newest safety record; it is synced, renamed to its segment name, and the folder is synced. Only then
//! is it used. So every segment but the newest is durable as a whole, up to the end its successor's header names.
//!
//! # Recovery
//! 1. Segments must be consecutive, with sound headers of this identity and version; the newest must have a valid slot.
//! 2. The watermark is the highest in any valid mark or slot of the newest segment. Its records are read up to the first that is
//!    not valid. Below the watermark that is damage, and refused. At or above it, it is the torn tail of a write no sync had
//!    confirmed: everything after is overwritten with zeros and synced before anything else is written, so that nothing of it can
//!    resurface between later records.
//! 3. The safety record is the one with the highest number among valid slots and the records of the newest segment (each segment
//!    starts with a copy). Whichever copy is missing is written again, and the watermark moves to the end.
//! 4. The records of older segments are verified when they are read or replayed: anything wrong there is damage, and refused.
//!
//! What cannot be seen from inside: that the whole folder, or its newest segments, were replaced by an older copy. And bit rot
//! in the records of the very last commit looks like a torn write, unless an empty commit followed; the safety record of that commit
//! is still in its slot.

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
