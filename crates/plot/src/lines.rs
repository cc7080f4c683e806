//! Line charts with ranges: a figure over time, one figure against another, shares of latencies.

use plotters::prelude::*;

use crate::axis::Axis;
use crate::frame::{
    Entry, Mark, PlotError, SHADE, SIZE, axes, colour, head, legend_height, picture, point,
};

/// A line. One without points is neither drawn nor in the legend, and the others keep the colours
/// that they have beside it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// The text in the legend.
    pub label: String,
    /// Its points.
    pub points: Vec<LinePoint>,
}

/// A point of a line, with the ranges of its mean if they are known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinePoint {
    /// The horizontal position.
    pub x: f64,
    /// The vertical position. Where it is not a number, nothing is known: the line has a gap there.
    pub y: f64,
    /// The horizontal range.
    pub x_range: Option<(f64, f64)>,
    /// The vertical range.
    pub y_range: Option<(f64, f64)>,
}

/// A line chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Lines {
    /// The title of the picture.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The lines.
    pub lines: Vec<Line>,
    /// Spans of the horizontal axis that are shaded.
    pub shaded: Vec<(f64, f64)>,
    /// The meaning of the shade.
    pub shade: String,
    /// Marked positions on the horizontal axis.
    pub marked: Vec<f64>,
    /// The meaning of the marks.
    pub mark: String,
    /// Whether points are drawn, with bars for their ranges. Otherwise the range is a band around
    /// the line.
    pub dotted: bool,
}

impl Line {
    /// The points between two gaps, in order.
    fn parts(&self) -> impl Iterator<Item = &[LinePoint]> {
        self.points.split(|at| !at.y.is_finite()).filter(|part| !part.is_empty())
    }
}

impl Lines {
    /// Draws the chart as SVG.
    ///
    /// # Errors
    /// [`PlotError`].
    pub fn draw(&self) -> Result<String, PlotError> {
        let shape = |number: usize| self.dotted.then_some(number);
        let entry = |(number, line): (usize, &Line)| Entry {
            label: line.label.clone(),
            mark: Mark::Line(colour(number), shape(number)),
        };
        let drawn = self.lines.iter().enumerate().filter(|(_, line)| !line.points.is_empty());
        let mut entries: Vec<Entry> =
            drawn.map(entry).filter(|entry| !entry.label.is_empty()).collect();
        if !self.shaded.is_empty() {
            entries.push(Entry { label: self.shade.clone(), mark: Mark::Box(SHADE, 0.22) });
        }
        if !self.marked.is_empty() {
            entries.push(Entry { label: self.mark.clone(), mark: Mark::Line(SHADE, None) });
        }
        // The usual height has room for one line of legend.
        let height = SIZE.1 - 30 + legend_height(&entries).max(30);
        picture((SIZE.0, height), |root| {
            let area = head(root, &self.title, &entries)?;
            let mut plot = axes(&area, &self.x, &self.y)?;
            for (from, to) in &self.shaded {
                let corners = [(*from, self.y.low()), (*to, self.y.high())];
                plot.draw_series([Rectangle::new(corners, SHADE.mix(0.22).filled())])?;
            }
            for at in &self.marked {
                let line = vec![(*at, self.y.low()), (*at, self.y.high())];
                plot.draw_series([PathElement::new(line, SHADE.stroke_width(3))])?;
            }
            for (number, line) in self.lines.iter().enumerate() {
                let colour = colour(number);
                match self.dotted {
                    true => draw_bars(&mut plot, line, colour)?,
                    false => draw_band(&mut plot, line, colour)?,
                }
                for part in line.parts() {
                    let path: Vec<(f64, f64)> = part.iter().map(|at| (at.x, at.y)).collect();
                    plot.draw_series([PathElement::new(path.clone(), colour.stroke_width(3))])?;
                    // A point between two gaps has no length: without a mark it would not be seen.
                    if self.dotted || path.len() == 1 {
                        for at in path {
                            point(root, number, plot.backend_coord(&at), colour)?;
                        }
                    }
                }
            }
            Ok(())
        })
    }
}

type Plot<'a, 'b> = crate::frame::Plot<'a, 'b>;

fn draw_band(plot: &mut Plot<'_, '_>, line: &Line, colour: RGBColor) -> Result<(), PlotError> {
    for part in line.parts() {
        let ranges: Vec<(f64, (f64, f64))> =
            part.iter().filter_map(|at| Some((at.x, at.y_range?))).collect();
        if ranges.len() < 2 {
            continue;
        }
        let above = ranges.iter().map(|(x, (_, high))| (*x, *high));
        let below = ranges.iter().rev().map(|(x, (low, _))| (*x, *low));
        let band: Vec<(f64, f64)> = above.chain(below).collect();
        plot.draw_series([Polygon::new(band, colour.mix(0.2).filled())])?;
    }
    Ok(())
}

fn draw_bars(plot: &mut Plot<'_, '_>, line: &Line, colour: RGBColor) -> Result<(), PlotError> {
    let style = colour.stroke_width(2);
    for at in &line.points {
        if let Some((low, high)) = at.y_range {
            plot.draw_series([PathElement::new(vec![(at.x, low), (at.x, high)], style)])?;
        }
        if let Some((low, high)) = at.x_range {
            plot.draw_series([PathElement::new(vec![(low, at.y), (high, at.y)], style)])?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(label: &str, ys: &[f64]) -> Line {
        let point =
            |(x, y): (usize, &f64)| LinePoint { x: x as f64, y: *y, x_range: None, y_range: None };
        Line { label: label.to_owned(), points: ys.iter().enumerate().map(point).collect() }
    }

    fn chart(lines: Vec<Line>) -> String {
        let (x, y) = (Axis::from_zero("x", 4.0, 4), Axis::from_zero("y", 4.0, 4));
        let (shaded, marked, dotted) = (Vec::new(), Vec::new(), false);
        let (title, shade, mark) = ("t".to_owned(), String::new(), String::new());
        Lines { title, x, y, lines, shaded, shade, marked, mark, dotted }.draw().unwrap()
    }

    fn count(svg: &str, what: &str) -> usize {
        svg.matches(what).count()
    }

    /// An interval without an answer has no latency: a line across it would claim one.
    #[test]
    fn a_line_has_a_gap_where_nothing_is_known() {
        let line = line("a", &[1.0, 2.0, f64::NAN, 3.0, 2.0, f64::NAN, 1.0]);
        let lengths: Vec<usize> = line.parts().map(<[_]>::len).collect();
        assert_eq!(lengths, [2, 2, 1]);
        let svg = chart(vec![line]);
        assert!(!svg.contains("NaN"));
        assert_eq!(count(&svg, "<circle"), 1, "the lone point is marked");
    }

    #[test]
    fn a_title_that_is_too_long_for_its_axis_is_written_smaller() {
        let size = |label: &str| -> f64 {
            let (x, y) = (Axis::from_zero("x", 4.0, 4), Axis::logarithmic(label, 1.0, 100.0));
            let lines = vec![line("a", &[1.0, 2.0])];
            let (shaded, marked, dotted) = (Vec::new(), Vec::new(), false);
            let (title, shade, mark) = ("t".to_owned(), String::new(), String::new());
            let chart = Lines { title, x, y, lines, shaded, shade, marked, mark, dotted };
            let svg = chart.draw().unwrap();
            let turned = svg.split("<text").find(|part| part.contains("rotate")).unwrap();
            assert!(turned.contains("logarithmic"));
            let size = turned.split("font-size=\"").nth(1).unwrap();
            size.split('"').next().unwrap().parse().unwrap()
        };
        assert!(size("99th percentile of the latency of all commands (ms)") < size("latency (ms)"));
    }

    #[test]
    fn a_line_keeps_its_colour_when_another_has_no_data() {
        let svg = chart(vec![line("empty", &[]), line("second", &[1.0, 2.0])]);
        assert!(svg.contains("second") && !svg.contains("empty"));
        assert!(svg.contains("#D55E00") && !svg.contains("#0072B2"), "{svg}");
    }
}
