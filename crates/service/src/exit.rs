//! How a program ends: what people read, and what scripts get.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use quorate_node::config::{ConfigError, Finding, Place};

/// The exit codes beside 0. Scripts rely on the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Failed at run time.
    Failed = 1,
    /// Wrong usage or configuration.
    Usage = 2,
    /// Another process has the data folder.
    Locked = 3,
    /// What is on disk is not what was written.
    Corrupt = 4,
    /// Going on could make correct replicas disagree.
    Unsafe = 5,
    /// The application panicked or broke its contract.
    Application = 6,
}

impl Exit {
    const ALL: [Self; 6] =
        [Self::Failed, Self::Usage, Self::Locked, Self::Corrupt, Self::Unsafe, Self::Application];

    const fn meaning(self) -> &'static str {
        match self {
            Self::Failed => "failed at run time",
            Self::Usage => "wrong usage or configuration",
            Self::Locked => "the data folder is in use by another process",
            Self::Corrupt => "the data is corrupt",
            Self::Application => "the application panicked or broke its contract",
            Self::Unsafe => "safety was violated: the replica stopped rather than answer",
        }
    }

    /// The exit codes, as `--help` lists them.
    #[must_use]
    pub fn help() -> String {
        let mut help = "Exit codes:\n  0  all went well\n".to_owned();
        for exit in Self::ALL {
            help.push_str(&format!("  {}  {}\n", exit as u8, exit.meaning()));
        }
        help
    }
}

/// Why a program ended: at least one cause, each with its place and its remedy.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// The causes.
    pub findings: Vec<Finding>,
}

impl Failure {
    /// A failure of one cause, at `file`.
    #[must_use]
    pub fn at(exit: Exit, what: String, file: &Path, remedy: &str) -> Self {
        let place = Place::File(file.to_owned());
        Self { exit, findings: vec![Finding { what, place, remedy: remedy.to_owned() }] }
    }

    /// Prints it to standard error, and gives the exit code.
    #[must_use]
    pub fn report(&self) -> ExitCode {
        tell_findings(&self.findings);
        ExitCode::from(self.exit as u8)
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self { exit: Exit::Usage, findings: error.findings }
    }
}

/// Prints each finding to standard error, in one write: another thread of this process may write
/// there as well, and what it writes must not come between the words.
pub fn tell_findings(findings: &[Finding]) {
    for finding in findings {
        // Nobody is left to hear that standard error is closed.
        let _ = std::io::stderr().write_all(format!("error: {finding}\n").as_bytes());
    }
}
