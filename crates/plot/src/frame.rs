//! The frame of every picture: a title, a legend above the plot, two axes.

use plotters::chart::ChartContext;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::axis::Axis;

/// Width and height of a picture, in its own pixels. Text stays readable at half of that.
pub const SIZE: (u32, u32) = (960, 560);
/// Sizes of text. The backend writes them divided by 1.24.
const TITLE: f64 = 30.0;
pub(crate) const TEXT: f64 = 25.0;
/// The approximate width of a character of [`TEXT`].
pub(crate) const CHARACTER: f64 = 12.3;
const LEGEND_LINE: i32 = 32;
const MARGIN: i32 = 16;

/// Okabe and Ito's colours, which people with any colour vision can tell apart, and two that differ
/// from them in lightness as well. Those that suit lines on white come first: yellow, which is too
/// light for them, is only met where ten parts of a whole are stacked.
pub const COLOURS: [RGBColor; 10] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
    RGBColor(153, 153, 153),
    RGBColor(136, 34, 85),
    RGBColor(240, 228, 66),
];
pub(crate) const DARK: RGBColor = RGBColor(34, 34, 34);
const GRID: RGBColor = RGBColor(221, 221, 221);
/// The background of times of attack.
pub(crate) const SHADE: RGBColor = RGBColor(120, 120, 120);

pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(crate) type Plot<'a, 'b> = ChartContext<'b, SVGBackend<'a>, Cartesian2d<Axis, Axis>>;
/// The reason why a picture could not be drawn. Writing to memory does not fail.
pub type PlotError = DrawingAreaErrorKind<std::io::Error>;

/// A line of the legend.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The text.
    pub label: String,
    /// The mark in front of the text.
    pub mark: Mark,
}

/// The mark of a legend's line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mark {
    /// A line with points of the given shape.
    Line(RGBColor, Option<usize>),
    /// A filled box.
    Box(RGBColor, f64),
}

/// The colour of the series with this number.
#[must_use]
pub fn colour(number: usize) -> RGBColor {
    COLOURS[number % COLOURS.len()]
}

pub(crate) fn text(size: f64) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&DARK)
}

/// Draws a picture into a string.
pub(crate) fn picture(
    size: (u32, u32),
    draw: impl FnOnce(&Area<'_>) -> Result<(), PlotError>,
) -> Result<String, PlotError> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        root.fill(&WHITE)?;
        draw(&root)?;
        root.present()?;
    }
    Ok(svg)
}

/// Height of the legend.
pub(crate) fn legend_height(entries: &[Entry]) -> u32 {
    let last = places(SIZE.0 as i32, entries).last().map(|(_, line)| line + 1);
    (last.unwrap_or(0) * LEGEND_LINE) as u32
}

/// The positions of entries: distance from the left, and line.
fn places(width: i32, entries: &[Entry]) -> Vec<(i32, i32)> {
    let (mut x, mut line) = (MARGIN, 0);
    let place = |entry: &Entry| {
        let takes = 58 + (entry.label.chars().count() as f64 * CHARACTER) as i32;
        if x > MARGIN && x + takes > width - MARGIN {
            (x, line) = (MARGIN, line + 1);
        }
        let at = (x, line);
        x += takes + 14;
        at
    };
    entries.iter().map(place).collect()
}

/// Draws title and legend. Returns the area that is left for the plot.
pub(crate) fn head<'a>(
    root: &Area<'a>,
    title: &str,
    entries: &[Entry],
) -> Result<Area<'a>, PlotError> {
    let width = root.dim_in_pixel().0 as i32;
    let most = ((f64::from(width) - 2.0 * f64::from(MARGIN)) / (CHARACTER * 1.22)) as usize;
    let mut y = MARGIN;
    for line in wrapped(title, most) {
        root.draw(&Text::new(line, (MARGIN, y), text(TITLE)))?;
        y += 34;
    }
    for (entry, (x, line)) in entries.iter().zip(places(width, entries)) {
        let y = y + line * LEGEND_LINE;
        draw_mark(root, entry.mark, (x, y + 13))?;
        root.draw(&Text::new(entry.label.clone(), (x + 44, y), text(TEXT)))?;
    }
    y += legend_height(entries) as i32;
    let (_, rest) = root.split_vertically(y + 4);
    Ok(rest)
}

fn draw_mark(root: &Area<'_>, mark: Mark, (x, y): (i32, i32)) -> Result<(), PlotError> {
    match mark {
        Mark::Line(colour, shape) => {
            let line = vec![(x, y), (x + 34, y)];
            root.draw(&PathElement::new(line, colour.stroke_width(3)))?;
            if let Some(shape) = shape {
                point(root, shape, (x + 17, y), colour)?;
            }
        }
        Mark::Box(colour, opacity) => {
            let corners = [(x + 6, y - 9), (x + 32, y + 9)];
            root.draw(&Rectangle::new(corners, colour.mix(opacity).filled()))?;
        }
    }
    Ok(())
}

/// Splits `text` into lines of at most `most` characters.
fn wrapped(text: &str, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let Some(line) = lines.last_mut() else { continue };
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > most {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

/// A point at a pixel, of one of four shapes, so that lines can be told apart without colours.
pub(crate) fn point(
    root: &Area<'_>,
    shape: usize,
    (x, y): (i32, i32),
    colour: RGBColor,
) -> Result<(), PlotError> {
    let filled = colour.filled();
    match shape % 4 {
        0 => root.draw(&Circle::new((x, y), 6, filled)),
        1 => root.draw(&Rectangle::new([(x - 5, y - 5), (x + 5, y + 5)], filled)),
        2 => root.draw(&Polygon::new(vec![(x, y - 7), (x + 7, y + 6), (x - 7, y + 6)], filled)),
        _ => {
            let corners = vec![(x, y - 8), (x + 8, y), (x, y + 8), (x - 8, y)];
            root.draw(&Polygon::new(corners, filled))
        }
    }
}

/// Draws the axes into the area that [`head`] left. Returns the plot.
pub(crate) fn axes<'a, 'b>(
    area: &'b Area<'a>,
    x: &Axis,
    y: &Axis,
) -> Result<Plot<'a, 'b>, PlotError> {
    let left = 46 + (y.longest_text() as f64 * CHARACTER) as u32;
    // The title beside the plot may be a little longer than the plot is high. A longer one is
    // written smaller: it would be cut off.
    let room = f64::from(area.dim_in_pixel().1.saturating_sub(84) + 140);
    let takes = y.title().chars().count() as f64 * CHARACTER;
    let y_size = TEXT * (room / takes.max(1.0)).clamp(0.5, 1.0);
    let mut plot = ChartBuilder::on(area)
        .margin_right(52)
        .margin_bottom(8)
        .margin_top(10)
        .margin_left(6)
        .x_label_area_size(66)
        .y_label_area_size(left)
        .build_cartesian_2d(x.clone(), y.clone())?;
    plot.configure_mesh()
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .axis_style(DARK)
        .label_style(text(TEXT))
        .axis_desc_style(text(TEXT))
        .x_desc(x.title())
        .x_label_formatter(&|value| x.text(*value))
        .y_label_formatter(&|value| y.text(*value))
        .draw()?;
    // One call has one style for both titles.
    plot.configure_mesh()
        .disable_mesh()
        .disable_axes()
        .axis_desc_style(text(y_size))
        .y_desc(y.title())
        .draw()?;
    Ok(plot)
}

/// Text whose right edge, at half height, is at `(x, y)`.
pub(crate) fn right_aligned(size: f64) -> TextStyle<'static> {
    text(size).pos(Pos::new(HPos::Right, VPos::Center))
}

/// Text whose left edge, at half height, is at `(x, y)`.
pub(crate) fn left_aligned(size: f64) -> TextStyle<'static> {
    text(size).pos(Pos::new(HPos::Left, VPos::Center))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A command's time is stacked in ten stages: no two may look the same.
    #[test]
    fn ten_colours_are_told_apart() {
        for first in 0..10 {
            for second in first + 1..10 {
                let (a, b) = (colour(first), colour(second));
                let apart: u32 = [(a.0, b.0), (a.1, b.1), (a.2, b.2)]
                    .into_iter()
                    .map(|(a, b)| u32::from(a.abs_diff(b)))
                    .sum();
                assert!(apart > 70, "{first} and {second} differ by {apart}");
            }
        }
    }
}
