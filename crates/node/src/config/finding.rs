//! What is wrong with a configuration, where, and what to do about it.

use std::fmt::{self, Write as _};
use std::path::PathBuf;

/// Where a value comes from, or where something is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A command-line flag, as typed.
    Flag(String),
    /// An environment variable.
    Environment(String),
    /// A line of a file.
    Line {
        /// The file.
        file: PathBuf,
        /// Its line, from 1.
        line: usize,
    },
    /// A file or folder as a whole.
    File(PathBuf),
    /// Nobody set the value.
    Default,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => write!(f, "flag {flag}"),
            Self::Environment(variable) => write!(f, "environment variable {variable}"),
            Self::Line { file, line } => write!(f, "{}, line {line}", file.display()),
            Self::File(file) => write!(f, "{}", file.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

/// One thing that is wrong (or, as a warning, doubtful).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What is wrong, in one line, naming the key.
    pub what: String,
    /// Where.
    pub place: Place,
    /// What to do about it.
    pub remedy: String,
}

impl Finding {
    pub(crate) fn new(what: impl Into<String>, place: Place, remedy: impl Into<String>) -> Self {
        Self { what: what.into(), place, remedy: remedy.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = format!("{}\n  where:  {}\n  remedy: {}", self.what, self.place, self.remedy);
        // Files of others may hold what commands a terminal.
        said.chars().try_for_each(|c| match c {
            '\n' => f.write_char(c),
            c if c.is_control() => write!(f, "{}", c.escape_unicode()),
            c => f.write_char(c),
        })
    }
}

/// A configuration that cannot be used: everything found wrong with it, at least one thing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// What is wrong, in the order of files and lines.
    pub findings: Vec<Finding>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, finding) in self.findings.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            finding.fmt(f)?;
        }
        Ok(())
    }
}

impl From<Finding> for ConfigError {
    fn from(finding: Finding) -> Self {
        Self { findings: vec![finding] }
    }
}

impl ConfigError {
    /// `value` if nothing was found wrong, else what was found, sorted by place.
    pub(crate) fn unless_clean<T>(value: Option<T>, mut findings: Vec<Finding>) -> Result<T, Self> {
        findings.sort_by(|a, b| a.place.cmp(&b.place));
        match value {
            Some(value) if findings.is_empty() => Ok(value),
            _ => Err(Self { findings }),
        }
    }
}
