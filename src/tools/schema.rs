//! Schemas that several tools share.

use serde_json::{Value, json};

/// Returns the schema of a tool for one folder.
pub(super) fn folder() -> Value {
    json!({
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "The folder. Defaults to the workspace"}
        }
    })
}

/// Returns the schema of a tool that finds files.
pub(super) fn glob() -> Value {
    json!({
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "description": "The pattern"},
            "path": {"type": "string", "description": "The folder to search. Defaults to the workspace"}
        },
        "required": ["pattern"]
    })
}

/// Returns the schema of a tool for one file, with further properties. The call itself checks that
/// the path is present: the path has two names, and some providers accept no alternatives in a
/// schema.
pub(super) fn file(further: &Value) -> Value {
    let mut properties = json!({
        "path": {"type": "string", "description": "Absolute, or relative to the workspace"}
    });
    if let (Some(all_properties), Some(further)) = (properties.as_object_mut(), further.as_object())
    {
        all_properties.extend(further.clone());
    }
    json!({"type": "object", "properties": properties})
}
