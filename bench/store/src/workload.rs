//! The workloads of YCSB: keys, values, and which item an operation is about.

use serde::{Deserialize, Serialize};

/// Keys have this many bytes.
pub const KEY_BYTES: usize = 23;
/// Values have this many bytes.
pub const VALUE_BYTES: usize = 128;
/// YCSB's constant of its Zipfian distribution.
const ZIPFIAN: f64 = 0.99;

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64.
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    /// As it is after `draws` numbers.
    pub fn after(seed: u64, draws: u64) -> Random {
        Random(seed.wrapping_add(GOLDEN.wrapping_mul(draws)))
    }

    /// Another sequence for each of what is told apart by these numbers.
    pub fn of(parts: &[u64]) -> Random {
        Random(parts.iter().fold(0, |seed, part| scramble(seed ^ part).wrapping_add(GOLDEN)))
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        scramble(self.0)
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn percent(&mut self) -> u64 {
        self.next() % 100
    }
}

fn scramble(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The key of item `number`: "user" and nineteen digits, in no order, as YCSB's.
pub fn key(number: u64) -> [u8; KEY_BYTES] {
    let mut key = *b"user0000000000000000000";
    let mut rest = scramble(number.wrapping_mul(GOLDEN) ^ 0x5bd1_e995);
    for digit in key[4..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// A value that says whose it is in its first eight bytes, which of its item's it is in the next,
/// and follows from the two.
pub fn value(number: u64, stamp: u64) -> [u8; VALUE_BYTES] {
    let mut value = [0; VALUE_BYTES];
    let mut random = Random(scramble(number) ^ stamp);
    for chunk in value.chunks_mut(8) {
        chunk.copy_from_slice(&random.next().to_le_bytes());
    }
    value[..8].copy_from_slice(&number.to_le_bytes());
    value[8..16].copy_from_slice(&stamp.to_le_bytes());
    value
}

/// Whose a value says it is.
pub fn owner(value: &[u8; VALUE_BYTES]) -> u64 {
    word(value, 0)
}

/// Which of its item's values it says it is.
pub fn stamp(value: &[u8; VALUE_BYTES]) -> u64 {
    word(value, 8)
}

fn word(value: &[u8; VALUE_BYTES], at: usize) -> u64 {
    value[at..].first_chunk().copied().map_or(0, u64::from_le_bytes)
}

/// What share of the operations changes something, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mix {
    pub name: char,
    pub reads_percent: u64,
    /// Changes read the item first.
    pub modify: bool,
}

pub const MIXES: [Mix; 4] = [
    Mix { name: 'A', reads_percent: 50, modify: false },
    Mix { name: 'B', reads_percent: 95, modify: false },
    Mix { name: 'C', reads_percent: 100, modify: false },
    Mix { name: 'F', reads_percent: 50, modify: true },
];

/// Which items are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Spread {
    Uniform,
    Zipfian,
}

/// Draws item numbers.
#[derive(Clone)]
pub struct Chooser {
    items: u64,
    pub spread: Spread,
    zeta: f64,
    eta: f64,
    alpha: f64,
}

impl Chooser {
    /// For a Zipfian spread, this adds up a term for each item.
    pub fn new(items: u64, spread: Spread) -> Chooser {
        let zeta_of = |n: u64| (1..=n).map(|i| (i as f64).powf(-ZIPFIAN)).sum::<f64>();
        let zeta = if spread == Spread::Zipfian { zeta_of(items) } else { 0.0 };
        let eta = (1.0 - (2.0 / items as f64).powf(1.0 - ZIPFIAN)) / (1.0 - zeta_of(2) / zeta);
        Chooser { items, spread, zeta, eta, alpha: 1.0 / (1.0 - ZIPFIAN) }
    }

    pub fn draw(&self, random: &mut Random) -> u64 {
        if self.spread == Spread::Uniform {
            return random.next() % self.items;
        }
        // Gray et al., "Quickly Generating Billion-Record Synthetic Databases", SIGMOD 1994; the
        // popular ones scattered as in YCSB.
        let unit = random.unit();
        let by_zeta = unit * self.zeta;
        let rank = if by_zeta < 1.0 {
            0
        } else if by_zeta < 1.0 + 0.5f64.powf(ZIPFIAN) {
            1
        } else {
            (self.items as f64 * (self.eta * unit - self.eta + 1.0).powf(self.alpha)) as u64
        };
        scramble(rank.wrapping_add(0x1234_5678)) % self.items
    }
}
