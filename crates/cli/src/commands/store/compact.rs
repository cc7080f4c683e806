//! `quorate store compact`

use clap::Args;
use quorate_store::lazy_trie::Store;
use serde_json::json;

use super::{FolderArguments, refusal};
use crate::failure::Failure;
use crate::output::{Format, print, print_json};

/// Rewrite a store without holes and without a log.
///
/// The new one is made beside the old one in the same folder, and takes the room of both meanwhile;
/// then it is put in its place. Whenever that is interrupted, by a signal or a loss of power, there
/// is one whole store: the next command that opens the folder goes on, or clears up.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    store: FolderArguments,
}

/// Runs `store compact`.
pub fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let store = &arguments.store;
    store.expect_store()?;
    let compacted = Store::compact(&store.folder, store.options());
    let compacted = compacted.map_err(|error| refusal::of(&error, &store.folder))?;
    store.tell_lost(compacted.lost.as_deref());
    match format {
        Format::Table => print(&format!(
            "{} items; {} bytes before, {} now\n",
            compacted.items, compacted.bytes_before, compacted.bytes_after
        )),
        Format::Json => print_json(&json!({
            "items": compacted.items,
            "bytes_before": compacted.bytes_before,
            "bytes_after": compacted.bytes_after,
            "lost": compacted.lost,
        })),
    }
}
