//! The imports of a crate's files, read from the text: which file names which, and where.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A file of the crate.
pub struct Source {
    /// The place of its module: `replica::message`; `lib.rs` has the empty one.
    pub module: String,
    /// Its code, without comments and without what is for tests alone.
    pub code: String,
}

/// One file names an item of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// The file that names it.
    pub from: String,
    /// The line.
    pub line: usize,
    /// The file that has the item, or exports it.
    pub to: String,
}

impl Source {
    /// The file of `module` with this text.
    pub fn new(module: &str, text: &str) -> Self {
        let mut code = Vec::new();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if !line.starts_with("#[cfg(test)]") {
                code.push(line.split("//").next().unwrap_or_default());
            } else if lines.next().is_some_and(|item| item.ends_with(';')) {
                // Two lines that keep their numbers.
                code.extend(["", ""]);
            } else {
                break;
            }
        }
        Self { module: module.into(), code: code.join("\n") }
    }

    /// All files below `root`, without `tests.rs`.
    pub fn all(root: &Path) -> Vec<Self> {
        let mut found = Vec::new();
        read(root, "", &mut found);
        found.sort_by(|one, other| one.module.cmp(&other.module));
        found
    }
}

fn read(folder: &Path, module: &str, found: &mut Vec<Source>) {
    for entry in fs::read_dir(folder).expect("the sources are there") {
        let path = entry.expect("readable").path();
        let name = path.file_stem().expect("a name").to_str().expect("UTF-8");
        let own = if module.is_empty() { name.into() } else { format!("{module}::{name}") };
        if path.is_dir() {
            read(&path, &own, found);
        } else if name != "tests" {
            let own = if own == "lib" { "" } else { &own };
            found.push(Source::new(own, &fs::read_to_string(&path).expect("UTF-8")));
        }
    }
}

/// Every path from one of the files into another.
pub fn imports(sources: &[Source]) -> Vec<Import> {
    let modules = sources.iter().map(|source| source.module.as_str()).collect();
    sources.iter().flat_map(|source| of(source, &modules)).collect()
}

fn of(source: &Source, modules: &BTreeSet<&str>) -> Vec<Import> {
    let words = words(&source.code);
    let mut found = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let begins = at == 0 || words[at - 1].1 != "::";
        let (line, word) = words[at];
        at += 1;
        let child = join(&source.module, word);
        let prefix = match word {
            "crate" => String::new(),
            "self" => source.module.clone(),
            "super" => parent(&source.module),
            _ if modules.contains(child.as_str()) => child,
            _ => continue,
        };
        if begins && words.get(at).is_some_and(|(_, word)| *word == "::") {
            at += 1;
            let mut paths = Vec::new();
            tree(&words, &mut at, prefix, &mut paths);
            let files = paths.iter().map(|path| file_of(path, modules));
            let others = files.filter(|to| *to != source.module);
            found.extend(others.map(|to| Import { from: source.module.clone(), line, to }));
        }
    }
    found
}

/// Identifiers and signs, each with its line.
fn words(code: &str) -> Vec<(usize, &str)> {
    let mut words = Vec::new();
    for (line, text) in code.lines().enumerate() {
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let named = |c: char| c.is_alphanumeric() || c == '_';
            let length = match first {
                ':' if rest.starts_with("::") => 2,
                c if named(c) => rest.find(|c| !named(c)).unwrap_or(rest.len()),
                c => c.len_utf8(),
            };
            if !first.is_whitespace() {
                words.push((line + 1, &rest[..length]));
            }
            rest = &rest[length..];
        }
    }
    words
}

/// The paths that begin with `prefix` and go on at `at`: one, or those of a group in braces.
fn tree(words: &[(usize, &str)], at: &mut usize, prefix: String, paths: &mut Vec<String>) {
    let Some((_, word)) = words.get(*at) else { return };
    *at += 1;
    if *word == "{" {
        while words.get(*at).is_some_and(|(_, word)| *word != "}") {
            if words[*at].1 == "," {
                *at += 1;
            } else {
                tree(words, at, prefix.clone(), paths);
                // What follows `as`.
                while words.get(*at).is_some_and(|(_, word)| !matches!(*word, "," | "}")) {
                    *at += 1;
                }
            }
        }
        *at += 1;
        return;
    }
    let path = if *word == "super" { parent(&prefix) } else { join(&prefix, word) };
    if words.get(*at).is_some_and(|(_, word)| *word == "::") {
        *at += 1;
        tree(words, at, path, paths);
    } else {
        paths.push(path);
    }
}

fn join(module: &str, name: &str) -> String {
    if module.is_empty() { name.into() } else { format!("{module}::{name}") }
}

fn parent(module: &str) -> String {
    module.rsplit_once("::").map_or("", |(parent, _)| parent).into()
}

/// The file that a path leads to: its longest part that is one.
fn file_of(path: &str, modules: &BTreeSet<&str>) -> String {
    let mut path = path.to_string();
    while !modules.contains(path.as_str()) {
        path = parent(&path);
    }
    path
}

/// The circles: sets of files each of which leads to all others of its set. Each ascending.
pub fn circles(imports: &[Import]) -> Vec<BTreeSet<String>> {
    let mut next: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for import in imports {
        next.entry(&import.from).or_default().insert(&import.to);
    }
    let reached = |from: &str| {
        let mut reached: BTreeSet<String> = BTreeSet::new();
        let mut open = vec![from];
        while let Some(file) = open.pop() {
            for to in next.get(file).into_iter().flatten() {
                if reached.insert((*to).into()) {
                    open.push(to);
                }
            }
        }
        reached
    };
    let all: BTreeMap<&str, BTreeSet<String>> =
        next.keys().map(|from| (*from, reached(from))).collect();
    let mut found = BTreeSet::new();
    for (file, reached) in &all {
        let back = |other: &&String| all.get(other.as_str()).is_some_and(|r| r.contains(*file));
        let circle: BTreeSet<String> = reached.iter().filter(back).cloned().collect();
        if circle.len() > 1 {
            found.insert(circle);
        }
    }
    found.into_iter().collect()
}
