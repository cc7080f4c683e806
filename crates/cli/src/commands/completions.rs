//! `quorate completions`

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::failure::Failure;
use crate::output::print;

/// Which shell.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The shell.
    shell: Shell,
}

/// Prints the completions of the command `C`.
pub fn run<C: CommandFactory>(arguments: &Arguments) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut C::command(), "quorate", &mut script);
    print(&String::from_utf8_lossy(&script))
}
