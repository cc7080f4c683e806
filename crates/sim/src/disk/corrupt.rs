//! Bits flip and sectors turn up where they do not belong, at rest or when they are written, in any
//! file of a replica.
//!
//! One damage from one recovery to the next, as one disk fault is what the formats promise to
//! withstand: of the safety record there are two copies. A log that refuses to open is what they
//! promise at worst; the replica rejoins then without its data.

use quorate_core::protocols::protocol::Types;
use quorate_store::disk::{Disk as _, PowerDisk, SECTOR_BYTES};

use super::Disk;
use super::layout::PAGE_BYTES;
use crate::cluster::Cluster;
use crate::family::Family;
use crate::rng::Rng;

/// What was done to a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Something that was written is not there any more as it was.
    Corrupted(Corruption),
    /// A write went elsewhere, or nowhere, or will: that is so when more than these have gone
    /// astray.
    Astray {
        /// How many had, on this disk, when it was arranged.
        before: u64,
    },
    /// An old state was put back.
    SetBack,
}

impl Damage {
    /// Whether it has come to be on a disk of which so many writes went astray.
    pub(super) fn is_done(self, astray: u64) -> bool {
        match self {
            Self::Corrupted(_) | Self::SetBack => true,
            Self::Astray { before } => astray > before,
        }
    }
}

/// What is damaged, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corruption {
    /// Where.
    pub place: Place,
    /// Another sector's content stands there; else a bit is flipped.
    pub misdirected: bool,
}

/// A part of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The header and the marks of a segment of the log.
    Head,
    /// The copies of the safety record in the slots of the newest segment.
    Slots,
    /// The records of a segment.
    Records,
    /// A snapshot.
    Snapshot,
    /// The offer.
    Offer,
}

impl Corruption {
    /// All there are.
    pub const ALL: [Self; 10] = {
        let places = [Place::Head, Place::Slots, Place::Records, Place::Snapshot, Place::Offer];
        let mut all = [Self { place: Place::Head, misdirected: false }; 10];
        let mut at = 0;
        while at < all.len() {
            all[at] = Self { place: places[at / 2], misdirected: at % 2 == 1 };
            at += 1;
        }
        all
    };

    /// Its name among the faults counted.
    #[must_use]
    pub fn name(self) -> &'static str {
        match (self.place, self.misdirected) {
            (Place::Head, false) => "bit flip: head of a segment",
            (Place::Head, true) => "misdirected sector: head of a segment",
            (Place::Slots, false) => "bit flip: safety slot",
            (Place::Slots, true) => "misdirected sector: safety slot",
            (Place::Records, false) => "bit flip: record",
            (Place::Records, true) => "misdirected sector: record",
            (Place::Snapshot, false) => "bit flip: snapshot",
            (Place::Snapshot, true) => "misdirected sector: snapshot",
            (Place::Offer, false) => "bit flip: offer",
            (Place::Offer, true) => "misdirected sector: offer",
        }
    }
}

/// A part of a file with something in it.
struct Spot<'a> {
    folder: &'a PowerDisk,
    name: String,
    /// From which offset to which.
    from: u64,
    to: u64,
}

impl<T: Types> Disk<T> {
    fn spot(&self, rng: &mut Rng, place: Place, slot_bytes: u64) -> Option<Spot<'_>> {
        let (log, states) = self.folders.as_ref()?;
        let pick = |folder: &PowerDisk, suffix: &str, newest: bool, rng: &mut Rng| {
            let mut names = folder.list().ok()?;
            names.retain(|name| name.ends_with(suffix));
            let last = names.len().checked_sub(1)?;
            let at = if newest { last } else { rng.below(last as u64 + 1) as usize };
            names.get(at).cloned()
        };
        let slots_at = 3 * PAGE_BYTES;
        let records_at = slots_at + 2 * slot_bytes;
        let (folder, name, from, to) = match place {
            Place::Head => (log, pick(log, ".wal", false, rng)?, 0, slots_at),
            Place::Slots => (log, pick(log, ".wal", true, rng)?, slots_at, records_at),
            Place::Records => (log, pick(log, ".wal", false, rng)?, records_at, u64::MAX),
            Place::Snapshot => (states, pick(states, ".snapshot", false, rng)?, 0, u64::MAX),
            Place::Offer => {
                (states, pick(states, quorate_journal::OFFER_FILE, true, rng)?, 0, u64::MAX)
            }
        };
        let size = folder.open(&name).ok()?.size().ok()?;
        Some(Spot { folder, name, from, to: to.min(size) })
    }
}

impl Spot<'_> {
    /// Damages it; says whether anything was changed.
    fn corrupt(&self, rng: &mut Rng, misdirected: bool) -> bool {
        let Ok(content) = self.folder.content(&self.name) else { return false };
        let (from, to) = (self.from as usize, self.to as usize);
        let start = from + rng.below((to - from) as u64) as usize;
        // What was never written is not worth damaging.
        let Some(at) = (start..to).chain(from..start).find(|at| content[*at] != 0) else {
            return false;
        };
        if !misdirected {
            let byte = content[at] ^ 1 << rng.below(8);
            return self.folder.damage(&self.name, at as u64, &[byte]).is_ok();
        }
        let sector = SECTOR_BYTES as usize;
        let victim = at - at % sector;
        let own = &content[victim..content.len().min(victim + sector)];
        let sectors = content.len().div_ceil(sector) as u64;
        let source = rng.below(sectors) as usize * sector;
        let strange = &content[source..content.len().min(source + own.len())];
        if strange == own {
            return false;
        }
        self.folder.damage(&self.name, victim as u64, strange).is_ok()
    }
}

impl<F: Family> Cluster<F> {
    /// Damages what is at rest on a slot's disk, whether its replica runs or not. Says whether that
    /// was possible: something must be there, and no earlier damage wait for a recovery to find it.
    pub fn corrupt(&mut self, slot: usize, corruption: Corruption) -> bool {
        if self.slots[slot].disk.damage.is_some() {
            return false;
        }
        let slot_bytes = u64::from(self.config.site::<F>(self.slots[slot].id).log.slot_bytes);
        let disk = &mut self.slots[slot].disk;
        let Some(spot) = disk.spot(&mut self.rng, corruption.place, slot_bytes) else {
            return false;
        };
        if !spot.corrupt(&mut self.rng, corruption.misdirected) {
            return false;
        }
        disk.damage = Some(Damage::Corrupted(corruption));
        self.faults.fired(corruption.name());
        true
    }

    /// The `n`-th write to a slot's log from now (1: the next one) is reported done and goes
    /// elsewhere: over something older in the same segment or, if `lost`, nowhere. Says whether
    /// that was possible, as [`corrupt`](Self::corrupt) does. It comes to nothing if the log goes
    /// on in another segment before.
    pub fn misdirect_write(&mut self, slot: usize, n: u64, lost: bool) -> bool {
        let site = self.config.site::<F>(self.slots[slot].id);
        let disk = &self.slots[slot].disk;
        let (None, Some(open), Some((log, _))) = (disk.damage, &disk.open, &disk.folders) else {
            return false;
        };
        let names = log.list().unwrap_or_default();
        let Some(name) = names.iter().rfind(|name| name.ends_with(".wal")) else { return false };
        // Not over what the same commit writes: both copies of one safety record would be gone.
        let sequence: u64 = name.trim_end_matches(".wal").parse().unwrap_or(0);
        let written = open.journal.log().end().0 - sequence * site.log.segment_bytes;
        let to = self.rng.below(written / SECTOR_BYTES) * SECTOR_BYTES;
        if log.misdirect(name, n, (!lost).then_some(to)).is_err() {
            return false;
        }
        let disk = &mut self.slots[slot].disk;
        disk.damage = Some(Damage::Astray { before: disk.astray() });
        true
    }
}
