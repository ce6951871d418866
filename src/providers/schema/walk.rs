//! Schemas, rewritten keyword by keyword.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::message::MAX_JSON_DEPTH;

/// The formats of strings that servers accept in the schema of an answer.
const FORMATS: &[&str] = &[
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

/// The rules of one API for schemas.
pub(super) trait Rules {
    /// True if the API takes `true` and `false` as schemas.
    const BOOLEANS: bool = false;

    /// Decides about a keyword.
    fn keyword(&self, name: &str, value: &Value) -> Keyword;

    /// Completes a schema whose keywords are rewritten; `None` if the API has no form for it.
    fn complete(&self, schema: &Map<String, Value>, out: &mut Map<String, Value>) -> Option<()>;
}

/// A decision about a keyword.
pub(super) enum Keyword {
    /// It is sent as it is.
    Keep,
    /// It is omitted.
    LeaveOut,
    /// Another keyword is sent.
    Replace(&'static str, Value),
    /// Its value is a schema.
    Schema,
    /// Its value is a list of schemas, which is sent under this name.
    List(&'static str),
    /// Its value is an object of schemas.
    Named,
    /// The API has no form for it.
    Refuse,
}

/// Returns the schema in the form that an API takes; `None` if it has none, or if it is nested too
/// deep.
pub(super) fn rewrite<R: Rules>(schema: &Value, rules: &R) -> Option<Value> {
    rewrite_at(schema, rules, 0)
}

fn rewrite_at<R: Rules>(schema: &Value, rules: &R, depth: usize) -> Option<Value> {
    if R::BOOLEANS && schema.is_boolean() {
        return Some(schema.clone());
    }

    if depth > MAX_JSON_DEPTH {
        return None;
    }

    let schema = schema.as_object()?;
    let inner = |schema: &Value| rewrite_at(schema, rules, depth + 1);
    let mut out = Map::new();
    for (name, value) in schema {
        let (name, value) = match rules.keyword(name, value) {
            Keyword::Keep => (&**name, value.clone()),
            Keyword::LeaveOut => continue,
            Keyword::Replace(name, value) => (name, value),
            Keyword::Schema => (&**name, inner(value)?),
            Keyword::List(name) => (
                name,
                value.as_array()?.iter().map(inner).collect::<Option<_>>()?,
            ),
            Keyword::Named => {
                let fields = value
                    .as_object()?
                    .iter()
                    .map(|(name, field)| Some((name.clone(), inner(field)?)));
                (&**name, Value::Object(fields.collect::<Option<_>>()?))
            }
            Keyword::Refuse => return None,
        };

        out.insert(name.to_owned(), value);
    }

    rules.complete(schema, &mut out)?;
    Some(Value::Object(out))
}

/// Returns the names in the keyword `required` of a schema.
pub(super) fn required_names(required: Option<&Value>) -> HashSet<&str> {
    let names = required.and_then(Value::as_array);
    names
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// Returns `true` if values of the schema may be objects.
pub(super) fn is_object(schema: &Map<String, Value>) -> bool {
    match schema.get("type") {
        Some(Value::Array(names)) => names.iter().any(|name| name == "object"),
        Some(name) => name == "object",
        None => schema.contains_key("properties"),
    }
}

/// Returns `true` if servers take this format of a string.
pub(super) fn is_known_format(format: &Value) -> bool {
    FORMATS.iter().any(|known| format == known)
}
