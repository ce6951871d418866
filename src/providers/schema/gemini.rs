//! Schemas of Gemini's declarations and answers.
//!
//! Format: the Gemini API reference, `parametersJsonSchema` and `responseJsonSchema`.

use serde_json::{Map, Value, json};

use super::walk::{Keyword, Rules, rewrite};

/// Returns the schema without the keywords that the API refuses. The schema itself if it is nested
/// too deep.
pub(in crate::providers) fn declared(schema: &Value) -> Value {
    rewrite(schema, &Gemini).unwrap_or_else(|| schema.clone())
}

struct Gemini;

impl Rules for Gemini {
    const BOOLEANS: bool = true;

    fn keyword(&self, name: &str, value: &Value) -> Keyword {
        match (name, value) {
            ("$schema" | "title" | "discriminator" | "examples", _)
            | ("exclusiveMinimum" | "exclusiveMaximum", _) => Keyword::LeaveOut,
            ("const", value) => Keyword::Replace("enum", json!([value])),
            ("properties" | "$defs", Value::Object(_)) => Keyword::Named,
            ("items" | "additionalProperties", Value::Object(_)) => Keyword::Schema,
            ("anyOf", Value::Array(_)) => Keyword::List("anyOf"),
            ("oneOf", Value::Array(_)) => Keyword::List("oneOf"),
            ("allOf", Value::Array(_)) => Keyword::List("allOf"),
            ("prefixItems", Value::Array(_)) => Keyword::List("prefixItems"),
            _ => Keyword::Keep,
        }
    }

    /// Moves the format of a string into its description.
    fn complete(&self, schema: &Map<String, Value>, out: &mut Map<String, Value>) -> Option<()> {
        if let Some(Value::String(format)) = schema.get("format")
            && schema.get("type").is_some_and(|kind| kind == "string")
        {
            let description = schema.get("description").and_then(Value::as_str);
            let text = format!("{} Format: {format}", description.unwrap_or_default());
            out.remove("format");
            out.insert("description".to_owned(), text.trim_start().into());
        }

        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_keywords_are_left_out_or_replaced() {
        let schema = json!({
            "$schema": "x", "title": "T", "type": "object",
            "$defs": {"d": {"const": 1, "title": "D"}},
            "properties": {
                "title": {"type": "string", "format": "date", "description": "A day."},
                "uri": {"type": "string", "format": "uri"},
                "n": {"type": "integer", "format": "int64", "exclusiveMinimum": 0, "minimum": 0},
                "any": true,
                "list": {"type": "array", "items": {"anyOf": [{"$ref": "#/$defs/d", "examples": []}]}},
            },
            "required": ["title"], "additionalProperties": false,
        });
        let expected = json!({
            "type": "object",
            "$defs": {"d": {"enum": [1]}},
            "properties": {
                "title": {"type": "string", "description": "A day. Format: date"},
                "uri": {"type": "string", "description": "Format: uri"},
                "n": {"type": "integer", "format": "int64", "minimum": 0},
                "any": true,
                "list": {"type": "array", "items": {"anyOf": [{"$ref": "#/$defs/d"}]}},
            },
            "required": ["title"], "additionalProperties": false,
        });
        assert_eq!(declared(&schema), expected);
        assert_eq!(declared(&true.into()), Value::Bool(true));
    }

    #[test]
    fn schema_nested_beyond_the_limit_is_sent_as_it_is() {
        let leaf = json!({"title": "x"});
        let schema = (0..101).fold(leaf, |items, _| json!({"items": items}));
        assert_eq!(declared(&schema), schema);
    }
}
