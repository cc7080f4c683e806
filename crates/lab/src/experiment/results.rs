//! Results on disk: lines of JSON, which a run that was cut short is gone on with, and the same as
//! a table for other programs.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::axes::AXES;
use super::row::Row;
use quorate_core::planted;

/// Bytes of a file that is read, at most.
const MOST_BYTES: u64 = 1 << 30;

/// A file of which each line is one value. One that is written is on disk when the call returns.
#[derive(Debug)]
pub struct Lines {
    path: PathBuf,
    file: File,
}

/// Why results could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
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
    /// It is larger than any file of results.
    #[error("{}: is larger than {MOST_BYTES} bytes; name another file", .0.display())]
    TooLarge(PathBuf),
    /// A line is not a result.
    #[error("{}:{line}: is not a result: {reason}; remove it or name another file", path.display())]
    NoRow {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
}

impl Lines {
    /// Opens the file, or makes it, and reads what there is. A last line without an end was being
    /// written when its process died: it is cut off.
    ///
    /// # Errors
    /// [`ResultsError`]; the file is as it was then.
    pub fn open<T: DeserializeOwned>(path: &Path) -> Result<(Self, Vec<T>), ResultsError> {
        Self::open_checked(path, |_| Ok(()))
    }

    /// As [`Lines::open`]; of each value `check` says what is wrong with it.
    ///
    /// # Errors
    /// As [`Lines::open`].
    pub fn open_checked<T: DeserializeOwned>(
        path: &Path,
        check: impl Fn(&T) -> Result<(), String>,
    ) -> Result<(Self, Vec<T>), ResultsError> {
        let io = |what| move |source| ResultsError::Io { path: path.to_owned(), what, source };
        let options = File::options().read(true).write(true).create(true).truncate(false).clone();
        let mut file = options.open(path).map_err(io("cannot be opened"))?;
        let mut bytes = Vec::new();
        let read = (&mut file).take(MOST_BYTES + 1).read_to_end(&mut bytes);
        if read.map_err(io("cannot be read"))? as u64 > MOST_BYTES {
            return Err(ResultsError::TooLarge(path.to_owned()));
        }
        let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        bytes.truncate(whole);
        let mut rows = Vec::new();
        for (at, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let row = serde_json::from_slice(line).map_err(|error| error.to_string());
            let row = row.and_then(|row| check(&row).map(|()| row));
            let no_row =
                |reason| ResultsError::NoRow { path: path.to_owned(), line: at + 1, reason };
            rows.push(row.map_err(no_row)?);
        }
        file.set_len(whole as u64).map_err(io("cannot be cut"))?;
        file.seek(SeekFrom::End(0)).map_err(io("cannot be appended to"))?;
        Ok((Self { path: path.to_owned(), file }, rows))
    }

    /// Appends a value.
    ///
    /// # Errors
    /// [`ResultsError::Io`].
    pub fn append(&mut self, row: &impl Serialize) -> Result<(), ResultsError> {
        let line = serde_json::to_string(row).map_err(io::Error::other);
        let written = line
            .and_then(|line| self.file.write_all(format!("{line}\n").as_bytes()))
            .and_then(|()| self.file.sync_data());
        let what = "cannot be written";
        written.map_err(|source| ResultsError::Io { path: self.path.clone(), what, source })
    }
}

/// A table of runs, one a line: axes, keys of `node.toml`, how it was measured and what came out.
#[must_use]
pub fn runs_csv(rows: &[Row]) -> String {
    let mut columns: Vec<String> = AXES.iter().map(|axis| (*axis).to_owned()).collect();
    let mut keys: Vec<&String> =
        rows.iter().flat_map(|row| row.settings.point.set.keys()).collect();
    keys.sort();
    keys.dedup();
    columns.extend(keys.into_iter().cloned());
    let mut others: Vec<String> = Vec::new();
    let flat: Vec<Vec<(String, String)>> = rows.iter().map(plain_columns).collect();
    for (name, _) in flat.iter().flatten() {
        if !others.contains(name) {
            others.push(name.clone());
        }
    }
    let mut text = String::new();
    line(&mut text, columns.iter().chain(&others).map(String::as_str));
    for (row, flat) in rows.iter().zip(&flat) {
        let point = columns.iter().map(|name| row.settings.point.text(name).unwrap_or_default());
        let rest = others.iter().map(|name| {
            flat.iter()
                .find(|(known, _)| known == name)
                .map_or_else(String::new, |(_, v)| v.clone())
        });
        let cells: Vec<String> = point.chain(rest).collect();
        line(&mut text, cells.iter().map(String::as_str));
    }
    text
}

/// Everything of a row that is one plain value, but its point. A name is used once: what is the
/// machine's has `machine_` before it, as replicas have a memory and runs a number of cores too.
fn plain_columns(row: &Row) -> Vec<(String, String)> {
    let mut columns = Vec::new();
    let Ok(Value::Object(fields)) = serde_json::to_value(row) else { return columns };
    for (field, value) in &fields {
        match value {
            Value::Object(inner) => {
                let named = inner.iter().map(|(key, value)| (column(field, key), value));
                named.for_each(|(name, value)| add_column(&mut columns, name, value));
            }
            value => add_column(&mut columns, field.clone(), value),
        }
    }
    columns
}

/// What a key of a row's part is called in the table.
fn column(field: &str, key: &str) -> String {
    match (field, key) {
        ("context", "cores" | "memory_mib" | "processor" | "kernel") => format!("machine_{key}"),
        _ => key.to_owned(),
    }
}

fn add_column(columns: &mut Vec<(String, String)>, name: String, value: &Value) {
    match value {
        Value::Object(stages) if name == "stage_us" => {
            let stages = stages.iter();
            columns.extend(stages.map(|(stage, us)| (format!("stage_us.{stage}"), plain(us))));
        }
        Value::Object(_) | Value::Array(_) => {}
        value => columns.push((name, plain(value))),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// A table of intervals, one a line; `run` counts the lines of [`runs_csv`] from 0. Latencies are
/// left out of an interval in which nothing was measured.
#[must_use]
pub fn series_csv(rows: &[Row]) -> String {
    let mut text = String::new();
    line(
        &mut text,
        ["run", "at_s", "seconds", "commands", "goodput", "p50_ms", "p90_ms", "p99_ms", "max_ms"],
    );
    for (number, row) in rows.iter().enumerate() {
        for one in row.figures.iter().flat_map(|figures| &figures.series) {
            let goodput = one.commands as f64 / one.seconds.max(f64::MIN_POSITIVE);
            let p90_ms = planted!("p99-in-the-column-of-p90", one.p99_ms, one.p90_ms);
            let latencies = [one.p50_ms, p90_ms, one.p99_ms, one.max_ms];
            let cell = |ms: f64| if one.has_latencies() { ms.to_string() } else { String::new() };
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "{number},{:.3},{:.3},{},{goodput:.1},{}",
                one.at,
                one.seconds,
                one.commands,
                latencies.map(cell).join(",")
            );
        }
    }
    text
}

/// One line, quoted as RFC 4180 says.
fn line<'a>(text: &mut String, cells: impl IntoIterator<Item = &'a str>) {
    for (index, cell) in cells.into_iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        match cell.contains([',', '"', '\n', '\r']) {
            true => {
                text.push('"');
                text.push_str(&cell.replace('"', "\"\""));
                text.push('"');
            }
            false => text.push_str(cell),
        }
    }
    text.push('\n');
}
