//! Tests of SIGBUS in a real process: the signal ends it. On request it prints file, offset and
//! remedy.

use crate::random::small_options;
use quorate_store::disk::explain_bus_errors;
use quorate_store::lazy_trie::Store;
use std::fs::OpenOptions;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

/// The folder; set for the process that is about to end.
const FOLDER: &str = "QUORATE_STORE_BUS_ERROR";
/// Set if it is to explain the signal.
const EXPLAINED: &str = "QUORATE_STORE_BUS_ERROR_EXPLAINED";
const SIGBUS: i32 = 7;
const REGION: &str = "000000.space";
/// The length of the shortened region, in bytes.
const LEFT: u64 = 8192;

/// Reads a store whose region was shortened by another program.
#[test]
fn victim() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let folder = Path::new(&folder);
    if std::env::var_os(EXPLAINED).is_some() {
        explain_bus_errors().unwrap();
        explain_bus_errors().unwrap();
    }
    let (store, _) = Store::open(folder, small_options()).unwrap();
    OpenOptions::new().write(true).open(folder.join(REGION)).unwrap().set_len(LEFT).unwrap();
    let found = store.snapshot().unwrap().iter().filter(Result::is_ok).count();
    println!("\n{found} items in a file that is not there");
}

fn begin(folder: &Path) {
    let (store, _) = Store::open(folder, small_options()).unwrap();
    for number in 0..200u32 {
        store.put(&number.to_le_bytes(), &[1; 100]).unwrap();
    }
    store.checkpoint().unwrap();
}

fn command(folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["bus_error::victim", "--exact", "--nocapture", "--test-threads=1"]);
    command.env(FOLDER, folder);
    command
}

#[test]
fn a_shortened_region_is_named_with_offset_and_remedy() {
    let folder = tempfile::tempdir().unwrap();
    begin(folder.path());
    let output = command(folder.path()).env(EXPLAINED, "1").output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.signal(), Some(SIGBUS), "{told}");
    let folder = folder.path().canonicalize().unwrap();
    let begin = format!("error: SIGBUS: cannot read {}/{REGION} at offset ", folder.display());
    let line = told.lines().find_map(|line| line.strip_prefix(&begin)).expect(&told);
    let (offset, rest) = line.split_once(": ").unwrap();
    let offset: u64 = offset.parse().unwrap();
    assert!((LEFT..64 << 10).contains(&offset), "{line}");
    let expected = format!(
        "the file was shortened to {LEFT} bytes while it was open; restore the file from a copy, \
         then verify it: quorate store check {}",
        folder.display()
    );
    assert_eq!(rest, expected);
}

#[test]
fn nothing_is_installed_unasked() {
    let folder = tempfile::tempdir().unwrap();
    begin(folder.path());
    let output = command(folder.path()).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.signal(), Some(SIGBUS), "{told}");
    assert!(!told.contains("SIGBUS"), "{told}");
}
