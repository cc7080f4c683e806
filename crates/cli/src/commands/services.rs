//! Services of other programs, as `quorate testnet init` makes clusters of them.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use quorate_node::config::{Finding, Place};
use quorate_node::testnet::Service;
use serde_json::Value;

use crate::failure::{Exit, Failure};

/// How long a program may take to describe itself.
const DESCRIBED_WITHIN: Duration = Duration::from_secs(10);
/// How often it is looked whether it is done.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Longest description, bytes.
const MOST_BYTES: u64 = 64 << 10;

/// The service of a program, as it describes itself.
pub fn of_program(program: &Path) -> Result<Service, Failure> {
    let program =
        std::path::absolute(program).map_err(|error| refused(program, &error.to_string()))?;
    let about = described(&program).map_err(|trouble| refused(&program, &trouble))?;
    let text = |key: &str| about[key].as_str().map(str::to_owned);
    let (Some(name), Some(agreed), Some(own)) = (text("service"), text("agreed"), text("own"))
    else {
        return Err(refused(&program, "its description lacks `service`, `agreed` or `own`"));
    };
    let agreed = with_name(&name, &agreed)
        .ok_or_else(|| refused(&program, "its description has settings that are no TOML"))?;
    Ok(Service { agreed, own, program: Some(program) })
}

fn with_name(name: &str, agreed: &str) -> Option<String> {
    let mut table: toml::Table = toml::from_str(agreed).ok()?;
    table.insert("name".to_owned(), name.into());
    Some(table.to_string())
}

/// What `PROGRAM describe` prints.
fn described(program: &Path) -> Result<Value, String> {
    let mut child = Command::new(program)
        .arg("describe")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .map_err(|error| format!("it cannot be run: {error}"))?;
    let output = child.stdout.take();
    let reading = std::thread::spawn(move || {
        let mut text = String::new();
        let output = output.map(|output| output.take(MOST_BYTES).read_to_string(&mut text));
        output.and_then(Result::ok).map(|_| text)
    });
    let began = Instant::now();
    let status = loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break status,
            None if began.elapsed() > DESCRIBED_WITHIN => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("it did not describe itself within {DESCRIBED_WITHIN:?}"));
            }
            None => std::thread::sleep(LOOK_EVERY),
        }
    };
    if !status.success() {
        return Err(format!("it does not describe itself: {status}"));
    }
    let text = reading.join().ok().flatten().unwrap_or_default();
    serde_json::from_str(&text).map_err(|error| format!("its description is no JSON: {error}"))
}

/// The service of a process over a pipe.
pub fn of_command(command: &str) -> Result<Service, Failure> {
    let words: Vec<toml::Value> =
        command.split_whitespace().map(|word| absolute(word).into()).collect();
    let Some(last) = words.last().and_then(toml::Value::as_str) else {
        let what = "the command is empty".to_owned();
        return Err(usage(what, "name a program, as in --pipe \"python3 counter.py\"", "--pipe"));
    };
    let stem = Path::new(last).file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let name: String =
        stem.unwrap_or_default().chars().filter(char::is_ascii_alphanumeric).collect();
    let name = if name.is_empty() { "pipe".to_owned() } else { name };
    let own = toml::Table::from_iter([("command".to_owned(), toml::Value::Array(words))]);
    let agreed = with_name(&name, "").unwrap_or_default();
    Ok(Service { agreed, own: own.to_string(), program: None })
}

/// A word that names a file here is for any working directory.
fn absolute(word: &str) -> String {
    let path = PathBuf::from(word);
    match std::path::absolute(&path) {
        Ok(absolute) if path.exists() => absolute.to_string_lossy().into_owned(),
        _ => word.to_owned(),
    }
}

/// The application `service` without a program.
pub fn unnamed() -> Failure {
    let what = "the application \"service\" needs a program".to_owned();
    usage(what, "add --program PATH or --pipe COMMAND instead", "--application")
}

fn usage(what: String, remedy: &str, flag: &str) -> Failure {
    let place = Place::Flag(flag.to_owned());
    Failure::new(Exit::Usage, Finding { what, place, remedy: remedy.to_owned() })
}

fn refused(program: &Path, trouble: &str) -> Failure {
    let what = format!("{} is no program of a service: {trouble}", program.display());
    usage(
        what,
        "name a program built upon quorate_service::Program (docs/own-service.md)",
        "--program",
    )
}
