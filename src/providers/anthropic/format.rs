//! Schemas that the API holds answers to.
//!
//! Format: the Anthropic API documentation, "Structured outputs".

use serde_json::{Map, Value};

use super::super::form::{FORMATS, is_object};

/// What of `schema` the API understands; `None` when that would not be the same kind of value: it
/// refers to itself, or has objects with any fields. Bounds and the like are left out: the loop
/// checks the answer against the whole schema.
pub(super) fn understood(schema: &Value) -> Option<Value> {
    let mut out = Map::new();
    for (keyword, value) in schema.as_object()? {
        let kept = match &**keyword {
            "$ref" | "$dynamicRef" | "allOf" | "prefixItems" | "patternProperties" => return None,
            "type" | "description" | "title" => value.clone(),
            "enum" if value.as_array()?.iter().all(is_scalar) => value.clone(),
            "const" if is_scalar(value) => value.clone(),
            "enum" | "const" => return None,
            "items" => understood(value)?,
            "anyOf" | "oneOf" => {
                out.insert("anyOf".to_owned(), choices(value)?);
                continue;
            }
            "format" if FORMATS.iter().any(|known| value == known) => value.clone(),
            "minItems" if *value == 0 || *value == 1 => value.clone(),
            _ => continue,
        };

        out.insert(keyword.clone(), kept);
    }

    if is_object(schema) {
        close(schema, &mut out)?;
    }

    let is_any = !["type", "enum", "const", "anyOf"]
        .iter()
        .any(|keyword| out.contains_key(*keyword));
    let is_any_list =
        out.get("type").is_some_and(|kind| kind == "array") && schema.get("items").is_none();
    (!is_any && !is_any_list).then_some(Value::Object(out))
}

fn is_scalar(value: &Value) -> bool {
    !value.is_array() && !value.is_object()
}

fn choices(schemas: &Value) -> Option<Value> {
    let schemas = schemas.as_array()?.iter().map(understood);
    schemas.collect::<Option<_>>().map(Value::Array)
}

/// The fields of an object: those it names and no others, as the API demands.
fn close(schema: &Value, out: &mut Map<String, Value>) -> Option<()> {
    let others = schema.get("additionalProperties");
    if others.is_some_and(|others| !others.is_boolean()) {
        return None;
    }

    let named = schema.get("properties").and_then(Value::as_object);
    let named = named.filter(|named| !named.is_empty());
    match (named, out.contains_key("anyOf")) {
        // Each choice is closed, to the fields beside it as well.
        (Some(_), true) => return None,
        (None, true) => {
            out.remove("type");
            return Some(());
        }
        (None, false) if others != Some(&Value::Bool(false)) => return None,
        _ => {}
    }

    let fields = named.into_iter().flatten();
    let fields = fields.map(|(name, field)| Some((name.clone(), understood(field)?)));
    let fields: Map<_, _> = fields.collect::<Option<_>>()?;
    out.insert("properties".to_owned(), Value::Object(fields));
    if let Some(required) = schema.get("required") {
        out.insert("required".to_owned(), required.clone());
    }

    out.insert("additionalProperties".to_owned(), false.into());
    Some(())
}
