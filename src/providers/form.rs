//! The form of an answer where a server cannot be made to keep it.

use serde_json::Value;

/// The formats of strings that servers which hold answers to a schema know.
pub(super) const FORMATS: &[&str] = &[
    "date-time",
    "time",
    "date",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "uuid",
];

/// What the model is told instead.
pub(super) fn instruction(schema: &Value) -> String {
    format!("Answer with only a JSON value that matches this schema:\n{schema}")
}

/// Whether values of the schema may be objects.
pub(super) fn is_object(schema: &Value) -> bool {
    match schema.get("type") {
        Some(Value::Array(names)) => names.iter().any(|name| name == "object"),
        Some(name) => name == "object",
        None => schema.get("properties").is_some(),
    }
}
