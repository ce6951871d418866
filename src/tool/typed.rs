//! Arguments as Rust types: their schema, and how they are read.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::{Map, Number, Value};
use serde_path_to_error::Segment;

use super::schema::{ArgumentError, push_key};

/// The largest float below which every integer is exact: 2^53.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Returns the JSON Schema of a type, as tools use it: draft 2020-12, with subschemas inlined,
/// except recursive ones, and without `$schema` and `title`. A type without fields gives the schema
/// of an empty object.
///
/// ```
/// use agentcore::tool::schema_of;
/// use serde_json::json;
///
/// assert_eq!(schema_of::<()>(), json!({"type": "object", "properties": {}}));
/// ```
pub fn schema_of<A: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });

    let mut schema = settings.into_generator().into_root_schema_for::<A>();
    schema.remove("title");
    match schema.get("type") {
        Some(Value::String(name)) if name == "null" => {
            schema.insert("type".to_owned(), "object".into());
        }
        Some(_) => {}
        // The schema of an enum of structs has no `type`, which providers require.
        None => {
            schema.insert("type".to_owned(), "object".into());
        }
    }

    if schema.get("type").and_then(Value::as_str) == Some("object") {
        let object = schema.ensure_object();
        object
            .entry("properties")
            .or_insert_with(|| Map::new().into());
    }

    schema.to_value()
}

/// Returns the arguments as an `A`. The error names the place.
pub(super) fn decode<A: DeserializeOwned>(args: &Value) -> Result<A, ArgumentError> {
    if let Ok(value) = A::deserialize(args) {
        return Ok(value);
    }

    // A type without fields may be a unit, which JSON spells `null`.
    if args.as_object().is_some_and(Map::is_empty)
        && let Ok(value) = A::deserialize(&Value::Null)
    {
        return Ok(value);
    }

    // JSON Schema and models treat `1.0` as an integer; serde does not.
    let mut normalized_args = args.clone();
    floats_to_integers(&mut normalized_args);
    serde_path_to_error::deserialize(&normalized_args).map_err(|error| {
        let path = pointer(error.path().iter());
        ArgumentError::at(path, error.into_inner().to_string())
    })
}

fn floats_to_integers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(float) = number.as_f64()
                && number.is_f64()
                && float.fract() == 0.0
                && float.abs() <= EXACT
            {
                *number = Number::from(float as i64);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(floats_to_integers),
        Value::Object(members) => members.values_mut().for_each(floats_to_integers),
        _ => {}
    }
}

fn pointer<'a>(segments: impl Iterator<Item = &'a Segment>) -> String {
    let mut pointer = String::new();
    for segment in segments {
        match segment {
            Segment::Seq { index } => pointer.push_str(&format!("/{index}")),
            Segment::Map { key } => push_key(&mut pointer, key),
            // An enum variant is not a step in the JSON, and an unknown segment ends the path.
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }

    if pointer.is_empty() {
        pointer.push('/');
    }

    pointer
}
