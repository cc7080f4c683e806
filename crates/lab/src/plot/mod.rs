//! Pictures of a study's results, as SVG, and one page with all of them.

mod charts;
mod figure;
mod group;
mod page;

pub use charts::{Picture, pictures};
pub use page::page;
pub use quorate_plot::PlotError;
