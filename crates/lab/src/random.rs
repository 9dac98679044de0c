//! Reproducible random numbers: a published generator and textbook transforms, the same on every host and in
//! every release, so that a report's seed reproduces its schedule.

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator, deterministic by seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// An independent generator for part `part` of the same seed.
    pub fn part(&self, part: u64) -> Self {
        let mut mixed = Self(self.0 ^ part.wrapping_mul(0xd6e8_feb8_6659_fd93));
        Self(mixed.bits())
    }

    /// 64 random bits.
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in (0, 1): neither end, so that logarithms are finite.
    pub const fn unit(&mut self) -> f64 {
        ((self.bits() >> 12) as f64 + 0.5) / (1u64 << 52) as f64
    }

    /// Uniform in 0..n.
    ///
    /// # Panics
    /// If `n` is 0.
    pub const fn below(&mut self, n: usize) -> usize {
        // Multiply and shift; the bias is below n / 2^64.
        ((self.bits() as u128 * n as u128) >> 64) as usize % n
    }

    /// Exponential with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.unit().ln()
    }

    /// Standard normal (Box and Muller, 1958).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.unit().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Gamma of this shape with mean 1 (Marsaglia and Tsang, 2000).
    pub fn gamma(&mut self, shape: f64) -> f64 {
        if shape < 1.0 {
            // Sampled with shape + 1, and corrected by a power.
            let boosted = self.gamma(shape + 1.0) * (shape + 1.0);
            return boosted * self.unit().powf(1.0 / shape) / shape;
        }
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let x = self.normal();
            let v = (1.0 + c * x).powi(3);
            if v > 0.0 && self.unit().ln() < 0.5 * x * x + d - d * v + d * v.ln() {
                return d * v / shape;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(mut draw: impl FnMut() -> f64) -> (f64, f64) {
        let n = 40_000;
        let values: Vec<f64> = (0..n).map(|_| draw()).collect();
        let mean = values.iter().sum::<f64>() / f64::from(n);
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / f64::from(n);
        (mean, variance)
    }

    #[test]
    fn the_sequence_is_the_published_one() {
        // The first outputs for seed 1234567, of the reference implementation in C.
        let mut random = Random::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| random.bits()).collect();
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
        assert_ne!(Random::new(1).part(1).bits(), Random::new(1).part(2).bits());
    }

    #[test]
    fn distributions_have_their_moments() {
        let mut random = Random::new(7);
        let near = |(mean, variance): (f64, f64), expected: (f64, f64)| {
            let close = |a: f64, b: f64| (a - b).abs() < 0.05 * b.abs().max(0.5);
            assert!(close(mean, expected.0) && close(variance, expected.1), "{mean} {variance} {expected:?}");
        };
        near(moments(|| random.unit()), (0.5, 1.0 / 12.0));
        near(moments(|| random.exponential(2.0)), (2.0, 4.0));
        near(moments(|| random.normal()), (0.0, 1.0));
        near(moments(|| random.gamma(4.0)), (1.0, 0.25));
        near(moments(|| random.gamma(0.5)), (1.0, 2.0));
        near(moments(|| random.below(10) as f64), (4.5, 8.25));
    }
}
