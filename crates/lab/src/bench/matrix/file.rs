//! Rows on disk, a line of JSON each, so that a run that was cut short can be gone on with.

use std::path::Path;

use super::{MatrixRow, MatrixSettings};
use crate::experiment::{Lines, ResultsError};

/// Opens a file of rows, or makes it, and reads the rows there are: all must be combinations that
/// work, measured with these settings.
///
/// # Errors
/// [`ResultsError`]; the file is as it was then.
pub fn open_rows(
    path: &Path,
    settings: &MatrixSettings,
) -> Result<(Lines, Vec<MatrixRow>), ResultsError> {
    Lines::open_checked(path, |row: &MatrixRow| {
        if let Some(reason) = row.combination.0.refusal() {
            return Err(reason.to_owned());
        }
        match row.settings == *settings {
            true => Ok(()),
            // Its figures do not belong into the same table.
            false => Err("it was measured with other settings".to_owned()),
        }
    })
}
