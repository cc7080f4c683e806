//! A model of the log, and a workload that can be cut at any point.
#![allow(dead_code)] // Each test binary uses its part.

use quorate_store::disk::{CrashDisk, Disk, MemoryDisk};
use quorate_store::wal::{Durability, Error, Log, Options, Position, Preparation, Recovered};
use std::sync::Arc;

pub const IDENTITY: [u8; 16] = *b"a log for tests!";

/// The smallest segments allowed, so that a few commits cause a rotation.
pub fn options() -> Options {
    Options {
        segment_bytes: 40 << 10,
        slot_bytes: 4096,
        preparation: Preparation::Inline,
        ..Options::new(IDENTITY)
    }
}

pub fn open(disk: &MemoryDisk) -> Result<(Log, Recovered), Error> {
    Log::open(Arc::new(disk.clone()), options())
}

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next().to_le_bytes()[0]).collect()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub position: Position,
    pub kind: u8,
    pub payload: Vec<u8>,
}

/// Guarantees once the disk has recorded this many operations.
#[derive(Clone, Copy, Debug, Default)]
pub struct Point {
    pub operations: usize,
    /// Records known to be durable; records that the operating system has.
    pub durable: usize,
    pub os: usize,
    /// The same for safety records.
    pub durable_slots: usize,
    pub os_slots: usize,
    /// Records below this position may be missing.
    pub retired: Position,
}

/// The history of a workload.
#[derive(Default)]
pub struct History {
    pub records: Vec<Record>,
    pub slots: Vec<Vec<u8>>,
    pub points: Vec<Point>,
}

impl History {
    /// The guarantees after a crash behind the first `cut` operations.
    pub fn at(&self, cut: usize) -> Point {
        let mut point = self
            .points
            .iter()
            .rev()
            .find(|point| point.operations <= cut)
            .copied()
            .unwrap_or_default();
        // A retirement that had begun may have taken effect.
        let begun = self.points.iter().find(|point| point.operations > cut);
        point.retired = begun.map_or(point.retired, |next| point.retired.max(next.retired));
        point
    }
}

pub fn replay(log: &Log) -> Result<Vec<Record>, Error> {
    let mut records = Vec::new();
    log.replay(Position::START, |position, kind, payload| {
        records.push(Record { position, kind, payload: payload.to_vec() });
        Ok::<(), Error>(())
    })?;
    Ok(records)
}

/// A long run on a recording disk: all sizes, both durabilities, with and without safety records,
/// rotation, retirement, recycling.
pub fn live(crash: &CrashDisk, seed: u64, steps: usize) -> History {
    let disk: Arc<dyn Disk> = Arc::new(crash.clone());
    let mut random = Random(seed);
    let mut history = History::default();
    let (mut log, _) = Log::open(disk, options()).unwrap();
    let mut point = Point { operations: crash.operations(), ..Point::default() };
    history.points.push(point);
    for _ in 0..steps {
        for _ in 0..random.below(4) {
            let size = [0, 7, 300, 511, 2000, 9000][random.below(6) as usize];
            let size = random.below(size + 1) as usize;
            let payload = random.bytes(size);
            let kind = 1 + random.below(255) as u8;
            let (left, right) = payload.split_at(size / 2);
            let position = log.append(kind, &[left, right]).unwrap();
            history.records.push(Record { position, kind, payload });
        }
        let slot_size = [60, 700, 4072][random.below(3) as usize];
        let slot = (random.below(3) > 0).then(|| random.bytes(slot_size));
        history.slots.extend(slot.clone());
        let durability = if random.below(4) > 0 { Durability::Sync } else { Durability::Os };
        log.commit(slot.as_deref(), durability).unwrap();
        point.operations = crash.operations();
        (point.os, point.os_slots) = (history.records.len(), history.slots.len());
        if durability == Durability::Sync {
            (point.durable, point.durable_slots) = (point.os, point.os_slots);
        }
        history.points.push(point);
        if random.below(6) == 0 && !history.records.is_empty() {
            let back = random.below(20) as usize;
            let keep = history.records.len().saturating_sub(back + 1);
            let before = history.records[keep].position;
            log.retire_before(before).unwrap();
            point.retired = point.retired.max(before);
            point.operations = crash.operations();
            history.points.push(point);
        }
    }
    assert_eq!(log.slot(), history.slots.last().map(Vec::as_slice));
    history
}
