//! Axes: the positions of their ticks, and the labels.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

/// An axis with ticks at round values.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The quantity, with its unit.
    pub label: String,
    low: f64,
    high: f64,
    logarithmic: bool,
    ticks: Vec<f64>,
}

impl Axis {
    /// An axis from 0 to at least `high`.
    #[must_use]
    pub fn from_zero(label: impl Into<String>, high: f64, most_ticks: usize) -> Self {
        let high = if high.is_finite() && high > 0.0 { high } else { 1.0 };
        let step = round_step(high / most_ticks.max(1) as f64);
        let steps = (high / step).ceil().max(1.0);
        let ticks = (0..=steps as usize).map(|index| index as f64 * step).collect();
        Self { label: label.into(), low: 0.0, high: steps * step, logarithmic: false, ticks }
    }

    /// An axis from at most `low` to at least `high`. Both may be negative.
    #[must_use]
    pub fn between(label: impl Into<String>, low: f64, high: f64, most_ticks: usize) -> Self {
        let high = if high > low { high } else { low + 1.0 };
        let step = round_step((high - low) / most_ticks.max(1) as f64);
        let (first, last) = ((low / step).floor() as i64, (high / step).ceil() as i64);
        let ticks: Vec<f64> = (first..=last).map(|index| index as f64 * step).collect();
        let (low, high) = (first as f64 * step, last as f64 * step);
        Self { label: label.into(), low, high, logarithmic: false, ticks }
    }

    /// An axis from 0 to exactly `high`, for times.
    #[must_use]
    pub fn until(label: impl Into<String>, high: f64, most_ticks: usize) -> Self {
        let mut axis = Self::from_zero(label, high, most_ticks);
        axis.high = if high > 0.0 { high } else { 1.0 };
        axis.ticks.retain(|tick| *tick <= high + 1e-9);
        axis
    }

    /// A logarithmic axis from at most `low` to at least `high`, which must be above 0. Each power
    /// of ten has the same length, which is said beside its label.
    #[must_use]
    pub fn logarithmic(label: impl Into<String>, low: f64, high: f64) -> Self {
        let low = if low.is_finite() && low > 0.0 { low } else { 0.1 };
        let high = if high.is_finite() && high > low { high } else { low * 10.0 };
        let (low, high, ticks) = logarithmic_ticks(low, high);
        Self { label: label.into(), low, high, logarithmic: true, ticks }
    }

    /// An axis with the positions 0 to `count`, without labels.
    #[must_use]
    pub fn places(count: usize) -> Self {
        let high = count.max(1) as f64;
        Self { label: String::new(), low: 0.0, high, logarithmic: false, ticks: Vec::new() }
    }

    /// Its lower end.
    #[must_use]
    pub fn low(&self) -> f64 {
        self.low
    }

    /// Its upper end.
    #[must_use]
    pub fn high(&self) -> f64 {
        self.high
    }

    /// What stands beside the axis: the label, and that it is logarithmic.
    #[must_use]
    pub fn title(&self) -> String {
        let scale = if self.logarithmic { " – logarithmic" } else { "" };
        format!("{}{scale}", self.label)
    }

    /// The label of a tick.
    #[must_use]
    pub fn text(&self, value: f64) -> String {
        number(value)
    }

    /// The length of the longest label, in characters.
    #[must_use]
    pub fn longest_text(&self) -> usize {
        self.ticks.iter().map(|tick| self.text(*tick).chars().count()).max().unwrap_or(1)
    }
}

/// The ends and the ticks of a logarithmic axis: as few ticks in a power of ten as are enough for
/// the whole axis, since two or three ticks say little about where a point in between is.
fn logarithmic_ticks(low: f64, high: f64) -> (f64, f64, Vec<f64>) {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let sets: [Vec<f64>; 4] = [
        vec![1.0],
        vec![1.0, 2.0, 5.0],
        (1..10).map(f64::from).collect(),
        (2..20).map(|half| f64::from(half) / 2.0).collect(),
    ];
    // With up to three powers of ten there is room for the second set.
    let coarsest = usize::from(last - first <= 3);
    let with = |factors: &Vec<f64>| {
        let all: Vec<f64> = (first..=last)
            .flat_map(|power| factors.iter().map(move |factor| factor * 10f64.powi(power)))
            .collect();
        let below =
            all.iter().copied().filter(|tick| *tick <= low * 1.0001).fold(f64::NAN, f64::max);
        let above =
            all.iter().copied().filter(|tick| *tick >= high * 0.9999).fold(f64::NAN, f64::min);
        let (low, high) = (below.min(low), above.max(high));
        let ticks: Vec<f64> =
            all.into_iter().filter(|tick| *tick >= low * 0.999 && *tick <= high * 1.001).collect();
        (low, high, ticks)
    };
    let axes: Vec<_> = sets[coarsest..].iter().map(with).collect();
    let enough = axes.iter().position(|(_, _, ticks)| ticks.len() >= ENOUGH_TICKS);
    let chosen = enough.unwrap_or(axes.len() - 1);
    axes.into_iter().nth(chosen).unwrap_or((low, high, Vec::new()))
}

/// With fewer ticks a logarithmic axis cannot be read.
const ENOUGH_TICKS: usize = 4;

/// A number with thousands separated, and no more digits than are useful: three that count where
/// it has a fraction.
#[must_use]
pub fn number(value: f64) -> String {
    let magnitude = value.abs();
    let text = match magnitude {
        m if m >= 100.0 || m == 0.0 => format!("{value:.0}"),
        m if m >= 10.0 => trimmed(format!("{value:.1}")),
        m if m >= 1.0 => trimmed(format!("{value:.2}")),
        m => {
            let zeros = (-m.log10().floor()).clamp(1.0, 12.0) as usize;
            trimmed(format!("{value:.0$}", zeros + 2))
        }
    };
    let (whole, rest) = text.split_once('.').map_or((text.as_str(), None), |(a, b)| (a, Some(b)));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        let left = whole.chars().count() - index;
        if index > 0 && left % 3 == 0 && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    match rest {
        Some(rest) => format!("{grouped}.{rest}"),
        None => grouped,
    }
}

fn trimmed(text: String) -> String {
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The smallest of 1, 2, 5 × 10ⁿ that is at least `least`.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    let fits = factors.iter().find(|factor| *factor * power >= least * 0.9999);
    fits.unwrap_or(&10.0) * power
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let value = value.clamp(self.low, self.high);
        let part = match self.logarithmic {
            true => (value / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        };
        limit.0 + (f64::from(limit.1 - limit.0) * part).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        self.text(*value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_thousands_separated_and_three_digits_that_count() {
        for (value, text) in [
            (0.0, "0"),
            (24_213.6, "24,214"),
            (1_468_553.0, "1,468,553"),
            (-1500.0, "-1,500"),
            (231.4, "231"),
            (36.84, "36.8"),
            (15.0, "15"),
            (1.234, "1.23"),
            (0.1 + 0.2, "0.3"),
            (0.041_234, "0.0412"),
            (0.000_123_4, "0.000123"),
            (0.999_9, "1"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn a_logarithmic_axis_says_so_and_has_ticks_enough_to_be_read() {
        let ticks = |low, high| Axis::logarithmic("latency (ms)", low, high).ticks;
        assert_eq!(Axis::logarithmic("ms", 1.0, 9.0).title(), "ms – logarithmic");
        assert_eq!(Axis::from_zero("ms", 9.0, 5).title(), "ms");
        assert_eq!(ticks(0.5, 60_000.0), [0.1, 1.0, 10.0, 100.0, 1000.0, 10_000.0, 100_000.0]);
        assert_eq!(ticks(1.5, 40.0), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0]);
        // 2 and 5 alone would be all that is drawn.
        assert_eq!(ticks(2.2, 4.8), [2.0, 3.0, 4.0, 5.0]);
        assert_eq!(ticks(5.1, 6.4), [5.0, 5.5, 6.0, 6.5]);
    }

    #[test]
    fn an_axis_of_nothing_can_be_drawn() {
        for axis in [Axis::from_zero("", f64::NAN, 5), Axis::logarithmic("", f64::INFINITY, 0.0)] {
            assert!(axis.low() < axis.high() && axis.ticks.len() > 1, "{axis:?}");
        }
    }
}
