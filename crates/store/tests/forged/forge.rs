//! A single forgery: a changed field, with a valid checksum.

use crate::image::{
    BUCKET, DIGEST, HEAD_LEDGER, ITEM, Image, NODE, REGION, Slot, TO_BUCKET, TO_ITEM, TO_NODE,
    entry,
};
use crate::random::Random;

pub fn forge(image: &mut Image, random: &mut Random) {
    match random.below(12) {
        0..4 => node(image, random),
        4 | 5 => bucket(image, random),
        6 => item(image, random),
        7..9 => digests(image, random),
        9 => head(image, random),
        10 => ledger(image, random),
        _ => fixed(image, random),
    }
}

/// Numbers that are likely to be accepted, or to cause damage.
fn number(random: &mut Random, near: u64) -> u64 {
    match random.below(8) {
        0 => 0,
        1 => 1,
        2 => near.wrapping_add(1),
        3 => near.wrapping_sub(1),
        4 => u64::MAX,
        5 => u64::MAX - random.below(3),
        6 => 1 << random.below(64),
        _ => random.next(),
    }
}

/// An entry that should not exist.
fn wrong_entry(image: &Image, own: Slot, old: u64, random: &mut Random) -> u64 {
    let used = [ITEM, BUCKET, NODE, DIGEST][random.below(4) as usize];
    let other = image.pick(used, random).unwrap_or(own);
    let kind = match other.usage {
        ITEM => TO_ITEM,
        BUCKET => TO_BUCKET,
        _ => TO_NODE,
    };
    match random.below(9) {
        0 => entry(TO_NODE, own.address),
        1 => entry(1 + random.below(3), own.address),
        2 | 3 => entry(kind, other.address),
        4 => entry(1 + random.below(3), other.address),
        5 => old.wrapping_add(1 + random.below(4)),
        6 => random.next(),
        // Behind the end, and around it.
        7 => entry(kind, image.space.len() as u64 / 16 - 2 + random.below(4)),
        _ => 0,
    }
}

fn node(image: &mut Image, random: &mut Random) {
    let Some(slot) = image.pick(NODE, random) else { return };
    let map = u128::from_le_bytes(image.at(slot)[16..32].try_into().unwrap());
    let count = u64::from(map.count_ones()).max(1);
    let at = 32 + 8 * random.below(count) as usize;
    let old = image.field(slot, at);
    match random.below(8) {
        0..4 => {
            let new = wrong_entry(image, slot, old, random);
            image.set(slot, at, &new.to_le_bytes());
        }
        4 => {
            // All of them lead to one place.
            let new = wrong_entry(image, slot, old, random);
            for rank in 0..count as usize {
                image.set(slot, 32 + 8 * rank, &new.to_le_bytes());
            }
        }
        5 => {
            let bits = map ^ 1 << random.below(128);
            image.set(slot, 16, &bits.to_le_bytes());
        }
        6 => {
            let prefix = [0, 1, 36, 37, random.below(256) as u8][random.below(5) as usize];
            image.set(slot, 4, &[prefix]);
        }
        _ => {
            let version = image.head_field(crate::image::HEAD_VERSION);
            let version = match random.below(2) {
                // Versions of later batches.
                0 => version + random.below(12),
                _ => number(random, version),
            };
            image.set(slot, 8, &version.to_le_bytes());
        }
    }
    image.seal(slot);
}

fn bucket(image: &mut Image, random: &mut Random) {
    let Some(slot) = image.pick(BUCKET, random) else { return };
    let count = image.at(slot)[4];
    let at = 8 + 8 * random.below(u64::from(count).max(1)) as usize;
    let old = image.field(slot, at);
    match random.below(4) {
        0 => {
            let count = [0, 1, count.wrapping_add(1), 128, 129, 255][random.below(6) as usize];
            image.set(slot, 4, &[count]);
        }
        1 => {
            let first = image.field(slot, 8);
            image.set(slot, at, &first.to_le_bytes());
        }
        _ => {
            let new = wrong_entry(image, slot, old, random);
            // Found by its tag.
            let new = if random.below(2) == 0 {
                new
            } else {
                new & !(0x3f_ffff << 40) | old & 0x3f_ffff << 40
            };
            image.set(slot, at, &new.to_le_bytes());
        }
    }
    image.seal(slot);
}

fn item(image: &mut Image, random: &mut Random) {
    let Some(slot) = image.pick(ITEM, random) else { return };
    let at = 4 + random.below(3) as usize;
    let byte = [0, 1, 65, 0x7f, 0x80, 0xff, random.next() as u8][random.below(7) as usize];
    image.set(slot, at, &[byte]);
    image.seal(slot);
}

fn digests(image: &mut Image, random: &mut Random) {
    let Some(slot) = image.pick(DIGEST, random) else { return node(image, random) };
    let children = usize::from(image.at(slot)[4]);
    let child = random.below(children.max(1) as u64) as usize;
    let old = image.field(slot, 24 + 8 * child);
    match random.below(8) {
        0 => {
            let count = [0, 1, 2, children as u8 + 1, 15, 16, 17, 255][random.below(8) as usize];
            image.set(slot, 4, &[count]);
        }
        7 => image.set(slot, 6, &(random.next() as u16).to_le_bytes()),
        1..4 => {
            let new = wrong_entry(image, slot, old, random);
            image.set(slot, 24 + 8 * child, &new.to_le_bytes());
        }
        4 | 5 => {
            let bits = 24 + 40 * children;
            let bit = [0, 255, random.next() as u8][random.below(3) as usize];
            image.set(slot, bits + child.min(children.saturating_sub(2)), &[bit]);
        }
        _ => {
            let at = 8 + 8 * random.below(2) as usize;
            let old = image.field(slot, at);
            let new = if random.below(2) == 0 {
                number(random, old)
            } else {
                wrong_entry(image, slot, old, random)
            };
            image.set(slot, at, &new.to_le_bytes());
        }
    }
    image.seal(slot);
}

fn head(image: &mut Image, random: &mut Random) {
    if random.below(8) == 0 {
        let regions = (number(random, 3) as u32).to_le_bytes();
        return image.set_head(4, &regions);
    }
    let at = 8 + 8 * random.below(10) as usize;
    let old = image.head_field(at);
    let new = match random.below(2) {
        0 => number(random, old),
        _ => wrong_entry(image, Slot { address: 8, usage: NODE, bytes: 16 }, old, random),
    };
    image.set_head(at, &new.to_le_bytes());
    if random.below(2) == 0 {
        image.seal_ledger();
    }
}

fn ledger(image: &mut Image, random: &mut Random) {
    let (from, length) = image.ledger;
    let row = image.rows[random.below(image.rows.len() as u64) as usize];
    match random.below(5) {
        0 => image.space[row] = random.below(9) as u8,
        1 => {
            let at = row + random.below(5) as usize;
            image.space[at] = random.next() as u8;
        }
        2 => {
            let length = number(random, length as u64);
            image.set_head(HEAD_LEDGER + 8, &length.to_le_bytes());
        }
        _ => {
            // Used slots that count as free, or the reverse.
            let at = from + random.below(length as u64) as usize;
            image.space[at] ^= 1 << random.below(8);
        }
    }
    image.seal_ledger();
}

fn fixed(image: &mut Image, random: &mut Random) {
    match random.below(3) {
        0 => {
            let slab =
                [0, 1, 16, 2048, 4095, 8192, 65_536, 1 << 31, u32::MAX][random.below(9) as usize];
            image.set_fixed(28, &slab.to_le_bytes());
        }
        1 => {
            let region = number(random, REGION as u64);
            image.set_fixed(32, &region.to_le_bytes());
        }
        _ => image.set_fixed(40, &(random.below(5) as u32).to_le_bytes()),
    }
}
