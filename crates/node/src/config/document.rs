//! A TOML file against its schema: settings, or all that is wrong with it.

use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::finding::{Finding, Place};
use super::schema::{Field, Kind, List, Preset, Schema, Settings, Value};

/// Most bytes of a configuration file: room for the largest committee, many times.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// What a file says.
#[derive(Debug)]
pub(super) struct Document {
    pub settings: Settings,
    /// The elements of the schema's list, each with the place of its head.
    pub list: Vec<(Place, Settings)>,
}

/// Reads `file`. What is wrong goes to `findings`; what could be read is returned nevertheless,
/// so that more can be checked.
pub(super) fn read(
    file: &Path,
    schema: &'static Schema,
    findings: &mut Vec<Finding>,
) -> Option<Document> {
    match read_text(file) {
        Ok(text) => parse(file, &text, schema, findings),
        Err(finding) => {
            findings.push(finding);
            None
        }
    }
}

fn read_text(file: &Path) -> Result<String, Finding> {
    use std::io::Read;
    let place = || Place::File(file.to_owned());
    let mut text = String::new();
    let read = std::fs::File::open(file)
        .and_then(|opened| opened.take(MAX_FILE_BYTES + 1).read_to_string(&mut text));
    match read {
        Ok(length) if length as u64 <= MAX_FILE_BYTES => Ok(text),
        Ok(_) => {
            let what = "the file is larger than 1MiB";
            Err(Finding::new(what, place(), "this is no configuration file: check the path"))
        }
        Err(error) => Err(Finding::new(
            format!("the file cannot be read: {error}"),
            place(),
            "check the path; that of a home is --home (or QUORATE_HOME), and `quorate testnet init` makes homes",
        )),
    }
}

/// Reads `text` as the content of `file`.
pub(super) fn parse(
    file: &Path,
    text: &str,
    schema: &'static Schema,
    findings: &mut Vec<Finding>,
) -> Option<Document> {
    let mut walk = Walk { file: file.to_owned(), text, schema, findings };
    match DeTable::parse(text) {
        Ok(root) => Some(walk.document(root.get_ref())),
        Err(error) => {
            walk.syntax(&error);
            None
        }
    }
}

struct Walk<'a> {
    file: PathBuf,
    text: &'a str,
    schema: &'static Schema,
    findings: &'a mut Vec<Finding>,
}

impl Walk<'_> {
    fn document(&mut self, root: &DeTable<'_>) -> Document {
        let mut settings = Settings::default();
        let mut list = Vec::new();
        let schema = self.schema;
        self.table(root, "", schema.fields, &mut settings, &mut list);
        if let Some(of) = &schema.list
            && list.is_empty()
            && !root.contains_key(of.name)
        {
            let what = format!("there is no `[[{}]]`", of.name);
            self.findings.push(Finding::new(
                what,
                Place::File(self.file.clone()),
                "add one such table for each member of the committee",
            ));
        }
        Document { settings, list }
    }

    fn table(
        &mut self,
        table: &DeTable<'_>,
        prefix: &str,
        fields: &'static [Field],
        settings: &mut Settings,
        list: &mut Vec<(Place, Settings)>,
    ) {
        for (key, value) in table {
            let place = self.place(key.span());
            let path = format!("{prefix}{}", key.get_ref());
            let inner = format!("{path}.");
            if let Some(field) = fields.iter().find(|field| field.key == path) {
                self.value(field, &path, value, place, settings);
            } else if let Some(of) = self.list_named(&path) {
                self.elements(of, value, place, list);
            } else if fields.iter().any(|field| field.key.starts_with(&inner)) {
                match value.get_ref() {
                    DeValue::Table(table) => self.table(table, &inner, fields, settings, list),
                    _ => self.not_a_table(&path, value, place, fields),
                }
            } else {
                let extra = self.schema.list.as_ref().map(|of| of.name);
                self.findings.push(unknown_key(&path, place, fields, extra));
                refuse_nearest(&path, fields, settings);
            }
        }
    }

    fn list_named(&self, path: &str) -> Option<&'static List> {
        self.schema.list.as_ref().filter(|of| of.name == path)
    }

    fn value(
        &mut self,
        field: &Field,
        path: &str,
        value: &Spanned<DeValue<'_>>,
        place: Place,
        settings: &mut Settings,
    ) {
        let value_of = |value| match field.kind {
            Kind::Table => self.table_of(field),
            kind => value_of(&kind, value),
        };
        match value_of(value.get_ref()) {
            Some(value) => settings.set(field.key, value, place),
            None => {
                let found = self.found(value);
                let text = match value.get_ref() {
                    DeValue::String(text) => Some(text.as_ref()),
                    _ => None,
                };
                self.findings.push(wrong_value(path, &found, text, &field.kind, place));
                settings.refuse(field.key);
            }
        }
    }

    /// A table whose keys are not the schema's. It stands at the root.
    fn table_of(&self, field: &Field) -> Option<Value> {
        let mut root: toml::Table = toml::from_str(self.text).ok()?;
        match root.remove(field.key)? {
            toml::Value::Table(table) => Some(Value::Table(table.to_string())),
            _ => None,
        }
    }

    fn elements(
        &mut self,
        of: &'static List,
        value: &Spanned<DeValue<'_>>,
        place: Place,
        list: &mut Vec<(Place, Settings)>,
    ) {
        let DeValue::Array(elements) = value.get_ref() else {
            let what = format!("`{}` is {}", of.name, self.found(value));
            let remedy = format!("write one `[[{}]]` table for each", of.name);
            return self.findings.push(Finding::new(what, place, remedy));
        };
        for element in elements.iter() {
            let place = self.place(element.span());
            let DeValue::Table(table) = element.get_ref() else {
                let what = format!("an element of `{}` is {}", of.name, self.found(element));
                let remedy = format!("write it as a `[[{}]]` table", of.name);
                self.findings.push(Finding::new(what, place, remedy));
                continue;
            };
            let mut settings = Settings::default();
            for (key, value) in table {
                let place = self.place(key.span());
                let path = format!("{}.{}", of.name, key.get_ref());
                match of.fields.iter().find(|field| field.key == key.get_ref()) {
                    Some(field) => self.value(field, &path, value, place, &mut settings),
                    None => {
                        self.findings.push(unknown_element_key(of, key.get_ref(), place));
                        refuse_nearest(key.get_ref(), of.fields, &mut settings);
                    }
                }
            }
            report_missing(&settings, of.fields, of.name, &place, self.findings);
            list.push((place, settings));
        }
    }

    fn not_a_table(
        &mut self,
        path: &str,
        value: &Spanned<DeValue<'_>>,
        place: Place,
        fields: &[Field],
    ) {
        let what = format!("`{path}` is {}", self.found(value));
        let keys = keys_in(path, fields);
        let remedy = format!("expected a table [{path}] with the keys {keys}");
        self.findings.push(Finding::new(what, place, remedy));
    }

    fn syntax(&mut self, error: &toml::de::Error) {
        let place = match error.span() {
            Some(span) => self.place(span),
            None => Place::File(self.file.clone()),
        };
        let message = error.message().replace('\n', "; ");
        let near = error.span().and_then(|span| self.text.get(span)).map(first_line);
        let (what, remedy) = match near {
            Some(key) if message == "duplicate key" => {
                (format!("`{key}` is set twice"), "remove one of the two")
            }
            _ => (format!("the file is not valid TOML: {message}"), "correct this line"),
        };
        self.findings.push(Finding::new(what, place, remedy));
    }

    /// The value as the file writes it, shortened.
    fn found(&self, value: &Spanned<DeValue<'_>>) -> String {
        let text = self.text.get(value.span()).map(first_line).unwrap_or_default();
        match value.get_ref() {
            DeValue::Table(_) => "a table".to_owned(),
            DeValue::Array(_) => "an array".to_owned(),
            DeValue::String(_) if !text.starts_with(['"', '\'']) => "a string".to_owned(),
            _ => shorten(text),
        }
    }

    fn place(&self, span: Range<usize>) -> Place {
        let before = self.text.as_bytes().get(..span.start).unwrap_or(self.text.as_bytes());
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        Place::Line { file: self.file.clone(), line }
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn value_of(kind: &Kind, value: &DeValue<'_>) -> Option<Value> {
    match value {
        DeValue::String(text) if kind.is_string() => kind.parse(text),
        DeValue::Integer(n) if !kind.is_string() => {
            let n = u64::from_str_radix(n.as_str(), n.radix()).ok()?;
            kind.parse(&n.to_string())
        }
        DeValue::Boolean(value) if matches!(kind, Kind::Bool) => Some(Value::Bool(*value)),
        DeValue::Array(keys) if matches!(kind, Kind::Keys(_)) && !keys.is_empty() => {
            let texts = keys.iter().map(|key| match key.get_ref() {
                DeValue::String(text) => Some(text.to_string()),
                _ => None,
            });
            kind.parse(&texts.collect::<Option<Vec<_>>>()?.join(","))
        }
        DeValue::Float(n) if matches!(kind, Kind::Ratio { .. }) => kind.parse(n.as_str()),
        _ => None,
    }
}

/// What is wrong when `found` stands where `kind` is expected; `text` is all of it, if it is one.
pub(super) fn wrong_value(
    key: &str,
    found: &str,
    text: Option<&str>,
    kind: &Kind,
    place: Place,
) -> Finding {
    let trouble = text.and_then(|text| kind.trouble(text));
    let trouble = trouble.map_or_else(String::new, |trouble| format!(": {trouble}"));
    Finding::new(format!("`{key}` is {found}{trouble}"), place, format!("expected {kind}"))
}

/// Adds a finding for each required field that nobody tried to set.
pub(super) fn report_missing(
    settings: &Settings,
    fields: &'static [Field],
    of: &str,
    place: &Place,
    findings: &mut Vec<Finding>,
) {
    for field in fields {
        if field.preset == Preset::Required && !settings.mentions(field.key) {
            let dot = if of.is_empty() { "" } else { "." };
            let what = format!("`{of}{dot}{}` is missing", field.key);
            let remedy = format!("add it: expected {}", field.kind);
            findings.push(Finding::new(what, place.clone(), remedy));
        }
    }
}

/// What is wrong when `path` is no key: names the nearest one, or all of its table.
pub(super) fn unknown_key(
    path: &str,
    place: Place,
    fields: &[Field],
    extra: Option<&str>,
) -> Finding {
    let keys = fields.iter().map(|field| field.key).chain(extra);
    let tables = fields.iter().filter_map(|field| Some(field.key.rsplit_once('.')?.0));
    let remedy = match nearest(path, keys.chain(tables)) {
        Some(key) => format!("did you mean `{key}`?"),
        None => {
            let table = path.rsplit_once('.').map_or("", |(table, _)| table);
            let here = keys_in(table, fields);
            match here.is_empty() {
                false => format!("remove it; the keys here are {here}"),
                true => {
                    let all: Vec<_> = fields.iter().map(|field| field.key).collect();
                    format!(
                        "remove it; there is no table `{}`; the keys are {}",
                        table.escape_debug(),
                        all.join(", ")
                    )
                }
            }
        }
    };
    // A quoted key may hold line breaks, and more.
    Finding::new(format!("unknown key `{}`", path.escape_debug()), place, remedy)
}

/// What an unknown key was probably meant to be is not called missing as well.
fn refuse_nearest(path: &str, fields: &'static [Field], settings: &mut Settings) {
    if let Some(key) = nearest(path, fields.iter().map(|field| field.key)) {
        settings.refuse(key);
    }
}

fn unknown_element_key(of: &List, key: &str, place: Place) -> Finding {
    let remedy = match nearest(key, of.fields.iter().map(|field| field.key)) {
        Some(key) => format!("did you mean `{key}`?"),
        None => {
            let keys: Vec<_> = of.fields.iter().map(|field| field.key).collect();
            format!("remove it; the keys here are {}", keys.join(", "))
        }
    };
    Finding::new(format!("unknown key `{}.{}`", of.name, key.escape_debug()), place, remedy)
}

/// The name that `path` was probably meant to be: few letters away, or in another table.
pub(super) fn nearest<'a>(
    path: &str,
    names: impl Iterator<Item = &'a str> + Clone,
) -> Option<&'a str> {
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    let within = |name: &&str| {
        let allowed = (name.len() / 3).clamp(1, 4);
        strsim::damerau_levenshtein(path, name) <= allowed
    };
    names
        .clone()
        .filter(within)
        .min_by_key(|name| strsim::damerau_levenshtein(path, name))
        .or_else(|| names.clone().find(|name| last(name) == last(path)))
}

/// The keys of a table (`""`: of the root, tables in brackets).
fn keys_in(table: &str, fields: &[Field]) -> String {
    let mut keys: Vec<String> = Vec::new();
    for field in fields {
        let (of, key) = field.key.rsplit_once('.').unwrap_or(("", field.key));
        let name = match (of == table, table.is_empty()) {
            (true, _) if matches!(field.kind, Kind::Table) => format!("[{key}]"),
            (true, _) => key.to_owned(),
            (false, true) => format!("[{of}]"),
            (false, false) => continue,
        };
        if !keys.contains(&name) {
            keys.push(name);
        }
    }
    keys.join(", ")
}
