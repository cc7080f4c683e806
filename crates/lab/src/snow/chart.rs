//! Line charts of the studies.

use quorate_plot::{Axis, Line, Lines};

use super::StudyError;
use crate::plot::Picture;

/// A chart of lines with their points, and of nothing else.
///
/// # Errors
/// [`StudyError::Plot`].
pub(super) fn chart(
    name: &str,
    title: &str,
    (x, y): (Axis, Axis),
    lines: Vec<Line>,
) -> Result<Picture, StudyError> {
    let (shade, mark) = (String::new(), String::new());
    let (title, shaded, marked) = (title.to_owned(), Vec::new(), Vec::new());
    let lines = Lines { title, x, y, lines, shaded, shade, marked, mark, dotted: true };
    Ok(Picture { name: name.to_owned(), svg: lines.draw()?, title: lines.title })
}
