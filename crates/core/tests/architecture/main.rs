//! The arrows between the wings of the core, and the circles within them.
//!
//! `base` uses nothing, `ledger` uses `base`; a protocol uses these two and the trait of protocols,
//! never another protocol, only what is shared; `replica` and `client` use no concrete protocol,
//! and `client` does not use `replica`.
//! Nothing uses `limits`, which puts together what all the others say of themselves. And in all
//! crates quorums are counted in one place, files are short, and a module's file lies beside its
//! folder.

#![allow(clippy::disallowed_methods, reason = "the sources are read from the disk")]

mod imports;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use imports::{Import, Source, circles, imports};

const SEAM: &str = "protocols::protocol";
/// What several protocols are made of.
const SHARED: &str = "protocols::checkpoint";

fn core() -> Vec<Source> {
    Source::all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"))
}

/// The wing a file is in; each protocol is one of its own.
fn wing(module: &str) -> &str {
    let parts = if module.starts_with("protocols::") { 2 } else { 1 };
    let ends = module.match_indices("::").nth(parts - 1);
    ends.map_or(module, |(at, _)| &module[..at])
}

fn may_use(from: &str, to: &str) -> bool {
    let (from, to) = (wing(from), wing(to));
    let is_protocol = |wing: &str| wing.starts_with("protocols::");
    match from {
        _ if from == to => true,
        // The root and the list of protocols say what there is.
        "" | "limits" | "protocols" => true,
        "base" => false,
        "ledger" => to == "base",
        "replica" => matches!(to, "base" | "ledger" | SEAM),
        "client" => matches!(to, "base" | "ledger" | SEAM),
        SEAM => matches!(to, "base" | "ledger"),
        _ if is_protocol(from) => matches!(to, "base" | "ledger" | SEAM) || to == SHARED,
        _ => false,
    }
}

/// What is imported against the arrows, as `file:line`.
fn violations(sources: &[Source]) -> Vec<String> {
    let mut found = imports(sources);
    found.retain(|Import { from, to, .. }| !may_use(from, to));
    let say = |Import { from, line, to }: Import| {
        format!("src/{}.rs:{line}: {} may not use {to}", from.replace("::", "/"), wing(&from))
    };
    found.into_iter().map(say).collect()
}

#[test]
fn no_wing_uses_one_above_it() {
    let found = violations(&core());
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn an_import_against_the_arrows_is_found() {
    let names = [
        "base",
        "ledger",
        "ledger::frame",
        "protocols",
        SEAM,
        "protocols::one",
        "protocols::two",
        "replica",
        "client",
        "limits",
    ];
    let found = |module: &str, text: &str| {
        let mut sources: Vec<_> = names.iter().map(|name| Source::new(name, "")).collect();
        sources.push(Source::new("", ""));
        sources.push(Source::new(module, text));
        violations(&sources).len()
    };
    for (module, text) in [
        ("base::a", "use crate::ledger::frame::Frame;"),
        ("base::a", "fn f(frame: &crate::ledger::frame::Frame) {}"),
        ("ledger::a", "use crate::{\n    base::B,\n    client::{self as c, D},\n};"),
        ("ledger::a::b", "use super::super::super::replica::Replica;"),
        ("protocols::one::a", "use crate::protocols::two::Two;"),
        ("protocols::one", "use super::two::Two;"),
        ("protocols::protocol::a", "use crate::protocols::one::One;"),
        ("replica::a", "pub use crate::protocols::{protocol::Types, one::One};"),
        ("client::a", "use crate::replica::Replica;"),
        ("client::a", "use crate::protocols::one::One;"),
        ("replica::a", "const LONGEST: usize = crate::limits::LONGEST;"),
    ] {
        assert!(found(module, text) > 0, "{module}: {text}");
    }
    for (module, text) in [
        ("base::a", "// use crate::ledger::frame::Frame;"),
        ("base::a", "#[cfg(test)]\nuse crate::ledger::frame::Frame;"),
        ("protocols::one::a", "use super::One;\nuse crate::protocols::protocol::{self, Types};"),
        ("client::a", "use crate::protocols::protocol::Verifier;"),
        ("limits", "use crate::replica::LONGEST;"),
    ] {
        assert_eq!(found(module, text), 0, "{module}: {text}");
    }
}

/// The files that import each other in a circle: why they do, the file above, those below it.
const CIRCLES: [(&str, &str, &[&str]); 3] = [
    (
        "writing a state down, making it anew and coming back to it see all of it",
        "ledger::execution",
        &["kept", "restoring", "tentative"],
    ),
    (
        "writing the table down sees all of it, and so does a change of who may do what",
        "ledger::sessions",
        &["rights", "snapshot"],
    ),
    (
        "the trait lists the variants that implement it",
        "protocols::hotstuff::rules",
        &["basic", "chained", "fast", "hotstuff_2", "simplified", "two_chain"],
    ),
];

#[test]
fn no_files_import_each_other_but_those_with_a_reason() {
    let found = circles(&imports(&core()));
    for circle in &found {
        println!("{} files: {}", circle.len(), Vec::from_iter(circle.clone()).join(" "));
    }
    let listed = |circle: &BTreeSet<String>| {
        CIRCLES.iter().any(|(_, above, files)| {
            let below = |file: &str| files.contains(&file.rsplit("::").next().unwrap_or_default());
            circle.iter().all(|file| file == above || file.starts_with(above) && below(file))
        })
    };
    let new: Vec<_> = found.iter().filter(|circle| !listed(circle)).collect();
    assert!(new.is_empty(), "new circles: {new:#?}");
}

#[test]
fn a_circle_is_found() {
    let sources = [
        Source::new("a", "mod b;\nuse b::B;"),
        Source::new("a::b", "use crate::c::C;"),
        Source::new("c", "fn f(a: super::a::A) {}"),
        Source::new("d", "use crate::c::C;"),
        Source::new("", ""),
    ];
    let circle: BTreeSet<String> = ["a", "a::b", "c"].map(String::from).into();
    assert_eq!(circles(&imports(&sources)), [circle]);
}

/// Where quorums are counted: the membership, and oracles that share no predicate with it.
const COUNTING: [&str; 3] =
    ["core/src/base/membership/counts.rs", "sim/src/family/two_delay/said.rs", "sim/src/strict.rs"];

/// Whether somebody works out by himself how many may lie.
fn counts(code: &str) -> bool {
    let thirds = code.match_indices("1) / 3");
    thirds.chain(code.match_indices("1) / 5")).any(|(at, found)| {
        !code[at + found.len()..].starts_with(|next: char| next.is_ascii_digit() || next == '_')
    })
}

#[test]
fn quorums_are_counted_in_one_place() {
    assert!(counts("let f = (n - 1) / 3;") && counts("n - n.saturating_sub(1) / 3"));
    assert!(counts("let f = (n - 1) / 5;") && !counts("(micros - 1) / 500"));
    assert!(!counts("(seconds - 1) / 3600") && !counts("name.len() / 3"));
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("beside the others");
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(crates).expect("readable") {
        let path = entry.expect("readable").path();
        if !path.join("src").is_dir() {
            continue;
        }
        let name = path.file_name().expect("a name").to_str().expect("UTF-8");
        for source in Source::all(&path.join("src")) {
            if counts(&source.code) {
                found.insert(format!("{name}/src/{}.rs", source.module.replace("::", "/")));
            }
        }
    }
    assert_eq!(found, COUNTING.map(String::from).into(), "use base::membership");
}

/// What decides who may vote, what commits and what is durable has no bug in it, not even one that
/// is turned off: the simulator decorates it (`sim/src/planted`).
#[test]
fn membership_rules_and_drive_loop_have_no_mutants_in_them() {
    let core = core();
    let pure = ["base::membership", "protocols::hotstuff::rules", "replica::drive"];
    let files = |of: &str| core.iter().filter(|source| source.module.starts_with(of)).collect();
    for of in pure {
        let files: Vec<&Source> = files(of);
        assert!(!files.is_empty(), "{of} is gone");
        for source in files {
            assert!(!source.code.contains("mutant!"), "{}", source.module);
        }
    }
    assert!(core.iter().any(|source| source.code.contains("mutant!")), "elsewhere there are");
}

/// A file of this many lines is split.
const TOO_LONG: usize = 600;

/// All Rust files below `folder`.
fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("readable") {
        let path = entry.expect("readable").path();
        if path.is_dir() && !path.ends_with("target") {
            found.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// `foo.rs` beside `foo/`. What several test programs share lies in `tests/foo/mod.rs`: Cargo would
/// take `tests/foo.rs` for a program of its own.
fn lies_beside_its_folder(path: &Path) -> bool {
    let shared = path.ancestors().nth(2).is_some_and(|folder| folder.ends_with("tests"));
    !path.ends_with("mod.rs") || shared
}

#[test]
fn files_are_short_and_modules_lie_beside_their_folders() {
    assert!(lies_beside_its_folder(Path::new("a/src/b.rs")));
    assert!(lies_beside_its_folder(Path::new("a/tests/b/mod.rs")));
    assert!(!lies_beside_its_folder(Path::new("a/src/b/mod.rs")));
    assert!(!lies_beside_its_folder(Path::new("a/tests/b/c/mod.rs")));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the repository");
    let folders = ["bench", "crates", "examples", "fuzz"];
    let files: Vec<_> = folders.iter().flat_map(|name| rust_files(&root.join(name))).collect();
    assert!(files.len() > 700, "{} files", files.len());
    for path in files {
        let lines = std::fs::read_to_string(&path).expect("UTF-8").lines().count();
        assert!(lines < TOO_LONG, "{} has {lines} lines", path.display());
        assert!(lies_beside_its_folder(&path), "{}", path.display());
    }
}
