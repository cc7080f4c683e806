//! A store's files as bytes, with every field that a forger may set, and with valid checksums.

use crate::random::Random;
use quorate_store::disk::{Disk, MemoryDisk};
use std::path::Path;

pub const SLAB: usize = 4096;
pub const REGION: usize = 64 << 10;
const PAGE: usize = 4096;
const HEAD: &str = "store.head";

/// The uses of slots, as in ledgers.
pub const ITEM: u8 = 4;
pub const BUCKET: u8 = 5;
pub const NODE: u8 = 6;
pub const DIGEST: u8 = 7;
const RUN: u8 = 2;
const RUN_GONE: u8 = 3;

/// Kinds of entries.
pub const TO_ITEM: u64 = 1;
pub const TO_BUCKET: u64 = 2;
pub const TO_NODE: u64 = 3;

/// Fields of a head, u64 each, by their offset.
pub const HEAD_NUMBER: usize = 8;
pub const HEAD_VERSION: usize = 16;
pub const HEAD_ROOT: usize = 24;
pub const HEAD_ITEMS: usize = 32;
pub const HEAD_GENERATION: usize = 56;
pub const HEAD_LOG: usize = 64;
pub const HEAD_LEDGER: usize = 72;

/// A slot in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// In units of 16 bytes.
    pub address: u64,
    pub usage: u8,
    pub bytes: usize,
}

#[derive(Clone)]
pub struct Image {
    disk: MemoryDisk,
    pub head: Vec<u8>,
    /// The regions, one behind the other.
    pub space: Vec<u8>,
    /// The offset and length of the ledger before any forgery, ...
    pub ledger: (usize, usize),
    /// ... the offsets of its rows, ...
    pub rows: Vec<usize>,
    /// ... and the used slots, its own run among the items.
    pub slots: Vec<Slot>,
}

pub fn entry(kind: u64, address: u64) -> u64 {
    kind << 62 | address
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

impl Image {
    pub fn of(disk: &MemoryDisk) -> Image {
        let disk = disk.fork();
        let head = disk.content(HEAD).unwrap();
        let mut names = disk.list().unwrap();
        names.retain(|name| name.ends_with(".space"));
        let space = names.iter().flat_map(|name| disk.content(name).unwrap()).collect();
        let none = Vec::new();
        let mut image = Image { disk, head, space, ledger: (0, 0), rows: none, slots: Vec::new() };
        let field = |at| image.head_field(at) as usize;
        image.ledger = (field(HEAD_LEDGER) * 16, field(HEAD_LEDGER + 8));
        image.read_ledger();
        image
    }

    /// The image as a disk in memory.
    pub fn disk(&self) -> MemoryDisk {
        let disk = self.disk.fork();
        disk.put(HEAD, self.head.clone());
        for (index, region) in self.space.chunks(REGION).enumerate() {
            disk.put(&format!("{index:06}.space"), region.to_vec());
        }
        disk
    }

    /// Writes the image as files, which are mapped at the opening.
    pub fn write_to(&self, folder: &Path) {
        let disk = self.disk();
        for name in disk.list().unwrap() {
            std::fs::write(folder.join(&name), disk.content(&name).unwrap()).unwrap();
        }
    }

    /// The offset of the head's newest page.
    pub fn page(&self) -> usize {
        let number = |page: usize| u64_at(&self.head, page * PAGE + HEAD_NUMBER);
        PAGE * if number(1) > number(2) { 1 } else { 2 }
    }

    pub fn head_field(&self, at: usize) -> u64 {
        u64_at(&self.head, self.page() + at)
    }

    pub fn set_head(&mut self, at: usize, bytes: &[u8]) {
        let page = self.page();
        self.head[page + at..][..bytes.len()].copy_from_slice(bytes);
        let checksum = crc32c::crc32c(&self.head[12..28]);
        let checksum = crc32c::crc32c_append(checksum, &self.head[page + 4..page + 104]);
        self.head[page..page + 4].copy_from_slice(&checksum.to_le_bytes());
    }

    /// Sets a field of the constant part of the head, and all fields that must agree with it.
    pub fn set_fixed(&mut self, at: usize, bytes: &[u8]) {
        self.head[at..at + bytes.len()].copy_from_slice(bytes);
        let checksum = crc32c::crc32c(&self.head[..44]);
        self.head[44..48].copy_from_slice(&checksum.to_le_bytes());
        let (slab, region) = (self.head[28..32].to_vec(), self.head[32..40].to_vec());
        for header in self.space.chunks_mut(REGION) {
            header[32..36].copy_from_slice(&slab);
            header[36..44].copy_from_slice(&region);
            let checksum = crc32c::crc32c(&header[..44]);
            header[44..48].copy_from_slice(&checksum.to_le_bytes());
        }
    }

    pub fn seal_ledger(&mut self) {
        let (at, length) = self.ledger;
        let checksum = crc32c::crc32c(&self.space[at..at + length]);
        self.set_head(HEAD_LEDGER + 16, &checksum.to_le_bytes());
    }

    fn read_ledger(&mut self) {
        let (from, length) = self.ledger;
        let (mut at, mut slab) = (from, 0);
        while at < from + length {
            self.rows.push(at);
            let address = |offset: usize| ((slab * SLAB + offset) / 16) as u64;
            let row = &self.space[at..from + length];
            match row[0] {
                kind @ (RUN | RUN_GONE) => {
                    if kind == RUN {
                        self.slots.push(Slot { address: address(0), usage: ITEM, bytes: SLAB });
                    }
                    slab += u32::from_le_bytes(row[1..5].try_into().unwrap()) as usize;
                    at += 5;
                }
                usage @ ITEM..=DIGEST => {
                    let bytes = class_bytes(row[1]);
                    let taken = |slot: &usize| row[2 + slot / 8] >> (slot % 8) & 1 == 1;
                    let slot = |slot| Slot { address: address(slot * bytes), usage, bytes };
                    self.slots.extend((0..SLAB / bytes).filter(taken).map(slot));
                    slab += 1;
                    at += 2 + (SLAB / bytes).div_ceil(8);
                }
                _ => (slab, at) = (slab + 1, at + 1),
            }
        }
    }

    pub fn slots_of(&self, usage: u8) -> Vec<Slot> {
        self.slots.iter().copied().filter(|slot| slot.usage == usage).collect()
    }

    pub fn pick(&self, usage: u8, random: &mut Random) -> Option<Slot> {
        let slots = self.slots_of(usage);
        (!slots.is_empty()).then(|| slots[random.below(slots.len() as u64) as usize])
    }

    pub fn at(&mut self, slot: Slot) -> &mut [u8] {
        &mut self.space[slot.address as usize * 16..]
    }

    pub fn field(&self, slot: Slot, at: usize) -> u64 {
        u64_at(&self.space, slot.address as usize * 16 + at)
    }

    pub fn set(&mut self, slot: Slot, at: usize, bytes: &[u8]) {
        self.at(slot)[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// The length that the content of a slot claims.
    fn length(&mut self, slot: Slot) -> Option<usize> {
        let bytes = self.at(slot);
        let length = match slot.usage {
            NODE => {
                let map = u128::from_le_bytes(bytes[16..32].try_into().unwrap());
                32 + 8 * map.count_ones() as usize + usize::from(bytes[4])
            }
            BUCKET => 8 + 8 * usize::from(u16::from_le_bytes(bytes[4..6].try_into().unwrap())),
            DIGEST => {
                let children = usize::from(bytes[4]);
                24 + 40 * children + children.saturating_sub(1)
            }
            _ => {
                let (name, used) = varint(&bytes[4..])?;
                let (value, more) = varint(&bytes[4 + used..])?;
                4 + used + more + name / 2 + value
            }
        };
        (length <= bytes.len()).then_some(length)
    }

    /// Sets the checksum of a slot for its current content.
    pub fn seal(&mut self, slot: Slot) {
        let Some(length) = self.length(slot) else { return };
        let begin = slot.address as u32 ^ (slot.address >> 32) as u32;
        let bytes = self.at(slot);
        let checksum = crc32c::crc32c_append(begin, &bytes[4..length]);
        bytes[..4].copy_from_slice(&checksum.to_le_bytes());
    }
}

fn varint(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut number = 0;
    for (index, byte) in bytes.iter().take(4).enumerate() {
        number |= usize::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((number, index + 1));
        }
    }
    None
}

/// The size of a class's slots.
fn class_bytes(class: u8) -> usize {
    let mut size = 16_usize;
    for _ in 0..class {
        size = if size < 1056 { size + 16 } else { (size + size / 8).next_multiple_of(16) };
    }
    size.min(SLAB)
}
