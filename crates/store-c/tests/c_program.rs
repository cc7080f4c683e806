//! Tests with C programs, against the header and both libraries: the example, and a program that
//! breaks every rule it may.

use std::path::{Path, PathBuf};
use std::process::Command;

const STATIC: &str = "libquorate_store_c.a";
const SHARED: &str = "libquorate_store_c.so";
/// More compiler flags, separated by spaces. `make sanitize-store` uses it to instrument the
/// programs like the libraries.
const FLAGS: &str = "QUORATE_STORE_C_FLAGS";

/// The folder of the libraries that cargo built for this test.
fn libraries() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().unwrap();
    for name in [STATIC, SHARED] {
        assert!(folder.join(name).is_file(), "{name} is not in {}", folder.display());
    }
    folder.to_owned()
}

/// Compiles a program with warnings as errors, runs it in an empty folder, and returns its output.
#[track_caller]
fn run(source: &str, library: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = folder.path().join("program");
    let flags = std::env::var(FLAGS).unwrap_or_default();
    let compiled = Command::new("cc")
        .args(flags.split_whitespace())
        .args(["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-I"])
        .arg(here)
        .arg(here.join(source))
        .arg(libraries().join(library))
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&program)
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let ran = Command::new(&program)
        .current_dir(folder.path())
        .env("LD_LIBRARY_PATH", libraries())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{source} with {library}: {:?} {errors}", ran.status);
    String::from_utf8(ran.stdout).unwrap()
}

#[test]
fn the_example_runs_with_both_libraries() {
    let expected = "planet = Uranus\n\
                    in the snapshot: Uranus, now: Neptune\n\
                    2 items, in the order of hashes\n\
                    the folder in use: a second opening was refused\n";
    for library in [STATIC, SHARED] {
        assert_eq!(run("../../examples/c/planets.c", library), expected);
    }
}

#[test]
fn rules_hold_in_c() {
    assert_eq!(run("tests/rules.c", STATIC), "all rules hold\n");
}
