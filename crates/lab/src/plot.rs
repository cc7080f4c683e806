//! Pictures of a study's results, as SVG, and one page with all of them.

mod charts;
mod doubts;
mod extent;
mod figure;
mod group;
mod kept;
mod page;
mod settings;

pub use charts::{Picture, pictures};
pub use kept::kept;
pub use page::page;
pub use quorate_plot::PlotError;
