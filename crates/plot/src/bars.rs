//! Bar charts: one bar for each permutation, labelled with its name.

use plotters::prelude::*;

use crate::axis::{Axis, number};
use crate::frame::{
    CHARACTER, DARK, Entry, Mark, Plot, PlotError, SIZE, TEXT, colour, head, left_aligned,
    legend_height, picture, right_aligned, text,
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

/// Most characters of a label: a longer one would leave its bar no room.
const LONGEST_LABEL: usize = 44;

impl Bar {
    fn whole(&self) -> f64 {
        self.parts.iter().map(|(_, length)| length).sum()
    }

    /// Where the bar, or the range of its sum, ends.
    fn end(&self) -> f64 {
        self.range.map_or(self.whole(), |(_, high)| high.max(self.whole()))
    }

    fn shown_label(&self) -> String {
        if self.label.chars().count() <= LONGEST_LABEL {
            return self.label.clone();
        }
        self.label.chars().take(LONGEST_LABEL - 1).chain(['…']).collect()
    }
}

impl Bars {
    /// Where the longest bar, or its range, ends.
    #[must_use]
    pub fn longest(&self) -> f64 {
        self.bars.iter().map(Bar::end).fold(0.0, f64::max)
    }

    /// Draws the chart as SVG.
    ///
    /// # Errors
    /// [`PlotError`].
    pub fn draw(&self) -> Result<String, PlotError> {
        self.draw_up_to(self.longest())
    }

    /// Draws the chart as SVG on an axis that reaches `longest`: of two charts that are compared,
    /// bars of the same length mean the same then.
    ///
    /// # Errors
    /// [`PlotError`].
    pub fn draw_up_to(&self, longest: f64) -> Result<String, PlotError> {
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
        let values: Vec<String> = self.bars.iter().map(|bar| number(bar.whole())).collect();
        let widest = |texts: &mut dyn Iterator<Item = String>| {
            (texts.map(|text| text.chars().count()).max().unwrap_or(1) as f64 * CHARACTER) as u32
        };
        let left = 34 + widest(&mut self.bars.iter().map(Bar::shown_label));
        let right = 24 + widest(&mut values.iter().cloned());
        // The title below the plot may reach under the values. A longer one is written smaller:
        // it would be cut off.
        let room = f64::from(SIZE.0.saturating_sub(left) + right);
        let takes = self.label.chars().count() as f64 * CHARACTER;
        let label_size = TEXT * (room / takes.max(1.0)).clamp(0.6, 1.0);
        let height = 160 + legend_height(&entries) + BAR * count as u32;
        picture((SIZE.0, height), |root| {
            let area = head(root, &self.title, &entries)?;
            // As many ticks as their numbers have room beside each other.
            let label = widest(&mut std::iter::once(number(longest))) + 40;
            let room = SIZE.0.saturating_sub(left + right) / label;
            let x = Axis::from_zero(self.label.clone(), longest, room.clamp(2, 5) as usize);
            let y = Axis::places(count);
            let mut plot = ChartBuilder::on(&area)
                .margin_right(right)
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
                .axis_desc_style(text(label_size))
                .x_desc(x.title())
                .x_label_formatter(&|value| x.text(*value))
                .draw()?;
            for (index, (bar, value)) in self.bars.iter().zip(&values).enumerate() {
                let middle = (count - index) as f64 - 0.5;
                draw_bar(&mut plot, bar, middle)?;
                let (x_end, y_middle) = plot.backend_coord(&(bar.end(), middle));
                let (x_zero, _) = plot.backend_coord(&(0.0, middle));
                let place = (x_zero - 10, y_middle);
                root.draw(&Text::new(bar.shown_label(), place, right_aligned(TEXT)))?;
                root.draw(&Text::new(value.clone(), (x_end + 8, y_middle), left_aligned(TEXT)))?;
            }
            Ok(())
        })
    }
}

fn draw_bar(plot: &mut Plot<'_, '_>, bar: &Bar, middle: f64) -> Result<(), PlotError> {
    let mut from = 0.0;
    for (number, length) in &bar.parts {
        let corners = [(from, middle - 0.34), (from + length, middle + 0.34)];
        plot.draw_series([Rectangle::new(corners, colour(*number).filled())])?;
        from += length;
    }
    let Some((low, high)) = bar.range else { return Ok(()) };
    let line = vec![(low, middle), (high, middle)];
    plot.draw_series([PathElement::new(line, DARK.stroke_width(2))])?;
    for at in [low, high] {
        let line = vec![(at, middle - 0.16), (at, middle + 0.16)];
        plot.draw_series([PathElement::new(line, DARK.stroke_width(2))])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars(length: f64) -> Bars {
        let bar = Bar { label: "a".to_owned(), parts: vec![(0, length)], range: None };
        Bars { title: "t".into(), label: "l".into(), bars: vec![bar], colours: Vec::new() }
    }

    /// The width of the first bar that is drawn.
    fn width(svg: &str) -> f64 {
        let blue = svg.split("<rect").find(|part| part.contains("#0072B2")).unwrap();
        let rest = blue.split("width=\"").nth(1).unwrap();
        rest.split('"').next().unwrap().parse().unwrap()
    }

    #[test]
    fn on_one_axis_half_as_much_is_half_as_long() {
        let (long, short) = (bars(800.0), bars(400.0));
        assert_eq!((long.longest(), short.longest()), (800.0, 400.0));
        let alone = width(&short.draw().unwrap());
        let beside = width(&short.draw_up_to(long.longest()).unwrap());
        assert_eq!(width(&long.draw().unwrap()), alone);
        assert!((alone / beside - 2.0).abs() < 0.02, "{alone} alone, {beside} beside the other");
    }

    #[test]
    fn a_label_that_is_cut_says_so() {
        let bar = Bar { label: "x".repeat(60), ..Bar::default() };
        assert_eq!(bar.shown_label().chars().count(), LONGEST_LABEL);
        assert!(bar.shown_label().ends_with('…'));
    }
}
