//! Files that people write: read within bounds, and what is wrong with them told with its line.

use std::io::Read as _;
use std::path::Path;

use quorate_node::config::{Finding, Place};

/// Most bytes of such a file.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The text of a file that is not too long; `remedy` says what to name instead of one that cannot
/// be read.
pub(super) fn read_text(file: &Path, remedy: &str) -> Result<String, Finding> {
    let finding = |what: String, remedy: &str| Finding {
        what,
        place: Place::File(file.to_owned()),
        remedy: remedy.to_owned(),
    };
    let mut text = String::new();
    let read = std::fs::File::open(file)
        .and_then(|opened| opened.take(MAX_FILE_BYTES + 1).read_to_string(&mut text));
    match read {
        Ok(length) if length as u64 <= MAX_FILE_BYTES => Ok(text),
        Ok(_) => Err(finding(
            "the file is larger than 1MiB".to_owned(),
            "this is not what was meant: check the path",
        )),
        Err(error) => Err(finding(format!("the file cannot be read: {error}"), remedy)),
    }
}

/// Where `key` is set first, or the file.
pub(super) fn place_of_key(key: &str, text: &str, file: &Path) -> Place {
    let sets = |line: &&str| {
        let Some((left, _)) = line.split_once('=') else { return false };
        left.trim().split('.').any(|part| part.trim() == key)
    };
    match text.lines().position(|line| sets(&line)) {
        Some(index) => Place::Line { file: file.to_owned(), line: index + 1 },
        None => Place::File(file.to_owned()),
    }
}

/// Where `key` is set in the table `header`, or where that table begins, or the file.
pub(super) fn place_in_table(header: &str, key: &str, text: &str, file: &Path) -> Place {
    let is_header = |line: &str| line.trim().replace('"', "") == header;
    let mut lines = text.lines().enumerate().skip_while(|(_, line)| !is_header(line));
    let Some((begin, _)) = lines.next() else { return place_of_key(key, text, file) };
    let sub = format!("[[{}.", header.trim_matches(['[', ']']));
    let inside = lines.take_while(|(_, line)| {
        let line = line.trim_start();
        !line.starts_with('[') || line.starts_with(&sub)
    });
    let is_key = |line: &str| line.split_once('=').is_some_and(|(left, _)| left.trim() == key);
    let found = inside.filter(|(_, line)| is_key(line)).map(|(index, _)| index).next();
    Place::Line { file: file.to_owned(), line: found.unwrap_or(begin) + 1 }
}

/// What is wrong with a file in which TOML is; `manual` says where its keys are explained.
pub(super) fn finding_of(
    error: &toml::de::Error,
    text: &str,
    file: &Path,
    manual: &str,
) -> Finding {
    let message = error.message().replace('\n', "; ");
    let Some(span) = error.span() else {
        let place = Place::File(file.to_owned());
        return Finding { what: message, place, remedy: format!("complete the file; {manual}") };
    };
    let before = text.as_bytes().get(..span.start).unwrap_or(text.as_bytes());
    let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
    let place = Place::Line { file: file.to_owned(), line };
    let written = text.lines().nth(line - 1).unwrap_or_default();
    let key = written.split('=').next().unwrap_or_default().trim();
    if let Some((unknown, known)) = unknown_field(&message) {
        let near = known.iter().max_by(|a, b| {
            strsim::jaro_winkler(&unknown, a).total_cmp(&strsim::jaro_winkler(&unknown, b))
        });
        let remedy = match near.filter(|near| strsim::jaro_winkler(&unknown, near) > 0.8) {
            Some(near) => format!("did you mean `{near}`? {manual}"),
            None => format!("the keys here are {}; {manual}", known.join(", ")),
        };
        return Finding { what: format!("there is no key `{unknown}`"), place, remedy };
    }
    let what = match key.is_empty() || key.starts_with('[') {
        true => message,
        false => format!("`{key}`: {message}"),
    };
    Finding { what, place, remedy: format!("correct this line; {manual}") }
}

/// The field and the ones that are known, if that is what the message is about.
fn unknown_field(message: &str) -> Option<(String, Vec<String>)> {
    let rest = message.strip_prefix("unknown field ")?;
    let mut quoted = rest.split('`').skip(1).step_by(2).map(str::to_owned);
    Some((quoted.next()?, quoted.collect()))
}
