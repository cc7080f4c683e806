//! `quorate net`

mod down;
mod measure;
mod set;
mod status;
mod up;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use quorate_netem::leftovers::{self, Found};
use quorate_node::config::{Finding, Place};

use crate::failure::{Exit, Failure};
use crate::output::Format;

/// What to do with an emulated network.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Bring a network up, until told to end.
    Up(up::Arguments),
    /// Take a network down, and remove what killed ones left.
    Down(down::Arguments),
    /// Change links of a running network.
    Set(set::Arguments),
    /// Measure links of a running network: what was asked for against what is observed.
    Measure(measure::Arguments),
    /// Print the networks there are, and the links of one.
    Status(status::Arguments),
}

/// Runs `net`.
pub fn run(command: &Command, format: Format) -> Result<(), Failure> {
    match command {
        Command::Up(arguments) => up::run(arguments, format),
        Command::Down(arguments) => down::run(arguments, format),
        Command::Set(arguments) => set::run(arguments, format),
        Command::Measure(arguments) => measure::run(arguments, format),
        Command::Status(arguments) => status::run(arguments, format),
    }
}

/// Which of the networks that are up.
#[derive(Clone, Debug, Args)]
pub struct NameArgument {
    /// Which network. Default: the one there is.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

impl NameArgument {
    /// All that are up and may be meant.
    fn meant(&self) -> Vec<Found> {
        let meant = |found: &Found| self.name.as_ref().is_none_or(|name| *name == found.name);
        leftovers::find().into_iter().filter(|found| found.alive && meant(found)).collect()
    }

    /// The one that is up.
    fn running(&self) -> Result<Found, Failure> {
        let mut meant = self.meant();
        match (meant.pop(), meant.is_empty()) {
            (Some(found), true) => Ok(found),
            (Some(last), false) => {
                let names = meant.iter().chain([&last]).map(|found| found.name.as_str());
                let names = names.collect::<Vec<_>>().join(", ");
                Err(usage(format!("several networks are up: {names}"), "name one with --name"))
            }
            (None, _) => {
                let what = match &self.name {
                    Some(name) => format!("no network \"{name}\" is up"),
                    None => "no network is up".to_owned(),
                };
                let remedy = "see quorate net status, or bring one up: quorate net up wan-100ms";
                Err(usage(what, remedy))
            }
        }
    }
}

fn usage(what: String, remedy: &str) -> Failure {
    let place = Place::File(PathBuf::from(leftovers::SOCKETS));
    Failure::new(Exit::Usage, Finding { what, place, remedy: remedy.to_owned() })
}
