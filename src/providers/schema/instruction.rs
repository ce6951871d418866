//! Schemas as instructions, for servers that cannot enforce them.

use serde_json::{Value, json};

/// Returns the schema of any JSON object.
pub(in crate::providers) fn any_object() -> Value {
    json!({"type": "object"})
}

/// Returns the instruction that the model receives instead of the schema.
pub(in crate::providers) fn instruction(schema: &Value) -> String {
    format!("Answer with only a JSON value that matches this schema:\n{schema}")
}
