//! Heat maps: the number of commands by time and latency.

use plotters::prelude::*;

use crate::axis::Axis;
use crate::frame::{
    Area, DARK, Entry, Mark, Plot, PlotError, SIZE, TEXT, axes, colour, head, left_aligned,
    legend_height, picture,
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
    /// Times marked above the plot, when adversaries were active.
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

/// The colour of faults, which the palette of the cells has not.
fn fault() -> RGBColor {
    colour(1)
}

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
        let spans = (!self.spans.is_empty())
            .then(|| Entry { label: "under attack".to_owned(), mark: Mark::Box(fault(), 1.0) });
        let killed = self.killed.map(|_| Entry {
            label: "a replica is killed".to_owned(),
            mark: Mark::Line(fault(), None),
        });
        let entries: Vec<Entry> = spans.into_iter().chain(killed).collect();
        picture((SIZE.0, SIZE.1 + legend_height(&entries)), |root| {
            let area = head(root, &self.title, &entries)?;
            let (bar, rest) = area.split_vertically(40);
            draw_scale(&bar, most)?;
            let mut plot = axes(&rest, &self.x, &self.y)?;
            for ([(from, to), (low, high)], count) in &self.cells {
                let corners = [(*from, *low), (*to, *high)];
                plot.draw_series([Rectangle::new(corners, heat(share(*count)).filled())])?;
            }
            if self.cells.is_empty() {
                let middle = (self.x.low() + self.x.high()) / 2.0;
                let (x, _) = plot.backend_coord(&(middle, self.y.low()));
                let (_, y) = plot.backend_coord(&(middle, (self.y.low() * self.y.high()).sqrt()));
                root.draw(&Text::new("no answer yet", (x - 80, y), left_aligned(TEXT)))?;
            }
            self.draw_faults(root, &plot)
        })
    }

    /// Marks faults above the plot, where they hide no cell; a kill also across it.
    fn draw_faults(&self, root: &Area<'_>, plot: &Plot<'_, '_>) -> Result<(), PlotError> {
        let place = |at: f64| plot.backend_coord(&(at, self.y.high()));
        for (from, to) in &self.spans {
            let ((left, top), (right, _)) = (place(*from), place(*to));
            let corners = [(left, top - 10), (right, top - 2)];
            root.draw(&Rectangle::new(corners, fault().filled()))?;
        }
        if let Some(at) = self.killed {
            let (x, top) = place(at);
            let (_, bottom) = plot.backend_coord(&(at, self.y.low()));
            let line = vec![(x, top - 10), (x, bottom)];
            root.draw(&PathElement::new(line, fault().stroke_width(3)))?;
        }
        Ok(())
    }
}

fn draw_scale(area: &Area<'_>, most: f64) -> Result<(), PlotError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn map(cells: Vec<([(f64, f64); 2], u64)>) -> String {
        let (x, y) = (Axis::until("x", 4.0, 4), Axis::logarithmic("y", 1.0, 100.0));
        let (spans, killed) = (vec![(1.0, 2.0)], Some(3.0));
        Heat { title: "t".to_owned(), x, y, cells, spans, killed }.draw().unwrap()
    }

    #[test]
    fn a_map_without_cells_says_why_it_is_blank() {
        assert!(map(Vec::new()).contains("no answer yet"));
        assert!(!map(vec![([(0.0, 1.0), (1.0, 2.0)], 7)]).contains("no answer yet"));
    }

    #[test]
    fn faults_have_a_colour_that_no_cell_has() {
        let shades: Vec<RGBColor> = (0..=100).map(|share| heat(f64::from(share) / 100.0)).collect();
        assert!(!shades.contains(&fault()));
        // The mark and its entry in the legend, of both faults.
        assert_eq!(map(Vec::new()).matches("#D55E00").count(), 4);
    }
}
