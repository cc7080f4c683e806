//! A whole program around a state machine.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Args as _, Command, FromArgMatches as _};
use quorate_core::ledger::state_machine::StateMachine;
use quorate_node::launch::{Launched, launch_with};
use toml::Table;

use crate::exit::{Exit, Failure};
use crate::settings::{self, Settings};
use crate::start::{self, Ready, launch_failure};
use crate::stdout;

/// A program that runs replicas of a service: `start`, `describe`, `--help`, `--version`.
///
/// `start` takes the arguments of `quorate start`, and does what that does: it reads a home's
/// configuration, opens the sockets, answers HTTP, logs to standard error, stops at SIGTERM, and
/// exits with the same codes.
///
/// ```no_run
/// # use quorate_service::{Program, StateMachine};
/// # fn run<Bank: StateMachine + 'static>(new: fn(i64) -> Bank) -> std::process::ExitCode {
/// Program::new("bank", env!("CARGO_PKG_VERSION"))
///     .agrees_on("opening_balance = 1000")
///     .main(move |settings| {
///         let opening = settings.agreed.integer("opening_balance");
///         if opening < 0 {
///             return Err("`service.opening_balance` is below 0".to_owned());
///         }
///         Ok(move || new(opening))
///     })
/// # }
/// ```
pub struct Program {
    name: &'static str,
    version: &'static str,
    agreed: Table,
    own: Table,
}

impl Program {
    /// The program of the service with this name (letters, digits, `-`, `_`, `.`), as
    /// `cluster.toml` has it.
    #[must_use]
    pub fn new(name: &'static str, version: &'static str) -> Self {
        Self { name, version, agreed: Table::new(), own: Table::new() }
    }

    /// Keys of the table `service` of `cluster.toml`, with their defaults: all replicas agree on
    /// them, for they are part of the rules. `keys` is TOML.
    ///
    /// # Panics
    /// If `keys` is no TOML, or declares `name`, which is the service's.
    #[must_use]
    pub fn agrees_on(mut self, keys: &str) -> Self {
        self.agreed = declared(keys);
        assert!(!self.agreed.contains_key("name"), "`name` is the service's own");
        self
    }

    /// Keys of the table `service` of `node.toml`, with their defaults: each replica has its own.
    /// They must not change what the state becomes. `keys` is TOML.
    ///
    /// # Panics
    /// If `keys` is no TOML.
    #[must_use]
    pub fn decides(mut self, keys: &str) -> Self {
        self.own = declared(keys);
        self
    }

    /// Runs the program with the arguments of this process. `begin` checks the settings, and says
    /// how the service is made in its first state; that is done again when a replica takes over a
    /// snapshot. Its error is told with the file's name.
    pub fn main<S, G>(self, begin: impl FnOnce(&Settings) -> Result<G, String>) -> ExitCode
    where
        S: StateMachine + 'static,
        G: Fn() -> S + Send + 'static,
    {
        // A state on disk may be a mapped file; otherwise this costs nothing.
        let _ = quorate_store::disk::explain_bus_errors();
        self.run(std::env::args_os(), begin)
    }

    fn run<S, G>(
        self,
        arguments: impl IntoIterator<Item = OsString>,
        begin: impl FnOnce(&Settings) -> Result<G, String>,
    ) -> ExitCode
    where
        S: StateMachine + 'static,
        G: Fn() -> S + Send + 'static,
    {
        let matches = self.command().get_matches_from(arguments);
        let done = match matches.subcommand() {
            Some(("describe", _)) => self.describe(),
            Some((_, matches)) => self.start(matches, begin),
            None => Ok(()),
        };
        match done {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => failure.report(),
        }
    }

    fn command(&self) -> Command {
        let output = Arg::new("output")
            .short('o')
            .long("output")
            .value_name("FORMAT")
            .value_parser(["table", "json"])
            .default_value("table")
            .action(ArgAction::Set)
            .help("What the announcement looks like: for people, or for programs");
        let start = start::Arguments::augment_args(Command::new("start")).arg(output);
        Command::new(self.name)
            .version(self.version)
            .about(format!("Replicas of the service `{}`, replicated by Quorate", self.name))
            .after_help(Exit::help())
            .subcommand_required(true)
            .arg_required_else_help(true)
            .subcommand(start)
            .subcommand(Command::new("describe").about(
                "Print the service's name and settings, as `quorate testnet init` reads them",
            ))
    }

    fn describe(&self) -> Result<(), Failure> {
        let about = serde_json::json!({
            "service": self.name,
            "version": self.version,
            "agreed": self.agreed.to_string(),
            "own": self.own.to_string(),
        });
        stdout::print(&format!("{about}\n"))
    }

    fn start<S, G>(
        &self,
        matches: &ArgMatches,
        begin: impl FnOnce(&Settings) -> Result<G, String>,
    ) -> Result<(), Failure>
    where
        S: StateMachine + 'static,
        G: Fn() -> S + Send + 'static,
    {
        let arguments = start::Arguments::from_arg_matches(matches).map_err(|error| {
            let remedy = "see --help";
            Failure::at(Exit::Usage, error.to_string(), Path::new("command line"), remedy)
        })?;
        let json = matches.get_one::<String>("output").is_some_and(|format| format == "json");
        start::run(&arguments, self.version, json, async |ready| {
            let settings = settings::read(ready.loaded, &self.agreed, &self.own)?;
            let fresh = begin(&settings).map_err(|what| {
                let remedy = "correct it at all replicas, before the cluster begins";
                Failure::at(Exit::Usage, what, &ready.loaded.home.cluster_file(), remedy)
            })?;
            host(ready, self.name, Box::new(fresh)).await
        })
    }
}

fn declared(keys: &str) -> Table {
    toml::from_str(keys).unwrap_or_else(|error| panic!("the declared keys are no TOML: {error}"))
}

/// Launches a replica of the service called `name`.
pub(crate) async fn host<S: StateMachine + 'static>(
    ready: Ready<'_>,
    name: &str,
    fresh: Box<dyn Fn() -> S + Send>,
) -> Result<Launched, Failure> {
    let Ready { loaded, committee, keys, remedies } = ready;
    launch_with(loaded, committee, keys, remedies, name, fresh)
        .await
        .map_err(|error| launch_failure(&error, loaded))
}
