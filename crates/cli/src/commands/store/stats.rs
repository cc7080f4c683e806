//! `quorate store stats`

use clap::Args;
use serde_json::{Map, Value};

use super::FolderArguments;
use crate::failure::Failure;
use crate::output::{Format, print, print_json, table};

/// Print what a store holds, and what it takes.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    store: FolderArguments,
}

/// Runs `store stats`.
pub fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let statistics = arguments.store.open()?.statistics();
    let rows = [
        ("items", statistics.items, "items"),
        ("key_bytes", statistics.key_bytes, "their keys"),
        ("value_bytes", statistics.value_bytes, "their values"),
        ("item_slot_bytes", statistics.item_slot_bytes, "slots of items"),
        ("bucket_slot_bytes", statistics.bucket_slot_bytes, "slots of buckets"),
        ("node_slot_bytes", statistics.node_slot_bytes, "slots of nodes"),
        ("waiting_slot_bytes", statistics.waiting_slot_bytes, "slots to be given back, of those"),
        ("space_bytes", statistics.space_bytes, "files of the space"),
        ("free_slab_bytes", statistics.free_slab_bytes, "slabs that nothing uses, of that"),
        ("log_bytes", statistics.log_bytes, "files of the log"),
    ];
    match format {
        Format::Table => {
            let rows = rows
                .map(|(name, number, what)| [name.to_owned(), number.to_string(), what.to_owned()]);
            print(&table(["NAME", "VALUE", "WHAT"], &rows))
        }
        Format::Json => {
            let fields = rows.map(|(name, number, _)| (name.to_owned(), Value::from(number)));
            print_json(&Value::Object(Map::from_iter(fields)))
        }
    }
}
