//! Line charts with ranges: a figure over time, one figure against another, shares of latencies.

use plotters::prelude::*;

use crate::axis::Axis;
use crate::frame::{
    Entry, Mark, PlotError, SHADE, SIZE, axes, colour, head, legend_height, picture, point,
};

/// A line.
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
    /// The vertical position.
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

impl Lines {
    /// Draws the chart as SVG.
    ///
    /// # Errors
    /// [`PlotError`].
    pub fn draw(&self) -> Result<String, PlotError> {
        let shape = |number: usize| self.dotted.then_some(number);
        let mut entries: Vec<Entry> = self
            .lines
            .iter()
            .enumerate()
            .map(|(number, line)| Entry {
                label: line.label.clone(),
                mark: Mark::Line(colour(number), shape(number)),
            })
            .filter(|entry| !entry.label.is_empty())
            .collect();
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
                let path: Vec<(f64, f64)> = line.points.iter().map(|at| (at.x, at.y)).collect();
                plot.draw_series([PathElement::new(path.clone(), colour.stroke_width(3))])?;
                if self.dotted {
                    for at in path {
                        point(root, number, plot.backend_coord(&at), colour)?;
                    }
                }
            }
            Ok(())
        })
    }
}

type Plot<'a, 'b> = crate::frame::Plot<'a, 'b>;

fn draw_band(plot: &mut Plot<'_, '_>, line: &Line, colour: RGBColor) -> Result<(), PlotError> {
    let ranges: Vec<(f64, (f64, f64))> =
        line.points.iter().filter_map(|at| Some((at.x, at.y_range?))).collect();
    if ranges.len() < 2 {
        return Ok(());
    }
    let above = ranges.iter().map(|(x, (_, high))| (*x, *high));
    let below = ranges.iter().rev().map(|(x, (low, _))| (*x, *low));
    let band: Vec<(f64, f64)> = above.chain(below).collect();
    plot.draw_series([Polygon::new(band, colour.mix(0.2).filled())])?;
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
