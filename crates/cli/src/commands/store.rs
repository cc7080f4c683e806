//! `quorate store`: the lazy-trie on disk, from outside. What can go wrong with one is in
//! `refusal.rs`.

#[cfg(feature = "laboratory")]
mod bench;
mod check;
mod compact;
mod dump;
mod items;
mod lines;
mod proof;
mod refusal;
mod stats;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use quorate_store::lazy_trie::{Options, Recovery, Store};

#[cfg(not(feature = "laboratory"))]
use super::store_bench as bench;
use crate::failure::Failure;
use crate::output::Format;

/// What a store is kept in beside its log and its regions; see `docs/store.md`.
const HEAD: &str = "store.head";
/// Segments of the log, in bytes: a command writes little, and a new log should be there at once.
const SEGMENT_BYTES: u64 = 4 << 20;

/// What to do with a store.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Put a YCSB mix on a new store, and tell how fast it was.
    Bench(bench::Arguments),
    /// Read everything a store holds, and verify it.
    Check(check::Arguments),
    /// Print or write all items, in the order of their hashes.
    Dump(dump::Arguments),
    /// Print what a store holds, and what it takes.
    Stats(stats::Arguments),
    /// Rewrite a store without holes and without a log. Interrupted at any point, it leaves one
    /// whole store.
    Compact(compact::Arguments),
    /// Print the value of a key.
    Get(items::GetArguments),
    /// Put an item, or all items of a dump.
    Put(items::PutArguments),
    /// Verify a proof that `get --proof` has printed.
    VerifyProof(proof::Arguments),
    /// Remove an item.
    Delete(items::DeleteArguments),
}

/// Runs `store`.
pub fn run(command: &Command, format: Format) -> Result<(), Failure> {
    match command {
        Command::Bench(arguments) => bench::run(arguments, format),
        Command::Check(arguments) => check::run(arguments, format),
        Command::Dump(arguments) => dump::run(arguments, format),
        Command::Stats(arguments) => stats::run(arguments, format),
        Command::Compact(arguments) => compact::run(arguments, format),
        Command::Get(arguments) => items::get(arguments, format),
        Command::Put(arguments) => items::put(arguments, format),
        Command::VerifyProof(arguments) => proof::verify(arguments, format),
        Command::Delete(arguments) => items::delete(arguments, format),
    }
}

/// Which store.
#[derive(Debug, Args)]
struct FolderArguments {
    /// The folder of the store, which no other process may have open.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Of a damaged log take every commit up to the damage, and set the rest aside (`*.lost`).
    #[arg(long)]
    best_effort: bool,
}

impl FolderArguments {
    fn options(&self) -> Options {
        let recovery = if self.best_effort { Recovery::BestEffort } else { Recovery::Strict };
        // What is wrong with the head is told when the store is opened.
        let authenticated = Store::is_authenticated(&self.folder).ok().flatten().unwrap_or(false);
        Options { recovery, authenticated, segment_bytes: SEGMENT_BYTES, ..Options::default() }
    }

    /// Opens the store that is there.
    fn open(&self) -> Result<Store, Failure> {
        self.expect_store()?;
        self.open_or_create(false)
    }

    /// Opens the store, or begins one where nothing is: an authenticated one if that is asked for,
    /// which refuses one that is there and is not.
    fn open_or_create(&self, authenticated: bool) -> Result<Store, Failure> {
        let mut options = self.options();
        options.authenticated |= authenticated;
        let opened = Store::open(&self.folder, options);
        let (store, recovered) = opened.map_err(|error| refusal::of(&error, &self.folder))?;
        self.tell_lost(recovered.lost.as_deref());
        Ok(store)
    }

    /// That the folder is a store's: opening would begin one in any folder, and leave its lock
    /// there.
    fn expect_store(&self) -> Result<(), Failure> {
        if self.folder.join(HEAD).is_file() { Ok(()) } else { Err(refusal::no_store(&self.folder)) }
    }

    /// That a store may be begun in the folder.
    fn expect_store_or_nothing(&self) -> Result<(), Failure> {
        if is_nothing(&self.folder) { Ok(()) } else { self.expect_store() }
    }

    fn tell_lost(&self, lost: Option<&str>) {
        if let Some(reason) = lost {
            eprintln!("warning: commits behind the damage of the log were given up: {reason}");
            eprintln!("  where:  {}", self.folder.display());
            eprintln!("  remedy: keep the files *.lost until you know what was in them");
        }
    }
}

/// Whether there is no such folder, or nothing in it.
fn is_nothing(folder: &Path) -> bool {
    match std::fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}
