//! Rows on disk, a line of JSON each, so that a run that was cut short can be gone on with.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use super::{MatrixRow, MatrixSettings};

/// Bytes of a file that is read, at most: a thousand times what all rows take.
const MOST_BYTES: u64 = 256 << 20;

/// A file of rows.
#[derive(Debug)]
pub struct RowsFile {
    path: PathBuf,
    file: File,
}

/// Why rows could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RowsError {
    /// The system.
    #[error("{}: {what}: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// It is larger than any file of rows.
    #[error("{}: is larger than {MOST_BYTES} bytes; name another file", .0.display())]
    TooLarge(PathBuf),
    /// A line is not a row.
    #[error("{}:{line}: is not a row of a matrix: {reason}; remove it or name another file", path.display())]
    NoRow {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// A row was measured otherwise: its figures do not belong into the same table.
    #[error("{}:{line}: was measured with other settings; name another file", path.display())]
    OtherSettings {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
    },
}

impl RowsFile {
    /// Opens it, or makes it, and reads the rows there are. A last line without an end was being
    /// written when its process died: it is cut off.
    ///
    /// # Errors
    /// [`RowsError`]; the file is as it was then.
    pub fn open(
        path: &Path,
        settings: &MatrixSettings,
    ) -> Result<(Self, Vec<MatrixRow>), RowsError> {
        let io = |what| move |source| RowsError::Io { path: path.to_owned(), what, source };
        let options = File::options().read(true).write(true).create(true).truncate(false).clone();
        let mut file = options.open(path).map_err(io("cannot be opened"))?;
        let mut bytes = Vec::new();
        let read = (&mut file).take(MOST_BYTES + 1).read_to_end(&mut bytes);
        if read.map_err(io("cannot be read"))? as u64 > MOST_BYTES {
            return Err(RowsError::TooLarge(path.to_owned()));
        }
        let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        bytes.truncate(whole);
        let mut rows = Vec::new();
        for (at, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let line = (at + 1, line);
            rows.push(read_row(path, line, settings)?);
        }
        file.set_len(whole as u64).map_err(io("cannot be cut"))?;
        file.seek(SeekFrom::End(0)).map_err(io("cannot be appended to"))?;
        Ok((Self { path: path.to_owned(), file }, rows))
    }

    /// Appends a row.
    ///
    /// # Errors
    /// [`RowsError::Io`].
    pub fn append(&mut self, row: &MatrixRow) -> Result<(), RowsError> {
        let line = serde_json::to_string(row).map_err(io::Error::other);
        let written = line.and_then(|line| self.file.write_all(format!("{line}\n").as_bytes()));
        let what = "cannot be written";
        written.map_err(|source| RowsError::Io { path: self.path.clone(), what, source })
    }
}

fn read_row(
    path: &Path,
    (line, text): (usize, &[u8]),
    settings: &MatrixSettings,
) -> Result<MatrixRow, RowsError> {
    let path = || path.to_owned();
    let no_row = |reason| RowsError::NoRow { path: path(), line, reason };
    let row: MatrixRow = serde_json::from_slice(text).map_err(|error| no_row(error.to_string()))?;
    if let Some(reason) = row.combination.0.refusal() {
        return Err(no_row(reason.to_owned()));
    }
    match row.settings == *settings {
        true => Ok(row),
        false => Err(RowsError::OtherSettings { path: path(), line }),
    }
}
