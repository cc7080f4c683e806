//! What the axes of one chart's pictures reach.

use quorate_plot::{Line, LinePoint};

/// The least above 0 and the most of what an axis shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Extent {
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Extent {
    pub(super) fn of(values: impl Iterator<Item = f64>) -> Self {
        let nothing = Self { low: f64::INFINITY, high: 0.0 };
        values.filter(|value| *value > 0.0).fold(nothing, |extent, value| Self {
            low: extent.low.min(value),
            high: extent.high.max(value),
        })
    }

    /// Of lines horizontally, with their ranges.
    pub(super) fn across(lines: &[Line]) -> Self {
        Self::of(points(lines).flat_map(|at| with_end(at.x, at.x_range)))
    }

    /// Of lines vertically, with their ranges.
    pub(super) fn upwards(lines: &[Line]) -> Self {
        Self::of(points(lines).flat_map(|at| with_end(at.y, at.y_range)))
    }
}

fn points(lines: &[Line]) -> impl Iterator<Item = &LinePoint> {
    lines.iter().flat_map(|line| &line.points)
}

/// A value, and the upper end of its range.
fn with_end(value: f64, range: Option<(f64, f64)>) -> impl Iterator<Item = f64> {
    std::iter::once(value).chain(range.map(|(_, high)| high))
}

/// The pictures of one chart are compared: their axes are the same. But one whose most is under a
/// quarter of the others' keeps its own, as nothing of it would be seen. Its axis has numbers.
pub(super) fn shared(own: &[Extent]) -> Vec<Extent> {
    let high = own.iter().map(|extent| extent.high).fold(0.0, f64::max);
    let is_seen = |extent: &&Extent| 4.0 * extent.high >= high;
    let low = own.iter().filter(is_seen).map(|extent| extent.low).fold(f64::INFINITY, f64::min);
    own.iter().map(|one| if is_seen(&one) { Extent { low, high } } else { *one }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_share_an_axis_but_for_one_of_which_nothing_would_be_seen() {
        let extent = |low, high| Extent { low, high };
        let own = [extent(3.0, 231.0), extent(20.0, 60.0), extent(1.0, 36.8)];
        assert_eq!(shared(&own), [extent(3.0, 231.0), extent(3.0, 231.0), extent(1.0, 36.8)]);
    }

    #[test]
    fn a_gap_and_a_zero_reach_nothing() {
        let values = [0.0, f64::NAN, 2.0, 5.0];
        assert_eq!(Extent::of(values.into_iter()), Extent { low: 2.0, high: 5.0 });
    }
}
