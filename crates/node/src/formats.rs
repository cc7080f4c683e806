//! The formats of what replicas keep on disk.
//!
//! A release reads what the one before it wrote (UPGRADING.md). A program that meets another
//! version refuses it, names both, and changes nothing.

use quorate_app::kv;
use quorate_core::base::format::version_of;
use quorate_core::ledger::execution;
use quorate_core::protocols::hotstuff::safety::SAFETY_VERSION;
use quorate_store::{lazy_trie, snapshot, wal};

use crate::backup;

/// A format on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// What it is of.
    pub name: &'static str,
    /// Where files of it are; in a data folder, if nothing else is said.
    pub place: &'static str,
    /// The version that this program writes, and the only one that it reads.
    pub version: u32,
}

/// All of them.
pub const FORMATS: [Format; 9] = [
    of("log", "wal/*.wal", wal::FORMAT_VERSION),
    of("safety record of HotStuff", "in the log", SAFETY_VERSION as u32),
    of("snapshot", "snapshots/*.snapshot", snapshot::FORMAT_VERSION),
    of("state", "in a snapshot", version_of(execution::STATE_TAG)),
    of("key-value state", "in a state", version_of(kv::STATE_TAG)),
    of("lazy-trie store", "state/", lazy_trie::FORMAT_VERSION),
    of("note of a checkpoint", "in the store", version_of(execution::NOTE_TAG)),
    of("beside a checkpoint", "snapshots/*.beside", version_of(execution::BESIDE_TAG)),
    of("backup", "its own folder", backup::folder::VERSION),
];

const fn of(name: &'static str, place: &'static str, version: u32) -> Format {
    Format { name, place, version }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever changes a format tells operators so.
    #[test]
    fn the_formats_are_those_that_upgrading_names() {
        let page = include_str!("../../../UPGRADING.md");
        for Format { name, place, version } in FORMATS {
            let row = format!("| {name} | {place} | {version} |");
            assert!(page.contains(&row), "UPGRADING.md lacks the row\n{row}");
        }
    }
}
