//! How a command fails: what people read, and what scripts get.

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

#[cfg(feature = "laboratory")]
use quorate_netem::{NetError, leftovers};
use quorate_node::config::{ConfigError, Finding, Place};
use quorate_node::testnet::TestnetError;
pub use quorate_service::Exit;

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
        quorate_service::tell_findings(&self.findings);
        ExitCode::from(self.exit as u8)
    }

    /// What went wrong.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }
}

impl From<quorate_service::Failure> for Failure {
    fn from(failure: quorate_service::Failure) -> Self {
        Self { exit: failure.exit, findings: failure.findings }
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
