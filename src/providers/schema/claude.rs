//! Schemas of answers in the form that the Anthropic API enforces.
//!
//! Format: the Anthropic API documentation, "Structured outputs".

use serde_json::{Map, Value};

use super::walk::{Keyword, Rules, is_known_format, is_object, required_names, rewrite};

/// The maximum number of optional fields of objects that the API accepts in one schema.
const MAX_OPTIONAL: usize = 24;
/// The maximum number of fields with several types that the API accepts in one schema.
const MAX_UNIONS: usize = 16;

/// Returns the part of `schema` that the API takes; `None` if that would not be the same kind of
/// value: it refers to itself, or has objects with any fields; or if it has more optional fields or
/// unions than the API takes. Bounds and the like are omitted: the loop checks the answer against
/// the whole schema.
pub(in crate::providers) fn understood(schema: &Value) -> Option<Value> {
    rewrite(schema, &Claude).filter(|schema| {
        let mut counts = Counts::default();
        counts.add(schema);
        counts.optional <= MAX_OPTIONAL && counts.unions <= MAX_UNIONS
    })
}

/// The fields that the API limits.
#[derive(Default)]
struct Counts {
    optional: usize,
    unions: usize,
}

impl Counts {
    /// Adds the fields of all objects in a rewritten schema, whose depth is limited.
    fn add(&mut self, schema: &Value) {
        if let Some(fields) = schema.get("properties").and_then(Value::as_object) {
            let required = required_names(schema.get("required"));
            for (name, field) in fields {
                let is_required = required.contains(&**name);
                self.optional += usize::from(!is_required);
                let is_union =
                    field.get("anyOf").is_some() || field.get("type").is_some_and(Value::is_array);
                self.unions += usize::from(is_union);
                self.add(field);
            }
        }

        let choices = schema.get("anyOf").and_then(Value::as_array);
        for inner in choices.into_iter().flatten().chain(schema.get("items")) {
            self.add(inner);
        }
    }
}

struct Claude;

impl Rules for Claude {
    fn keyword(&self, name: &str, value: &Value) -> Keyword {
        match name {
            "$ref" | "$dynamicRef" | "allOf" | "prefixItems" | "patternProperties" => {
                Keyword::Refuse
            }
            "type" | "description" | "title" => Keyword::Keep,
            "enum"
                if value
                    .as_array()
                    .is_some_and(|values| values.iter().all(is_scalar)) =>
            {
                Keyword::Keep
            }
            "const" if is_scalar(value) => Keyword::Keep,
            "enum" | "const" => Keyword::Refuse,
            "items" => Keyword::Schema,
            "properties" => Keyword::Named,
            "anyOf" | "oneOf" => Keyword::List("anyOf"),
            "format" if is_known_format(value) => Keyword::Keep,
            "minItems" if *value == 0 || *value == 1 => Keyword::Keep,
            _ => Keyword::LeaveOut,
        }
    }

    fn complete(&self, schema: &Map<String, Value>, out: &mut Map<String, Value>) -> Option<()> {
        if is_object(schema) {
            close(schema, out)?;
        } else {
            out.remove("properties");
        }

        let is_any = !["type", "enum", "const", "anyOf"]
            .iter()
            .any(|keyword| out.contains_key(*keyword));
        let is_any_list =
            out.get("type").is_some_and(|kind| kind == "array") && !schema.contains_key("items");
        (!is_any && !is_any_list).then_some(())
    }
}

fn is_scalar(value: &Value) -> bool {
    !value.is_array() && !value.is_object()
}

/// Closes an object to fields that it does not name, as the API demands.
fn close(schema: &Map<String, Value>, out: &mut Map<String, Value>) -> Option<()> {
    let others = schema.get("additionalProperties");
    if others.is_some_and(|others| !others.is_boolean()) {
        return None;
    }

    let properties = out
        .remove("properties")
        .filter(|fields| *fields != Value::Object(Map::new()));
    match (&properties, out.contains_key("anyOf")) {
        // Each choice is closed, to the fields beside it as well.
        (Some(_), true) => return None,
        (None, true) => {
            out.remove("type");
            return Some(());
        }
        (None, false) if others != Some(&Value::Bool(false)) => return None,
        _ => {}
    }

    let closed_properties = properties.unwrap_or_else(|| Map::new().into());
    out.insert("properties".to_owned(), closed_properties);
    if let Some(required) = schema.get("required") {
        out.insert("required".to_owned(), required.clone());
    }

    out.insert("additionalProperties".to_owned(), false.into());
    Some(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bounds_are_left_out_and_choices_are_renamed() {
        let text = json!({"type": "string", "format": "date"});
        let cases = [
            (
                json!({"type": "string", "format": "date", "minLength": 1}),
                text.clone(),
            ),
            (
                json!({"type": "string", "format": "uri"}),
                json!({"type": "string"}),
            ),
            (
                json!({"type": "string", "properties": {}}),
                json!({"type": "string"}),
            ),
            (json!({"oneOf": [text]}), json!({"anyOf": [text]})),
            (
                json!({"type": "object", "anyOf": [text]}),
                json!({"anyOf": [text]}),
            ),
            (
                json!({"type": "array", "items": text, "minItems": 1, "maxItems": 2}),
                json!({"type": "array", "items": text, "minItems": 1}),
            ),
            (
                json!({"type": "object", "additionalProperties": false}),
                json!({"type": "object", "properties": {}, "additionalProperties": false}),
            ),
            (
                json!({"type": "object", "properties": {"a": text}, "required": ["a"]}),
                json!({"type": "object", "properties": {"a": text}, "required": ["a"], "additionalProperties": false}),
            ),
        ];
        for (schema, expected) in cases {
            assert_eq!(understood(&schema), Some(expected), "{schema}");
        }
    }

    #[test]
    fn schema_over_the_limits_of_fields_has_no_form() {
        let schema = |optional: usize, unions: usize| {
            let field = |prefix: &str, at: usize| format!("{prefix}{at}");
            let mut fields = Map::new();
            for at in 0..optional {
                fields.insert(field("o", at), json!({"type": "string"}));
            }
            for at in 0..unions {
                fields.insert(field("u", at), json!({"type": ["string", "null"]}));
            }
            let required: Vec<_> = (0..unions).map(|at| field("u", at)).collect();
            let inner = json!({"type": "object", "properties": fields, "required": required,
                "additionalProperties": false});
            json!({"type": "array", "items": inner})
        };
        for (optional, unions, is_understood) in [
            (24, 16, true),
            (25, 0, false),
            (0, 17, false),
            (24, 0, true),
        ] {
            let schema = schema(optional, unions);
            assert_eq!(
                understood(&schema).is_some(),
                is_understood,
                "{optional} {unions}"
            );
        }
    }

    #[test]
    fn open_objects_and_references_have_no_form() {
        let text = json!({"type": "string"});
        let schemas = [
            json!({}),
            json!(true),
            json!({"$ref": "#"}),
            json!({"enum": [[]]}),
            json!({"const": {}}),
            json!({"type": "array"}),
            json!({"type": "object"}),
            json!({"type": "object", "properties": {"a": {}}}),
            json!({"properties": {"a": text}, "additionalProperties": text}),
            json!({"properties": {"a": text}, "anyOf": [text]}),
        ];
        for schema in schemas {
            assert_eq!(understood(&schema), None, "{schema}");
        }
    }
}
