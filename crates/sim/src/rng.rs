//! Numbers from a seed: those of the adversaries, with what draws need besides.

/// The generator.
#[derive(Clone, Debug)]
pub struct Rng(quorate_adversary::Rng);

impl Rng {
    /// Numbers from this seed.
    pub fn new(seed: u64) -> Self {
        Self(quorate_adversary::Rng::new(seed))
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0.draw()
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0.below(end)
    }

    /// A number of this range, both ends included.
    pub fn between(&mut self, range: (u64, u64)) -> u64 {
        range.0 + self.below(range.1.saturating_sub(range.0) + 1)
    }

    /// True so many times in a hundred.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.0.percent(chance)
    }

    /// One of these, which must not be none.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}
