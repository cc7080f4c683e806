//! Results, for people or for programs.

use std::io::{self, Write as _};
use std::path::Path;

use clap::ValueEnum;
use quorate_node::config::{Finding, Place};
use serde_json::{Value, json};

use crate::failure::Failure;

/// What results look like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Aligned columns.
    #[default]
    Table,
    /// One JSON value.
    Json,
}

/// Writes `text` to standard output. A reader that has gone away (`| head`) is no failure.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let what = format!("the result could not be written: {error}");
            Err(Failure::io(what, Path::new("standard output"), "redirect it elsewhere"))
        }
        _ => Ok(()),
    }
}

/// Prints one JSON value and a line's end.
pub fn print_json(value: &Value) -> Result<(), Failure> {
    print(&format!("{value:#}\n"))
}

/// Prints one JSON value on a line of its own: for results of which more may follow.
pub fn print_json_line(value: &Value) -> Result<(), Failure> {
    print(&format!("{value}\n"))
}

/// Rows under a head, in columns as wide as their widest cell.
pub fn table<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> String {
    let mut widths = head.map(str::len);
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut out = String::new();
    let head = head.map(str::to_owned);
    for row in std::iter::once(&head).chain(rows) {
        let cells: Vec<_> =
            row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        out.push_str(cells.join("  ").trim_end());
        out.push('\n');
    }
    out
}

/// A finding for programs.
pub fn finding_json(finding: &Finding) -> Value {
    let place = match &finding.place {
        Place::Line { file, line } => json!({ "file": file.display().to_string(), "line": line }),
        Place::File(file) => json!({ "file": file.display().to_string() }),
        Place::Environment(variable) => json!({ "environment": variable }),
        Place::Flag(flag) => json!({ "flag": flag }),
        Place::Default => json!("default"),
    };
    json!({ "what": finding.what, "where": place, "remedy": finding.remedy })
}

/// Bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Prints warnings to standard error.
pub fn warn(warnings: &[Finding]) {
    for warning in warnings {
        eprintln!("warning: {warning}");
    }
}
