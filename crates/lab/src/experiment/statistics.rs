//! Means, and how sure they are.

/// A mean of repeats with its 95 % confidence range: `mean ± half_width`, by Student's t
/// distribution with n − 1 degrees of freedom. Of one value nothing is known: `half_width` is
/// `None`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half of the range's width.
    pub half_width: Option<f64>,
    /// How many values.
    pub count: usize,
}

/// The 0.975 quantile of Student's t distribution, by degrees of freedom from 1 (standard tables).
const T_975: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];
/// Beyond the table: the normal distribution's, which is less by at most 4 %.
const Z_975: f64 = 1.96;

impl Estimate {
    /// Of these values; `None` of none.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let count = values.len();
        if count == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / count as f64;
        let half_width = (count > 1).then(|| {
            let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
            let deviation = (squares / (count - 1) as f64).sqrt();
            let t = T_975.get(count - 2).copied().unwrap_or(Z_975);
            t * deviation / (count as f64).sqrt()
        });
        Some(Self { mean, half_width, count })
    }

    /// The lower end of the range, not below 0: what is measured here never is.
    #[must_use]
    pub fn low(&self) -> f64 {
        (self.mean - self.half_width.unwrap_or(0.0)).max(0.0)
    }

    /// The upper end of the range.
    #[must_use]
    pub fn high(&self) -> f64 {
        self.mean + self.half_width.unwrap_or(0.0)
    }
}
