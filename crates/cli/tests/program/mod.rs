//! The real binary, run in a folder, without settings of whoever runs the tests. (No test file
//! needs all of this.)
#![allow(dead_code)]

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

pub fn command(folder: &Path, arguments: &[&str]) -> Command {
    command_of(env!("CARGO_BIN_EXE_quorate"), folder, arguments)
}

/// Another program in its place.
pub fn command_of(program: &str, folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("QUORATE_")) {
        command.env_remove(name);
    }
    command.current_dir(folder).args(arguments).stdin(Stdio::null());
    command
}

pub fn quorate(folder: &Path, arguments: &[&str]) -> Output {
    command(folder, arguments).output().unwrap()
}

pub fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

pub fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What it printed as JSON.
pub fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Writes a study to `s.toml`.
pub fn write_study(folder: &Path, study: &str) {
    let text = format!("name = \"s\"\ntitle = \"A study\"\n{study}");
    std::fs::write(folder.join("s.toml"), text).unwrap();
}

/// The rows of what came of it so far. A row without its end is being written.
pub fn rows(folder: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join("results/s/runs.jsonl")).unwrap_or_default();
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    whole.map(|line| serde_json::from_str(line).unwrap()).collect()
}
