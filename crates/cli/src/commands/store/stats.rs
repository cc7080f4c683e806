//! `quorate store stats`

use clap::Args;
use quorate_store::lazy_trie::Error;
use serde_json::{Map, Value};

use super::{FolderArguments, lines, refusal};
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
    let store = arguments.store.open()?;
    let statistics = store.statistics();
    let root = match store.root() {
        Ok(root) => Some(lines::hex(&root)),
        Err(Error::NotAuthenticated) => None,
        Err(error) => return Err(refusal::of(&error, &arguments.store.folder)),
    };
    let rows = [
        ("items", statistics.items, "items"),
        ("key_bytes", statistics.key_bytes, "their keys"),
        ("value_bytes", statistics.value_bytes, "their values"),
        ("item_slot_bytes", statistics.item_slot_bytes, "slots of items"),
        ("bucket_slot_bytes", statistics.bucket_slot_bytes, "slots of buckets"),
        ("node_slot_bytes", statistics.node_slot_bytes, "slots of nodes"),
        ("digest_slot_bytes", statistics.digest_slot_bytes, "slots of digests"),
        ("waiting_slot_bytes", statistics.waiting_slot_bytes, "slots to be given back, of those"),
        ("space_bytes", statistics.space_bytes, "files of the space"),
        ("free_slab_bytes", statistics.free_slab_bytes, "slabs that nothing uses, of that"),
        ("log_bytes", statistics.log_bytes, "files of the log"),
    ];
    match format {
        Format::Table => {
            let row = |name: &str, value, what: &str| [name.to_owned(), value, what.to_owned()];
            let mut rows =
                rows.map(|(name, value, what)| row(name, value.to_string(), what)).to_vec();
            rows.extend(root.map(|root| row("root", root, "Merkle root")));
            print(&table(["NAME", "VALUE", "WHAT"], &rows))
        }
        Format::Json => {
            let fields = rows.map(|(name, number, _)| (name.to_owned(), Value::from(number)));
            let root = root.map(|root| ("root".to_owned(), Value::from(root)));
            print_json(&Value::Object(Map::from_iter(fields.into_iter().chain(root))))
        }
    }
}
