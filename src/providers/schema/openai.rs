//! Schemas of OpenAI's strict mode.
//!
//! Format: the OpenAI API documentation, "Structured model outputs".

use serde_json::{Map, Value};

use crate::model::{ModelRequest, ResponseFormat};

use super::walk::{Keyword, Rules, is_known_format, is_object, required_names, rewrite};

/// Returns `true` if the API's strict mode takes the schema: in every object all properties are
/// required and no others are allowed, every value has a type, a reference stands alone, and it has
/// only the keywords of that mode. Other schemas would be refused there.
pub(in crate::providers) fn is_strict(schema: &Value) -> bool {
    rewrite(schema, &Strict).is_some()
}

/// Returns `true` for the schema of one object, which is the only form of an answer that the API
/// takes.
pub(in crate::providers) fn is_plain_object(schema: &Value) -> bool {
    schema.get("type").is_some_and(|kind| kind == "object") && schema.get("anyOf").is_none()
}

/// Returns the schema of the answer if it is not that of one object. It is sent to the model in
/// words, because the API does not take it.
pub(in crate::providers) fn non_object_schema(request: &ModelRequest) -> Option<&Value> {
    match &request.response_format {
        Some(ResponseFormat::JsonSchema { schema, .. }) if !is_plain_object(schema) => Some(schema),
        _ => None,
    }
}

/// The rules of strict mode, which takes schemas as they are or not at all.
struct Strict;

impl Rules for Strict {
    fn keyword(&self, name: &str, value: &Value) -> Keyword {
        match name {
            "properties" | "$defs" => Keyword::Named,
            "anyOf" => Keyword::List("anyOf"),
            "items" => Keyword::Schema,
            "format" if is_known_format(value) => Keyword::Keep,
            "type"
            | "enum"
            | "const"
            | "description"
            | "title"
            | "required"
            | "additionalProperties"
            | "$ref"
            | "pattern"
            | "minimum"
            | "maximum"
            | "exclusiveMinimum"
            | "exclusiveMaximum"
            | "multipleOf"
            | "minItems"
            | "maxItems" => Keyword::Keep,
            _ => Keyword::Refuse,
        }
    }

    fn complete(&self, schema: &Map<String, Value>, _: &mut Map<String, Value>) -> Option<()> {
        let is_reference = schema.contains_key("$ref");
        let has_kind = ["type", "anyOf", "$ref"]
            .iter()
            .any(|name| schema.contains_key(*name));
        let is_taken = has_kind
            && (!is_reference || schema.len() == 1)
            && (!is_array(schema) || schema.contains_key("items"))
            && !has_lookaround(schema)
            && (!is_object(schema) || is_closed(schema));
        is_taken.then_some(())
    }
}

/// Returns `true` if values of the schema may be arrays.
fn is_array(schema: &Map<String, Value>) -> bool {
    match schema.get("type") {
        Some(Value::Array(names)) => names.iter().any(|name| name == "array"),
        name => name.is_some_and(|name| name == "array"),
    }
}

/// Returns `true` for a pattern that looks around, which the mode does not take.
fn has_lookaround(schema: &Map<String, Value>) -> bool {
    let pattern = schema.get("pattern").and_then(Value::as_str);
    pattern.is_some_and(|pattern| {
        ["(?=", "(?!", "(?<=", "(?<!"]
            .iter()
            .any(|group| pattern.contains(group))
    })
}

fn is_closed(schema: &Map<String, Value>) -> bool {
    let required = required_names(schema.get("required"));
    let is_required = |name: &String| required.contains(&**name);
    let named = schema.get("properties").and_then(Value::as_object);
    schema.get("additionalProperties") == Some(&Value::Bool(false))
        && named.is_some_and(|named| named.keys().all(is_required))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::message::MAX_JSON_DEPTH;

    fn object(fields: &Value) -> Value {
        let names: Vec<_> = fields.as_object().into_iter().flat_map(Map::keys).collect();
        json!({"type": "object", "properties": fields, "required": names, "additionalProperties": false})
    }

    #[test]
    fn schemas_of_closed_objects_are_strict() {
        let schemas = [
            object(&json!({})),
            object(&json!({"a": {"type": "string", "format": "date"}})),
            object(&json!({"a": {"type": "array", "items": object(&json!({}))}})),
            object(&json!({"a": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/x"}]}})),
            json!({"$defs": {"x": object(&json!({}))}, "type": "string"}),
            object(&json!({"a": {"type": "string", "pattern": "^(?:a|b)+$"}})),
            object(&json!({"a": {"type": "string", "enum": ["x"]}})),
            object(&json!({"a": {"type": ["array", "null"], "items": {"type": "number"}}})),
        ];
        for schema in schemas {
            assert!(is_strict(&schema), "{schema}");
        }
    }

    #[test]
    fn other_schemas_are_not_strict() {
        let schemas = [
            json!(true),
            json!({"type": "object"}),
            json!({"type": "object", "properties": {}}),
            json!({"type": ["object", "null"], "properties": {}}),
            json!({"properties": {"a": {}}, "additionalProperties": false}),
            object(&json!({"a": {"type": "string", "format": "regex"}})),
            object(&json!({"a": {"type": "array", "items": {"type": "object"}}})),
            object(&json!({"a": {"anyOf": [{"type": "object"}]}})),
            object(&json!({"a": {"allOf": []}})),
            object(&json!({"a": true})),
            object(&json!({"a": {}})),
            object(&json!({"a": {"description": "Anything"}})),
            object(&json!({"a": {"const": "x"}})),
            object(&json!({"a": {"enum": ["x"]}})),
            object(&json!({"a": {"anyOf": [{}, {"type": "null"}]}})),
            object(&json!({"a": {"type": "array"}})),
            object(&json!({"a": {"type": ["array", "null"]}})),
            object(&json!({"a": {"type": "array", "items": {}}})),
            object(&json!({"a": {"$ref": "#/$defs/x", "description": "An x"}})),
            object(&json!({"a": {"type": "string", "pattern": "^(?!a)"}})),
            object(&json!({"a": {"type": "string", "pattern": "(?<=a)b"}})),
        ];
        for schema in schemas {
            assert!(!is_strict(&schema), "{schema}");
        }
    }

    #[test]
    fn schema_nested_beyond_the_limit_has_no_form() {
        let nested = |depth| {
            (0..depth).fold(
                json!({"type": "string"}),
                |items, _| json!({"type": "array", "items": items}),
            )
        };
        assert!(is_strict(&nested(MAX_JSON_DEPTH)));
        assert!(!is_strict(&nested(MAX_JSON_DEPTH + 1)));
    }
}
