//! Bar charts: one bar for each permutation, labelled with its name.

use plotters::prelude::*;

use crate::axis::{Axis, number};
use crate::frame::{
    CHARACTER, DARK, Entry, Mark, PlotError, SIZE, TEXT, colour, head, left_aligned, legend_height,
    picture, right_aligned, text,
};

/// A bar of one or more parts, one behind the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bar {
    /// The label in front of the bar.
    pub label: String,
    /// The parts: number of the colour, and length.
    pub parts: Vec<(usize, f64)>,
    /// The range of the sum.
    pub range: Option<(f64, f64)>,
}

/// A bar chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    /// The title of the picture.
    pub title: String,
    /// The quantity of the bars' length, with its unit.
    pub label: String,
    /// The bars from top to bottom.
    pub bars: Vec<Bar>,
    /// The meaning of each colour; empty if there is one.
    pub colours: Vec<String>,
}

const BAR: u32 = 40;

impl Bars {
    /// Draws the chart as SVG.
    ///
    /// # Errors
    /// [`PlotError`].
    pub fn draw(&self) -> Result<String, PlotError> {
        let count = self.bars.len().max(1);
        let entries: Vec<Entry> = self
            .colours
            .iter()
            .enumerate()
            .map(|(number, label)| Entry {
                label: label.clone(),
                mark: Mark::Box(colour(number), 1.0),
            })
            .collect();
        let whole = |bar: &Bar| bar.parts.iter().map(|(_, length)| length).sum::<f64>();
        let end = |bar: &Bar| bar.range.map_or(whole(bar), |(_, high)| high.max(whole(bar)));
        let longest = self.bars.iter().map(end).fold(0.0, f64::max);
        let values: Vec<String> = self.bars.iter().map(|bar| number(whole(bar))).collect();
        let value_width = values.iter().map(|value| value.chars().count()).max().unwrap_or(1);
        let names = self.bars.iter().map(|bar| bar.label.chars().count()).max().unwrap_or(1);
        let left = 34 + (names.min(44) as f64 * CHARACTER) as u32;
        let height = 160 + legend_height(&entries) + BAR * count as u32;
        picture((SIZE.0, height), |root| {
            let area = head(root, &self.title, &entries)?;
            let mut x = Axis::from_zero(self.label.clone(), longest, 5);
            if value_width * 2 > 24 {
                x = Axis::from_zero(self.label.clone(), longest, 3);
            }
            let y = Axis::places(count);
            let mut plot = ChartBuilder::on(&area)
                .margin_right(24 + (value_width as f64 * CHARACTER) as u32)
                .margin_bottom(8)
                .margin_top(6)
                .x_label_area_size(66)
                .y_label_area_size(left)
                .build_cartesian_2d(x.clone(), y)?;
            plot.configure_mesh()
                .bold_line_style(RGBColor(221, 221, 221))
                .light_line_style(TRANSPARENT)
                .axis_style(DARK)
                .disable_y_mesh()
                .label_style(text(TEXT))
                .axis_desc_style(text(TEXT))
                .x_desc(x.label.clone())
                .x_label_formatter(&|value| x.text(*value))
                .draw()?;
            for (index, (bar, value)) in self.bars.iter().zip(&values).enumerate() {
                let middle = (count - index) as f64 - 0.5;
                let mut from = 0.0;
                for (number, length) in &bar.parts {
                    let corners = [(from, middle - 0.34), (from + length, middle + 0.34)];
                    plot.draw_series([Rectangle::new(corners, colour(*number).filled())])?;
                    from += length;
                }
                if let Some((low, high)) = bar.range {
                    let line = vec![(low, middle), (high, middle)];
                    plot.draw_series([PathElement::new(line, DARK.stroke_width(2))])?;
                    for at in [low, high] {
                        let line = vec![(at, middle - 0.16), (at, middle + 0.16)];
                        plot.draw_series([PathElement::new(line, DARK.stroke_width(2))])?;
                    }
                }
                let (x_end, y_middle) = plot.backend_coord(&(end(bar), middle));
                let (x_zero, _) = plot.backend_coord(&(0.0, middle));
                let label: String = bar.label.chars().take(44).collect();
                root.draw(&Text::new(label, (x_zero - 10, y_middle), right_aligned(TEXT)))?;
                root.draw(&Text::new(value.clone(), (x_end + 8, y_middle), left_aligned(TEXT)))?;
            }
            Ok(())
        })
    }
}
