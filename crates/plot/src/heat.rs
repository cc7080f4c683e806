//! Heat maps: the number of commands by time and latency.

use plotters::prelude::*;

use crate::axis::Axis;
use crate::frame::{
    DARK, Entry, Mark, PlotError, SHADE, SIZE, TEXT, axes, head, left_aligned, picture,
};

/// A heat map.
#[derive(Clone, Debug, PartialEq)]
pub struct Heat {
    /// The title of the picture.
    pub title: String,
    /// The time, in seconds.
    pub x: Axis,
    /// The latency, in milliseconds.
    pub y: Axis,
    /// The cells: range of time, range of latency, and number of commands.
    pub cells: Vec<([(f64, f64); 2], u64)>,
    /// Times marked at the top, when adversaries were active.
    pub spans: Vec<(f64, f64)>,
    /// The time at which a replica was killed.
    pub killed: Option<f64>,
}

/// Nine colours of Cividis, which looks the same with and without red-green blindness (Nuñez,
/// Anderton and Renslow 2018).
const CIVIDIS: [(u8, u8, u8); 9] = [
    (0, 32, 77),
    (0, 52, 110),
    (57, 72, 107),
    (87, 93, 109),
    (112, 113, 115),
    (138, 134, 120),
    (166, 157, 117),
    (196, 182, 108),
    (255, 234, 70),
];

/// The colour of a share from 0 to 1.
fn heat(share: f64) -> RGBColor {
    let place = share.clamp(0.0, 1.0) * (CIVIDIS.len() - 1) as f64;
    let low = (place.floor() as usize).min(CIVIDIS.len() - 2);
    let part = place - low as f64;
    let mix = |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * part).round() as u8;
    let (a, b) = (CIVIDIS[low], CIVIDIS[low + 1]);
    RGBColor(mix(a.0, b.0), mix(a.1, b.1), mix(a.2, b.2))
}

impl Heat {
    /// Draws the map as SVG.
    ///
    /// # Errors
    /// [`PlotError`].
    pub fn draw(&self) -> Result<String, PlotError> {
        let most = self.cells.iter().map(|(_, count)| *count).max().unwrap_or(1).max(2) as f64;
        // Counts differ by powers of ten. A linear scale would show only the largest class.
        let share = |count: u64| (count.max(1) as f64).ln() / most.ln();
        picture(SIZE, |root| {
            let spans = (!self.spans.is_empty())
                .then(|| Entry { label: "under attack".to_owned(), mark: Mark::Box(SHADE, 1.0) });
            let killed = self.killed.map(|_| Entry {
                label: "a replica is killed".to_owned(),
                mark: Mark::Line(SHADE, None),
            });
            let entries: Vec<Entry> = spans.into_iter().chain(killed).collect();
            let area = head(root, &self.title, &entries)?;
            let (bar, rest) = area.split_vertically(40);
            draw_scale(&bar, most)?;
            let mut plot = axes(&rest, &self.x, &self.y)?;
            for ([(from, to), (low, high)], count) in &self.cells {
                let corners = [(*from, *low), (*to, *high)];
                plot.draw_series([Rectangle::new(corners, heat(share(*count)).filled())])?;
            }
            if let Some(at) = self.killed {
                let line = vec![(at, self.y.low()), (at, self.y.high())];
                plot.draw_series([PathElement::new(line, SHADE.stroke_width(3))])?;
            }
            for (from, to) in &self.spans {
                let line = vec![(*from, self.y.high()), (*to, self.y.high())];
                plot.draw_series([PathElement::new(line, SHADE.stroke_width(12))])?;
            }
            Ok(())
        })
    }
}

fn draw_scale(area: &crate::frame::Area<'_>, most: f64) -> Result<(), PlotError> {
    let (left, width) = (205, 260);
    area.draw(&Text::new("commands: 1", (48, 20), left_aligned(TEXT)))?;
    for step in 0..52 {
        let x = left + width * step / 52;
        let shade = heat(f64::from(step) / 51.0);
        area.draw(&Rectangle::new([(x, 10), (x + width / 52 + 1, 30)], shade.filled()))?;
    }
    area.draw(&Rectangle::new([(left, 10), (left + width, 30)], DARK.stroke_width(1)))?;
    let text = format!("{} (logarithmic)", crate::axis::number(most));
    area.draw(&Text::new(text, (left + width + 10, 20), left_aligned(TEXT)))?;
    Ok(())
}
