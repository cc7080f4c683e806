//! How a command fails: what people read, and what scripts get.

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

#[cfg(feature = "laboratory")]
use quorate_netem::{NetError, leftovers};
use quorate_node::config::{ConfigError, Finding, Place};
use quorate_node::testnet::TestnetError;

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
    pub fn help() -> String {
        let mut help = "Exit codes:\n  0  all went well\n".to_owned();
        for exit in Self::ALL {
            help.push_str(&format!("  {}  {}\n", exit as u8, exit.meaning()));
        }
        help
    }
}

/// Why a command failed: at least one thing, each with its place and its remedy.
#[derive(Debug)]
pub struct Failure {
    exit: Exit,
    findings: Vec<Finding>,
}

impl Failure {
    /// A failure of one cause.
    pub fn new(exit: Exit, finding: Finding) -> Self {
        Self { exit, findings: vec![finding] }
    }

    /// A failure of several causes, at least one.
    pub fn of_all(exit: Exit, findings: Vec<Finding>) -> Self {
        Self { exit, findings }
    }

    /// The system refused something about `path`.
    pub fn io(what: impl fmt::Display, path: &Path, remedy: &str) -> Self {
        let place = Place::File(path.to_owned());
        let finding = Finding { what: what.to_string(), place, remedy: remedy.to_owned() };
        Self::new(Exit::Failed, finding)
    }

    /// Prints it to standard error, and gives the exit code.
    pub fn report(&self) -> ExitCode {
        for finding in &self.findings {
            eprintln!("error: {finding}");
        }
        ExitCode::from(self.exit as u8)
    }

    /// What went wrong.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self { exit: Exit::Usage, findings: error.findings }
    }
}

#[cfg(feature = "laboratory")]
impl From<NetError> for Failure {
    fn from(error: NetError) -> Self {
        let exit = match error {
            NetError::Name(_)
            | NetError::Clash { .. }
            | NetError::Topology(_)
            | NetError::Refused(_) => Exit::Usage,
            _ => Exit::Failed,
        };
        let file = |path: &str| Place::File(path.into());
        let place = match &error {
            NetError::Name(_) => Place::Flag("--name".to_owned()),
            NetError::NoIp => Place::Environment("PATH".to_owned()),
            NetError::NoTun(_) => file("/dev/net/tun"),
            NetError::Clash { place, .. } => Place::File(place.clone()),
            NetError::NotPermitted(_) => file("this process"),
            NetError::Program { .. } => file(leftovers::NAMES),
            _ => file(leftovers::SOCKETS),
        };
        let remedy = error.remedy().to_owned();
        Self::new(exit, Finding { what: error.to_string(), place, remedy })
    }
}

impl From<TestnetError> for Failure {
    fn from(error: TestnetError) -> Self {
        match error {
            TestnetError::Refused(finding) => Self::new(Exit::Usage, finding),
            TestnetError::Failed(finding) => Self::new(Exit::Failed, finding),
        }
    }
}
