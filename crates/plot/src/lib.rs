//! Charts as SVG text: lines with ranges, bars and heat maps, on axes with round ticks. People with
//! any colour vision can tell the colours apart.
#![forbid(unsafe_code)]

mod axis;
mod bars;
mod frame;
mod heat;
mod lines;

pub use axis::{Axis, number};
pub use bars::{Bar, Bars};
pub use frame::PlotError;
pub use heat::Heat;
pub use lines::{Line, LinePoint, Lines};
