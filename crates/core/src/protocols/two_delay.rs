//! Two message delays.

pub mod choice;
