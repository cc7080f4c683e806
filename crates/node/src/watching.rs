//! How changes are told to programs: one JSON object each, the same by `quorate watch` and over
//! HTTP.

use quorate_app::kv::feed::Change;
use quorate_core::Height;
use serde_json::{Map, Value, json};

/// A change as a JSON object. Byte strings are text where they are text, and always in
/// hexadecimal.
#[must_use]
pub fn json_of(height: Height, index: usize, change: &Change) -> Value {
    let mut object = Map::new();
    object.insert("height".to_owned(), height.0.into());
    object.insert("index".to_owned(), index.into());
    object.insert("change".to_owned(), name(change).into());
    if let Some(key) = change.key() {
        put(&mut object, "key", key);
    }
    let fields = match change {
        Change::Set { value, .. } => {
            put(&mut object, "value", value);
            None
        }
        Change::Appended { text, .. } => {
            put(&mut object, "appended", text);
            None
        }
        Change::FieldsSet { fields, .. } => {
            let field = |(name, value): &(bytes::Bytes, bytes::Bytes)| {
                let mut field = Map::new();
                put(&mut field, "name", name);
                put(&mut field, "value", value);
                Value::from(field)
            };
            Some(fields.iter().map(field).collect())
        }
        Change::FieldsRemoved { fields, .. } => {
            let field = |name: &bytes::Bytes| {
                let mut field = Map::new();
                put(&mut field, "name", name);
                Value::from(field)
            };
            Some(fields.iter().map(field).collect())
        }
        Change::Removed { .. } | Change::AllRemoved => None,
    };
    if let Some(fields) = fields {
        object.insert("fields".to_owned(), Value::Array(fields));
    }
    json!(object)
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

fn put(object: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    let text = std::str::from_utf8(bytes).map_or(Value::Null, Into::into);
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    object.insert(name.to_owned(), text);
    object.insert(format!("{name}_hex"), hex.into());
}
