//! Pictures of a study's results, as SVG, and one page with all of them.

mod axis;
mod bars;
mod charts;
mod figure;
mod frame;
mod group;
mod heat;
mod lines;
mod page;

pub use charts::{Picture, pictures};
pub use frame::PlotError;
pub use page::page;
