//! Items as lines: for people, and as JSON that can be put back.
//!
//! JSON: `{"key": text, "value": text}`, where `key_hex` and `value_hex` stand instead for what is
//! not UTF-8, and `hash` (hexadecimal) for the key of an item that was put by its hash.

use quorate_store::lazy_trie::{Hash, Item, Name};
use serde_json::{Map, Value};

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |four: u8| char::from(DIGITS[usize::from(four & 15)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}

/// Bytes from hexadecimal digits.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    let digits = digits?;
    let pairs = digits.chunks_exact(2);
    pairs.remainder().is_empty().then(|| pairs.map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// Bytes as text on one line: what is not printable as `\x..`, `\n`, `\t` and so on.
fn text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Err(_) => bytes.escape_ascii().to_string(),
        Ok(text) => {
            let mut line = String::with_capacity(text.len());
            for c in text.chars() {
                if c.is_control() || c == '\\' {
                    line.extend(c.escape_default());
                } else {
                    line.push(c);
                }
            }
            line
        }
    }
}

/// Bytes for people.
pub fn show(bytes: &[u8], as_hex: bool) -> String {
    if as_hex { hex(bytes) } else { text(bytes) }
}

/// An item for people: key, tabulator, value. A key that is known by its hash alone has `#` before
/// it.
pub fn for_people(hash: &Hash, item: &Item<'_>, as_hex: bool) -> String {
    let key = item.key().map(|key| show(key, as_hex));
    let key = key.unwrap_or_else(|| format!("#{}", hex(&hash.0)));
    format!("{key}\t{}\n", show(item.value, as_hex))
}

fn enter(object: &mut Map<String, Value>, name: &str, bytes: &[u8], as_hex: bool) {
    match std::str::from_utf8(bytes) {
        Ok(text) if !as_hex => object.insert(name.to_owned(), text.into()),
        _ => object.insert(format!("{name}_hex"), hex(bytes).into()),
    };
}

/// An item for programs.
pub fn for_programs(name: &Name<'_>, value: &[u8], as_hex: bool) -> Value {
    let mut object = Map::new();
    match name {
        Name::Key(key) => enter(&mut object, "key", key, as_hex),
        Name::Hash(hash) => {
            object.insert("hash".to_owned(), hex(&hash.0).into());
        }
    }
    enter(&mut object, "value", value, as_hex);
    Value::Object(object)
}

/// What names an item of a dump.
pub enum Owned {
    Key(Vec<u8>),
    Hash(Hash),
}

impl Owned {
    pub fn name(&self) -> Name<'_> {
        match self {
            Owned::Key(key) => Name::Key(key),
            Owned::Hash(hash) => Name::Hash(*hash),
        }
    }
}

/// Reads a line of a dump; what is wrong with it otherwise.
pub fn parse(line: &str) -> Result<(Owned, Vec<u8>), String> {
    let object: Map<String, Value> =
        serde_json::from_str(line).map_err(|error| format!("no JSON object: {error}"))?;
    let field = |name: &str| -> Result<Option<Vec<u8>>, String> {
        let plain = object.get(name).map(|value| value.as_str().map(|text| text.into()));
        let digits = object.get(&format!("{name}_hex"));
        let digits = digits.map(|value| value.as_str().and_then(unhex));
        match plain.or(digits) {
            Some(None) => Err(format!("field {name} is not text, or not of hexadecimal digits")),
            Some(found) => Ok(found),
            None => Ok(None),
        }
    };
    let value = field("value")?.ok_or("no field value or value_hex")?;
    if let Some(key) = field("key")? {
        return Ok((Owned::Key(key), value));
    }
    let hash = object.get("hash").ok_or("no field key, key_hex or hash")?;
    let hash = hash.as_str().and_then(unhex).and_then(|bytes| bytes.try_into().ok());
    let hash = hash.ok_or("field hash is not of 64 hexadecimal digits")?;
    Ok((Owned::Hash(Hash(hash)), value))
}
