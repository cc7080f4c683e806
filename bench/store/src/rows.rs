//! What was measured, a line each in a file that an interrupted run goes on from.

use crate::engines::{Durable, Failure};
use crate::process::{Memory, Passed};
use crate::workload::Spread;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// What all rows of a file have in common: its first line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    pub items: u64,
    pub seconds: f64,
    /// How often each engine meets each workload.
    #[serde(default = "once")]
    pub turns: usize,
    pub durable: Durable,
    /// Changes that are committed together.
    pub batch: usize,
}

fn once() -> usize {
    1
}

/// What an engine is measured at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// Loading begins with nothing: samples before do not count.
    Begin,
    /// A part of the load.
    Sample,
    /// The whole load.
    Load,
    /// A workload.
    Cell(Cell),
    /// `kill -9` under load, then from opening to the first read.
    Recovery,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    pub mix: char,
    pub spread: Spread,
    pub threads: usize,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Begin | Step::Sample | Step::Load => write!(f, "load"),
            Step::Cell(cell) => write!(f, "{cell}"),
            Step::Recovery => write!(f, "recovery"),
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let threads = if self.threads == 1 { "thread" } else { "threads" };
        let spread = if self.spread == Spread::Zipfian { "Zipfian" } else { "uniform" };
        write!(f, "{} {spread}, {} {threads}", self.mix, self.threads)
    }
}

/// A step's figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// The store has, when the step is done.
    pub items: u64,
    pub operations: u64,
    /// Of those: items changed.
    pub changes: u64,
    pub p50_us: Option<f64>,
    pub p99_us: Option<f64>,
    /// A cache line from one processor to another and back, in nanoseconds: the mean of before and
    /// after. On a virtual machine it changes with where its processors are, several times over,
    /// and what threads that share data can do with it.
    #[serde(default)]
    pub round_trip_ns: Option<f64>,
    /// While it ran; the bytes written, also while it settled.
    #[serde(flatten)]
    pub passed: Passed,
    /// Until all that was put off was done, after it.
    pub settle_seconds: f64,
    #[serde(flatten)]
    pub memory: Memory,
    pub disk_bytes: u64,
    /// Of this store: nodes and buckets.
    pub tree_bytes: Option<[u64; 2]>,
    /// Of a workload: whether all its files were read before it began, to be in the page cache.
    #[serde(default)]
    pub warm: Option<bool>,
    /// Acknowledged commits of the last thousands that were not there after `kill -9`.
    pub lost: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub engine: String,
    pub step: Step,
    #[serde(flatten)]
    pub figures: Figures,
}

/// A file of lines in JSON: one of what they have in common, then the rows.
pub struct Lines<R> {
    file: File,
    pub rows: Vec<R>,
}

impl<R: Serialize + DeserializeOwned> Lines<R> {
    /// Opens or begins a file. A last line that was cut off is removed.
    ///
    /// # Errors
    /// A file of another run.
    pub fn open<S: Serialize + DeserializeOwned + PartialEq>(
        path: &Path,
        common: &S,
    ) -> Result<Lines<R>, Failure> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let text = if path.exists() { fs::read_to_string(path)? } else { String::new() };
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        file.set_len(whole as u64)?;
        let mut lines = Lines { file, rows: Vec::new() };
        let mut texts = text[..whole].lines();
        match texts.next() {
            None => lines.append_line(common)?,
            Some(first) if serde_json::from_str::<S>(first).is_ok_and(|one| one == *common) => {}
            Some(_) => {
                return Err(format!(
                    "{} is of a run with other settings: remove it, or give another --out",
                    path.display()
                )
                .into());
            }
        }
        for (number, line) in texts.enumerate() {
            let row = serde_json::from_str(line);
            let row = row.map_err(|e| format!("{}, line {}: {e}", path.display(), number + 2))?;
            lines.rows.push(row);
        }
        Ok(lines)
    }

    pub fn append(&mut self, row: R) -> Result<(), Failure> {
        self.append_line(&row)?;
        self.rows.push(row);
        Ok(())
    }

    fn append_line(&mut self, line: &impl Serialize) -> Result<(), Failure> {
        let mut text = serde_json::to_string(line)?;
        text.push('\n');
        Ok(self.file.write_all(text.as_bytes())?)
    }
}

/// Writes a file, with its name in an error.
pub fn write(path: PathBuf, text: &str) -> Result<(), Failure> {
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()).into())
}
