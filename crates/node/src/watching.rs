//! How changes are told to programs: one JSON object each, the same by `quorate watch` and over
//! HTTP.

use bytes::Bytes;
use quorate_app::kv::feed::Change;
use quorate_core::Height;

/// A change as a JSON object, as it is written. Byte strings are text where they are text, and
/// always in hexadecimal. A change may have hundreds of thousands of fields: so there is no tree of
/// it, and it is written in parts.
#[derive(Clone, Copy, Debug)]
pub struct Json<'a> {
    height: Height,
    index: usize,
    change: &'a Change,
    begun: bool,
    /// Fields that are written.
    fields: usize,
}

impl<'a> Json<'a> {
    /// A change, with its place in its block.
    #[must_use]
    pub fn of(height: Height, index: usize, change: &'a Change) -> Self {
        Self { height, index, change, begun: false, fields: 0 }
    }

    /// Goes on, and returns whether that was all. Begins no further field as soon as `out` holds
    /// `enough` bytes.
    pub fn write(&mut self, out: &mut Vec<u8>, enough: usize) -> bool {
        if !std::mem::replace(&mut self.begun, true) {
            self.begin(out);
        }
        while let Some((name, value)) = self.field() {
            if out.len() >= enough {
                return false;
            }
            out.extend_from_slice(if self.fields == 0 { b"{" } else { b",{" });
            put(out, "name", name);
            if let Some(value) = value {
                out.push(b',');
                put(out, "value", value);
            }
            out.push(b'}');
            self.fields += 1;
        }
        out.extend_from_slice(if self.has_fields() { b"]}" } else { b"}" });
        true
    }

    fn begin(&self, out: &mut Vec<u8>) {
        let Self { height, index, change, .. } = self;
        let name = name(change);
        let begin = format!(r#"{{"change":"{name}","height":{height},"index":{index}"#);
        out.extend_from_slice(begin.as_bytes());
        let strings = match change {
            Change::Set { value, .. } => [("key", change.key()), ("value", Some(value))],
            Change::Appended { text, .. } => [("key", change.key()), ("appended", Some(text))],
            _ => [("key", change.key()), ("", None)],
        };
        for (name, string) in strings {
            if let Some(string) = string {
                out.push(b',');
                put(out, name, string);
            }
        }
        if self.has_fields() {
            out.extend_from_slice(br#","fields":["#);
        }
    }

    fn has_fields(&self) -> bool {
        matches!(self.change, Change::FieldsSet { .. } | Change::FieldsRemoved { .. })
    }

    /// The next field, and its value if it has one now.
    fn field(&self) -> Option<(&'a Bytes, Option<&'a Bytes>)> {
        match self.change {
            Change::FieldsSet { fields, .. } => {
                fields.get(self.fields).map(|(name, value)| (name, Some(value)))
            }
            Change::FieldsRemoved { fields, .. } => {
                fields.get(self.fields).map(|name| (name, None))
            }
            _ => None,
        }
    }
}

fn name(change: &Change) -> &'static str {
    match change {
        Change::Set { .. } => "set",
        Change::Appended { .. } => "append",
        Change::FieldsSet { .. } => "set-fields",
        Change::Removed { .. } => "remove",
        Change::FieldsRemoved { .. } => "remove-fields",
        Change::AllRemoved => "remove-all",
    }
}

/// Two members: the bytes as text, and in hexadecimal.
fn put(out: &mut Vec<u8>, name: &str, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend_from_slice(format!(r#""{name}":"#).as_bytes());
    // To write to memory does not fail.
    let _ = serde_json::to_writer(&mut *out, &std::str::from_utf8(bytes).ok());
    out.extend_from_slice(format!(r#","{name}_hex":""#).as_bytes());
    let digit = |half: u8| DIGITS[usize::from(half & 15)];
    out.extend(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]));
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn written(change: &Change, enough: usize) -> (Value, usize) {
        let mut json = Json::of(Height(7), 2, change);
        let (mut all, mut parts) = (Vec::new(), 1);
        loop {
            let mut part = Vec::new();
            let is_whole = json.write(&mut part, enough);
            assert!(part.len() < enough.saturating_add(200), "a part is too long");
            all.extend(part);
            if is_whole {
                return (serde_json::from_slice(&all).expect("JSON"), parts);
            }
            parts += 1;
        }
    }

    #[test]
    fn changes_are_json() {
        let bytes = |text: &'static [u8]| Bytes::from_static(text);
        let set = Change::Set { key: bytes(b"a\"\n"), value: bytes(b"\xff\x01") };
        let expected = json!({
            "change": "set", "height": 7, "index": 2, "key": "a\"\n", "key_hex": "61220a",
            "value": null, "value_hex": "ff01",
        });
        assert_eq!(written(&set, usize::MAX), (expected, 1));
        let all = json!({ "change": "remove-all", "height": 7, "index": 2 });
        assert_eq!(written(&Change::AllRemoved, usize::MAX), (all, 1));
        let removed = Change::FieldsRemoved { key: bytes(b"k"), fields: vec![bytes(b"n")] };
        let field = json!([{ "name": "n", "name_hex": "6e" }]);
        assert_eq!(written(&removed, usize::MAX).0["fields"], field);
    }

    /// No part is much longer than what is enough, and the parts are one object.
    #[test]
    fn many_fields_are_written_in_parts() {
        let field = |at: usize| (Bytes::from(at.to_string()), Bytes::from_static(b"1"));
        let fields = (0..10_000).map(field).collect();
        let change = Change::FieldsSet { key: Bytes::from_static(b"k"), fields };
        let (value, parts) = written(&change, 1000);
        let fields = value["fields"].as_array().expect("fields");
        assert_eq!((fields.len(), &fields[9_999]["name"]), (10_000, &"9999".into()));
        assert!(parts > 500, "{parts}");
    }
}
