//! The laboratory's commands in a build without the laboratory: each is known, and refused.

use std::ffi::OsString;

use clap::{Args, Subcommand};
use quorate_node::config::{Finding, Place};

use crate::failure::{Exit, Failure};
use crate::output::Format;

/// Whatever is said behind the command.
#[derive(Debug, Args)]
pub struct AnyArguments {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    _any: Vec<OsString>,
}

/// Whatever subcommand is named.
#[derive(Debug, Subcommand)]
pub enum AnyCommand {
    /// With whatever is said behind it.
    #[command(external_subcommand)]
    Any(#[expect(dead_code, reason = "refused, whatever it is")] Vec<OsString>),
}

/// Refuses a command by name.
pub fn refused(command: &str) -> Result<(), Failure> {
    let finding = Finding {
        what: format!("`quorate {command}` belongs to the laboratory, which this build leaves out"),
        place: Place::Flag(command.to_owned()),
        remedy: "use a build with the feature `laboratory`, as `cargo build --release` makes it"
            .to_owned(),
    };
    Err(Failure::new(Exit::Usage, finding))
}

macro_rules! refused {
    ($($module:ident($name:ident: $kind:ty) = $command:literal,)*) => {$(
        #[doc = concat!("`quorate ", $command, "`")]
        pub mod $module {
            /// Whatever is said behind the command.
            pub type $name = $kind;

            /// Refuses the command.
            pub fn run(_: &$name, _: super::Format) -> Result<(), super::Failure> {
                super::refused($command)
            }
        }
    )*};
}

refused! {
    bench(Arguments: super::AnyArguments) = "bench",
    demo(Arguments: super::AnyArguments) = "demo",
    experiment(Command: super::AnyCommand) = "experiment",
    load(Arguments: super::AnyArguments) = "load",
    net(Command: super::AnyCommand) = "net",
    pay_bench(Arguments: super::AnyArguments) = "pay bench",
    pay_demo(Arguments: super::AnyArguments) = "pay demo",
    profile(Arguments: super::AnyArguments) = "profile",
    sim(Arguments: super::AnyArguments) = "sim",
    snow(Command: super::AnyCommand) = "snow",
    store_bench(Arguments: super::AnyArguments) = "store bench",
    testnet_up(Arguments: super::AnyArguments) = "testnet up",
    twins(Command: super::AnyCommand) = "twins",
}
