//! What keys a configuration file may have: their kinds, limits, defaults and explanations.
//!
//! One table a file is the single source of all of these; nothing about a key is said twice.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use quorate_core::Digest;
use quorate_core::base::crypto::PublicKey;
use quorate_core::base::membership::Rules;

use super::finding::Place;
use super::quantity::{ByteSize, Endpoint, HostPort, HumanDuration};
use super::service::canonical_table;
use crate::adversary::{self, Schedule};

/// The keys of a file.
#[derive(Debug)]
pub struct Schema {
    /// The comment at the head of a generated file, its lines without `#`.
    pub title: &'static str,
    /// The tables' explanations: name and comment.
    pub tables: &'static [(&'static str, &'static str)],
    /// The keys, in the order in which a file is written.
    pub fields: &'static [Field],
    /// The one array of tables, if there is one.
    pub list: Option<List>,
}

/// An array of tables.
#[derive(Debug)]
pub struct List {
    /// Its name.
    pub name: &'static str,
    /// Its comment.
    pub comment: &'static str,
    /// The keys of each element.
    pub fields: &'static [Field],
}

/// One key.
#[derive(Debug)]
pub struct Field {
    /// The key, behind its table: `view_timeout.base`.
    pub key: &'static str,
    /// What it may be.
    pub kind: Kind,
    /// What it is when nobody sets it.
    pub preset: Preset,
    /// What it is for, in lines.
    pub comment: &'static str,
}

/// What a key is when nobody sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// It must be set.
    Required,
    /// It may be left out, and then there is none.
    Absent,
    /// Taken from elsewhere; says where.
    Inherited(&'static str),
    /// This, as the environment would spell it.
    Is(&'static str),
}

/// The type and limits of a key. Limits are inclusive.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A whole number.
    Integer {
        /// The least.
        min: u64,
        /// The most.
        max: u64,
    },
    /// A number.
    Ratio {
        /// The least.
        min: f64,
        /// The most.
        max: f64,
    },
    /// A span of time.
    Duration {
        /// The least.
        min: Duration,
        /// The most.
        max: Duration,
    },
    /// A number of bytes.
    Size {
        /// The least.
        min: u64,
        /// The most.
        max: u64,
    },
    /// True or false.
    Bool,
    /// One of some names.
    Choice(&'static [&'static str]),
    /// 1 to 64 letters, digits, `-`, `_`, `.`.
    Name,
    /// Bytes in hexadecimal, as many as one of these numbers.
    Hex(&'static [usize]),
    /// Bytes in hexadecimal, at least one and at most so many.
    Bytes(usize),
    /// Ed25519 public keys in hexadecimal, each 32 bytes, at most so many.
    Keys(usize),
    /// Where to connect: a host and a port above 0.
    Peer,
    /// Where to listen: a host and a port, 0 for any free one.
    Listen,
    /// Where a program takes requests: an [`Endpoint`].
    Endpoint,
    /// A path of the file system.
    Path,
    /// Adversaries and when they act, or none.
    Adversary,
    /// The rules that an epoch executes by.
    Rules,
    /// A whole table, whose keys are not this schema's. A schema has its tables last.
    Table,
}

/// What stands where there is no adversary.
pub const NO_ADVERSARY: &str = "none";

/// A value of a [`Kind`].
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Of [`Kind::Integer`].
    Integer(u64),
    /// Of [`Kind::Ratio`].
    Ratio(f64),
    /// Of [`Kind::Duration`].
    Duration(HumanDuration),
    /// Of [`Kind::Size`].
    Size(ByteSize),
    /// Of [`Kind::Bool`].
    Bool(bool),
    /// Of [`Kind::Choice`], [`Kind::Name`], [`Kind::Endpoint`], [`Kind::Adversary`],
    /// [`Kind::Rules`].
    Text(String),
    /// Of [`Kind::Hex`], [`Kind::Bytes`].
    Hex(Vec<u8>),
    /// Of [`Kind::Keys`].
    Keys(Vec<PublicKey>),
    /// Of [`Kind::Peer`], [`Kind::Listen`].
    Address(HostPort),
    /// Of [`Kind::Path`].
    Path(PathBuf),
    /// Of [`Kind::Table`]: its keys, sorted, as TOML.
    Table(String),
}

impl Kind {
    /// Reads a value as flags and the environment spell it, and as strings in files do. `None`:
    /// it is no value of this kind, or outside its limits.
    #[must_use]
    pub fn parse(&self, text: &str) -> Option<Value> {
        match *self {
            Self::Integer { min, max } => {
                text.parse().ok().filter(|n| (min..=max).contains(n)).map(Value::Integer)
            }
            Self::Ratio { min, max } => {
                text.parse().ok().filter(|n| (min..=max).contains(n)).map(Value::Ratio)
            }
            Self::Duration { min, max } => text
                .parse()
                .ok()
                .filter(|HumanDuration(span)| (min..=max).contains(span))
                .map(Value::Duration),
            Self::Size { min, max } => text
                .parse()
                .ok()
                .filter(|ByteSize(bytes)| (min..=max).contains(bytes))
                .map(Value::Size),
            Self::Bool => text.parse().ok().map(Value::Bool),
            Self::Choice(names) => names.contains(&text).then(|| Value::Text(text.to_owned())),
            Self::Name => is_name(text).then(|| Value::Text(text.to_owned())),
            Self::Hex(lengths) => hex(text, lengths).map(Value::Hex),
            Self::Bytes(most) => {
                let bytes = text.len() / 2;
                (1..=most).contains(&bytes).then(|| hex(text, &[bytes]))?.map(Value::Hex)
            }
            Self::Keys(most) => {
                let keys = text.split(',').map(|key| hex(key.trim(), &[32])?.try_into().ok());
                let keys = keys.map(|key| key.map(PublicKey)).collect::<Option<Vec<_>>>()?;
                (keys.len() <= most).then_some(Value::Keys(keys))
            }
            Self::Peer => text.parse().ok().filter(|a: &HostPort| a.port() > 0).map(Value::Address),
            Self::Listen => text.parse().ok().map(Value::Address),
            Self::Endpoint => {
                text.parse::<Endpoint>().ok().map(|endpoint| Value::Text(endpoint.to_string()))
            }
            Self::Path => {
                (!text.is_empty() && !text.contains('\0')).then(|| Value::Path(text.into()))
            }
            Self::Adversary => {
                let is_one = text == NO_ADVERSARY || text.parse::<Schedule>().is_ok();
                is_one.then(|| Value::Text(text.to_owned()))
            }
            Self::Rules => text.parse::<Rules>().ok().map(|rules| Value::Text(rules.to_string())),
            Self::Table => canonical_table(text).map(Value::Table),
        }
    }

    /// What exactly is wrong with a text that is no value of this kind, where more can be said than
    /// what is expected.
    #[must_use]
    pub fn trouble(&self, text: &str) -> Option<String> {
        match self {
            Self::Adversary => text.parse::<Schedule>().err().map(|error| error.to_string()),
            _ => None,
        }
    }

    /// Whether a file writes values of this kind as strings.
    #[must_use]
    pub fn is_string(&self) -> bool {
        !matches!(self, Self::Integer { .. } | Self::Ratio { .. } | Self::Bool | Self::Table)
    }
}

/// What is expected, to be read behind "expected".
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer { min, max } => write!(f, "a whole number from {min} to {max}"),
            Self::Ratio { min, max } => write!(f, "a number from {min:?} to {max:?}"),
            Self::Duration { min, max } => {
                let (min, max) = (HumanDuration(*min), HumanDuration(*max));
                write!(f, "a duration from {min} to {max}, such as \"250ms\"")
            }
            Self::Size { min, max } => {
                let (min, max) = (ByteSize(*min), ByteSize(*max));
                write!(f, "a size from {min} to {max}, such as \"64MiB\"")
            }
            Self::Bool => f.write_str("true or false"),
            Self::Choice(names) => {
                f.write_str("one of ")?;
                write_quoted(f, names)
            }
            Self::Name => f.write_str("a name of 1 to 64 letters, digits, '-', '_' or '.'"),
            Self::Hex(lengths) => {
                let digits: Vec<_> = lengths.iter().map(|bytes| 2 * bytes).collect();
                write_any(f, &digits)?;
                f.write_str(" hexadecimal digits (")?;
                write_any(f, lengths)?;
                f.write_str(" bytes)")
            }
            Self::Bytes(most) => {
                write!(f, "an even number of hexadecimal digits, at most {}", 2 * most)
            }
            Self::Keys(most) => write!(
                f,
                "a list of 1 to {most} keys of 64 hexadecimal digits each, such as [\"6b1f…\"]"
            ),
            Self::Peer => f.write_str("a host and a port above 0, such as \"127.0.0.1:7000\""),
            Self::Listen => {
                f.write_str("a host and a port, such as \"127.0.0.1:7000\" (port 0: any free one)")
            }
            Self::Endpoint => f.write_str(
                "http:// or https://, a host and a port above 0, such as \"https://127.0.0.1:4318\"",
            ),
            Self::Path => f.write_str("a path; relative ones start at the home"),
            Self::Adversary => f.write_str(&adversary::expected()),
            Self::Rules => {
                f.write_str("rules of core and application, both from 1, such as \"1.2\"")
            }
            Self::Table => f.write_str("a table"),
        }
    }
}

fn write_quoted(f: &mut fmt::Formatter<'_>, names: &[&str]) -> fmt::Result {
    for (index, name) in names.iter().enumerate() {
        let comma = if index > 0 { ", " } else { "" };
        write!(f, "{comma}\"{name}\"")?;
    }
    Ok(())
}

/// Numbers, as in "32, 33 or 96".
fn write_any(f: &mut fmt::Formatter<'_>, numbers: &[usize]) -> fmt::Result {
    for (index, number) in numbers.iter().enumerate() {
        let between = match (index, numbers.len() - index) {
            (0, _) => "",
            (_, 1) => " or ",
            _ => ", ",
        };
        write!(f, "{between}{number}")?;
    }
    Ok(())
}

/// Whether a text is a value of [`Kind::Name`].
#[must_use]
pub fn is_name(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

fn hex(text: &str, lengths: &[usize]) -> Option<Vec<u8>> {
    let (pairs, odd) = text.as_bytes().as_chunks::<2>();
    if !odd.is_empty() || !lengths.contains(&pairs.len()) {
        return None;
    }
    let digit = |digit: u8| Some(char::from(digit).to_digit(16)? as u8);
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

impl Value {
    /// The value as a TOML file writes it.
    #[must_use]
    pub fn to_toml(&self) -> String {
        match self {
            Self::Integer(_) | Self::Ratio(_) | Self::Bool(_) | Self::Table(_) => self.to_string(),
            Self::Keys(keys) => {
                let quoted = keys.iter().map(|key| format!("\"{}\"", Digest(key.0)));
                format!("[{}]", quoted.collect::<Vec<_>>().join(", "))
            }
            _ => toml::Value::String(self.to_string()).to_string(),
        }
    }
}

/// The value as the environment spells it; [`Kind::parse`] reads it back.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(n) => write!(f, "{n}"),
            Self::Ratio(n) => write!(f, "{n:?}"),
            Self::Duration(span) => span.fmt(f),
            Self::Size(size) => size.fmt(f),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Text(text) => f.write_str(text),
            Self::Hex(bytes) => bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
            Self::Keys(keys) => {
                let keys = keys.iter().map(|key| Digest(key.0).to_string());
                f.write_str(&keys.collect::<Vec<_>>().join(","))
            }
            Self::Address(address) => address.fmt(f),
            Self::Path(path) => path.display().fmt(f),
            Self::Table(keys) => f.write_str(keys),
        }
    }
}

/// A value and where it comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// The value.
    pub value: Value,
    /// Who set it.
    pub source: Place,
}

/// Settings by key. Those that a file needs are there: who reads checks first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    by_key: BTreeMap<&'static str, Setting>,
    refused: Vec<&'static str>,
}

impl Settings {
    /// The setting of `key`, if there is one.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Setting> {
        self.by_key.get(key)
    }

    /// All settings, by their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Setting)> {
        self.by_key.iter().map(|(key, setting)| (*key, setting))
    }

    /// Sets `key`.
    pub fn set(&mut self, key: &'static str, value: Value, source: Place) {
        self.by_key.insert(key, Setting { value, source });
    }

    /// Notes that `key` was given a value that it cannot have.
    pub fn refuse(&mut self, key: &'static str) {
        self.refused.push(key);
    }

    /// Whether `key` was given a value, be it one it cannot have.
    #[must_use]
    pub fn mentions(&self, key: &str) -> bool {
        self.by_key.contains_key(key) || self.refused.contains(&key)
    }

    /// Where the value of `key` comes from.
    #[must_use]
    pub fn source(&self, key: &str) -> Place {
        self.get(key).map_or(Place::Default, |setting| setting.source.clone())
    }

    /// Fills in the defaults of what is not set.
    pub fn fill_presets(&mut self, fields: &'static [Field]) {
        for field in fields {
            if let Preset::Is(text) = field.preset
                && let Some(value) = field.kind.parse(text)
            {
                let preset = Setting { value, source: Place::Default };
                self.by_key.entry(field.key).or_insert(preset);
            }
        }
    }
}

macro_rules! reads {
    ($($(#[$doc:meta])* $name:ident: $variant:ident -> $type:ty,)*) => {
        /// Typed reading. The schema gives the key this kind, and what has no default was found
        /// missing before; `None` is for callers of keys that may be inherited.
        impl Settings {
            $($(#[$doc])*
            #[must_use]
            pub fn $name(&self, key: &str) -> Option<$type> {
                match self.get(key)?.value.clone() {
                    Value::$variant(value) => Some(value),
                    _ => None,
                }
            })*
        }
    };
}

reads! {
    /// A whole number.
    integer: Integer -> u64,
    /// A number.
    ratio: Ratio -> f64,
    /// A span of time.
    duration: Duration -> HumanDuration,
    /// A number of bytes.
    size: Size -> ByteSize,
    /// Whether or not.
    bool: Bool -> bool,
    /// A name.
    text: Text -> String,
    /// Bytes.
    hex: Hex -> Vec<u8>,
    /// Public keys.
    keys: Keys -> Vec<PublicKey>,
    /// An address.
    address: Address -> HostPort,
    /// A path.
    path: Path -> PathBuf,
    /// A table, as TOML.
    table: Table -> String,
}

impl Settings {
    /// Exactly N bytes.
    #[must_use]
    pub fn bytes<const N: usize>(&self, key: &str) -> Option<[u8; N]> {
        self.hex(key)?.try_into().ok()
    }
}

impl Schema {
    /// The field called `key`, list elements' fields not among them.
    #[must_use]
    pub fn field(&self, key: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.key == key)
    }

    /// A file with these settings: every key with its explanation, its limits and its default;
    /// inherited ones that are not set are left as comments.
    #[must_use]
    pub fn render(&self, settings: &Settings, list: &[Settings]) -> String {
        let mut out = String::new();
        comment(&mut out, self.title);
        let mut table = "";
        for field in self.fields {
            if let Kind::Table = field.kind {
                render_table(&mut out, field, settings.table(field.key).unwrap_or_default());
                continue;
            }
            let (name, key) = field.key.rsplit_once('.').unwrap_or(("", field.key));
            if name != table {
                table = name;
                out.push('\n');
                let about = self.tables.iter().find(|(table, _)| *table == name);
                comment(&mut out, about.map_or("", |(_, about)| about));
                out.push_str(&format!("[{name}]\n"));
            }
            out.push('\n');
            render_field(&mut out, field, key, settings.get(field.key));
        }
        if let Some(schema) = &self.list {
            out.push('\n');
            comment(&mut out, schema.comment);
            for field in schema.fields {
                comment(&mut out, &format!("{}: {}", field.key, field.comment));
            }
            for element in list {
                out.push_str(&format!("\n[[{}]]\n", schema.name));
                for field in schema.fields {
                    if let Some(setting) = element.get(field.key) {
                        out.push_str(&format!("{} = {}\n", field.key, setting.value.to_toml()));
                    }
                }
            }
        }
        out
    }
}

fn comment(out: &mut String, text: &str) {
    for line in text.lines() {
        out.push_str(format!("# {line}").trim_end());
        out.push('\n');
    }
}

/// A table without keys is left as a comment.
fn render_table(out: &mut String, field: &Field, keys: String) {
    out.push('\n');
    comment(out, field.comment);
    // It was read as a table.
    let table: toml::Table = toml::from_str(&keys).unwrap_or_default();
    if table.is_empty() {
        comment(out, &format!("[{}]", field.key));
    } else {
        let named = toml::Table::from_iter([(field.key.to_owned(), toml::Value::Table(table))]);
        out.push_str(&named.to_string());
    }
}

fn render_field(out: &mut String, field: &Field, key: &str, setting: Option<&Setting>) {
    comment(out, field.comment);
    let preset = match field.preset {
        Preset::Required => "Required.".to_owned(),
        Preset::Absent => "May be left out.".to_owned(),
        Preset::Inherited(from) => format!("Default: {from}."),
        Preset::Is(text) => match field.kind.parse(text) {
            Some(value) => format!("Default: {}.", value.to_toml()),
            None => String::new(),
        },
    };
    comment(out, &format!("Expected: {}. {preset}", field.kind));
    match setting {
        Some(setting) => out.push_str(&format!("{key} = {}\n", setting.value.to_toml())),
        None => out.push_str(&format!("# {key} =\n")),
    }
}
