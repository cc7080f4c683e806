//! `quorate man`

use std::path::PathBuf;

use clap::{Args, CommandFactory};

use crate::failure::Failure;

/// Where to.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The folder for the pages; made if need be. Pages of the same name are replaced.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Writes the manual pages of the command `C`.
pub fn run<C: CommandFactory>(arguments: &Arguments) -> Result<(), Failure> {
    let folder = &arguments.folder;
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(C::command(), folder))
        .map_err(|error| {
            let what = format!("the manual pages could not be written: {error}");
            Failure::io(what, folder, "name a folder that can be written to")
        })
}
