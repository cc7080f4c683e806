//! The random generator of a link: xoshiro256++ (Blackman and Vigna, 2019), seeded by SplitMix64.
//! Each link has its own, so its behaviour depends on its own packets alone.

#[derive(Clone, Debug)]
pub(crate) struct Random([u64; 4]);

impl Random {
    /// A generator from the network's seed and the link's ends.
    pub(crate) fn of(seed: u64, from: usize, to: usize) -> Self {
        let mut mixed =
            seed ^ ((from as u64) << 32 | to as u64).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        Self(std::array::from_fn(|_| {
            mixed = mixed.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = mixed;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ (z >> 31)
        }))
    }

    fn next(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.0;
        let drawn = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        drawn
    }

    /// A uniform number from 0 to below 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Whether an event of this probability happens. For 0 and 1 nothing is drawn.
    pub(crate) fn happens(&mut self, probability: f64) -> bool {
        probability > 0.0 && (probability >= 1.0 || self.unit() < probability)
    }

    /// A number of the standard normal distribution (Box and Muller, 1958), within ±4.
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        (radius * (std::f64::consts::TAU * self.unit()).cos()).clamp(-4.0, 4.0)
    }
}
