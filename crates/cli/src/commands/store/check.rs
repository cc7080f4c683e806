//! `quorate store check`

use clap::Args;
use quorate_store::lazy_trie::Checked;
use serde_json::json;

use super::{FolderArguments, refusal};
use crate::failure::{Exit, Failure};
use crate::output::{Format, finding_json, print, print_json};

/// Read everything a store holds, and verify checksums, places, and the lists of what is in use.
///
/// Each damage is told with its file, offset and remedy; the exit code is then 4. The log is read
/// to its end by opening the store.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    store: FolderArguments,
}

/// Runs `store check`.
pub fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let checked = look(&arguments.store);
    match (format, &checked) {
        (Format::Table, Ok((checked, None))) => print(&format!(
            "the store is whole: {} items, {} buckets, {} nodes, height {}\n",
            checked.items, checked.buckets, checked.nodes, checked.height
        ))?,
        (Format::Table, _) => {}
        (Format::Json, Ok((checked, damage))) => print_json(&report(checked, damage.as_ref()))?,
        (Format::Json, Err(failure)) => print_json(&report(&Checked::default(), Some(failure)))?,
    }
    checked?.1.map_or(Ok(()), Err)
}

/// What was found, and what of that is wrong.
fn look(store: &FolderArguments) -> Result<(Checked, Option<Failure>), Failure> {
    let opened = store.open()?;
    let checked = opened.check().map_err(|error| refusal::of(&error, &store.folder))?;
    let findings: Vec<_> =
        checked.damage.iter().map(|damage| refusal::damage(damage, &store.folder)).collect();
    let failure = (!findings.is_empty()).then(|| Failure::of_all(Exit::Corrupt, findings));
    Ok((checked, failure))
}

fn report(checked: &Checked, failure: Option<&Failure>) -> serde_json::Value {
    let findings: Vec<_> =
        failure.iter().flat_map(|failure| failure.findings()).map(finding_json).collect();
    json!({
        "ok": failure.is_none(),
        "items": checked.items,
        "buckets": checked.buckets,
        "nodes": checked.nodes,
        "height": checked.height,
        "findings": findings,
    })
}
