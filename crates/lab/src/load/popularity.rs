//! Which keys are asked for more often than others.

use crate::random::Random;

/// How often each key is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Popularity {
    /// Each as often as any other.
    Uniform,
    /// A few very often (Zipf's law, exponent 0.99), spread over all keys.
    Zipfian,
    /// Those that were written last most often.
    Latest,
}

/// Zipf's exponent, as YCSB has it (Cooper et al. 2010, section 5.1).
const EXPONENT: f64 = 0.99;

/// Draws ranks by Zipf's law: 0 most often. By the method of Gray et al. 1994 (Quickly generating
/// billion-record synthetic databases, section 3.2), which needs no table.
#[derive(Clone, Debug)]
struct Zipf {
    items: u64,
    zeta: f64,
    alpha: f64,
    eta: f64,
}

impl Zipf {
    /// Over so many items, at least one. Takes time in proportion to their number.
    fn new(items: u64) -> Self {
        let items = items.max(1);
        let zeta = |count: u64| (1..=count).map(|rank| (rank as f64).powf(-EXPONENT)).sum::<f64>();
        let all = zeta(items);
        let eta =
            (1.0 - (2.0 / items as f64).powf(1.0 - EXPONENT)) / (1.0 - zeta(2.min(items)) / all);
        Self { items, zeta: all, alpha: 1.0 / (1.0 - EXPONENT), eta }
    }

    fn rank(&self, random: &mut Random) -> u64 {
        // The unit interval is open at 0 and closed at 1: turned round, it fits the method.
        let u = 1.0 - random.unit();
        let uz = u * self.zeta;
        if uz < 1.0 || self.items == 1 {
            return 0;
        }
        if uz < 1.0 + 0.5f64.powf(EXPONENT) {
            return 1;
        }
        let rank = (self.items as f64 * (self.eta * u - self.eta + 1.0).powf(self.alpha)) as u64;
        rank.min(self.items - 1)
    }
}

/// Chooses keys.
#[derive(Clone, Debug)]
pub struct Keys {
    popularity: Popularity,
    zipf: Option<Zipf>,
    count: u64,
}

impl Keys {
    /// Among `count` keys to begin with, at least one.
    #[must_use]
    pub fn new(popularity: Popularity, count: u64) -> Self {
        let zipf = (popularity != Popularity::Uniform).then(|| Zipf::new(count));
        Self { popularity, zipf, count: count.max(1) }
    }

    /// A key, where `now` keys exist, which are at least those of the beginning.
    pub fn choose(&self, now: u64, random: &mut Random) -> u64 {
        let Some(zipf) = &self.zipf else { return random.below(now) };
        let rank = zipf.rank(random);
        match self.popularity {
            Popularity::Latest => now.saturating_sub(1 + rank),
            // The most popular are not neighbours.
            _ => scrambled(rank) % self.count,
        }
    }
}

fn scrambled(rank: u64) -> u64 {
    Random(rank).next()
}

#[cfg(test)]
mod tests;
