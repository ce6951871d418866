//! The check of a call's arguments.

use serde_json::Value;

use crate::message::{MAX_JSON_DEPTH, ToolCall, is_text_too_deep, is_too_deep};

use super::failure::{ArgumentError, clip, schema_hint};
use super::validate::Validator;
use super::value::type_name;

/// The maximum length of invalid JSON that is quoted to the model, in bytes.
const MAX_RAW: usize = 1_000;

/// Checks a call's arguments against a tool's schema.
///
/// Only the [subset](crate::tool#argument-schemas) of JSON Schema that this crate supports is
/// checked; other keywords are ignored. The depth and the effort of a check are limited, because a
/// schema may refer to itself, and arguments or lists under `enum` may be very long. Arguments that
/// exceed these limits are refused.
///
/// # Errors
///
/// Returns an error that lists the failures and their positions if `args` do not match `schema`.
pub fn check_arguments(schema: &Value, args: &Value) -> Result<(), ArgumentError> {
    Validator::new(schema).run(args)
}

/// Checks the arguments of `call` against the schema; the error is the text for the model.
///
/// Only an empty text counts as `{}`, which has to match the schema like any other arguments.
/// Arguments that could not be parsed are an error.
pub(crate) fn check_call_arguments(call: &ToolCall, schema: &Value) -> Result<(), String> {
    let args = &*call.args;
    if !args.is_object() {
        return Err(not_an_object(call, schema));
    }
    if is_too_deep(args) {
        return Err(too_deep(call));
    }
    match check_arguments(schema, args) {
        Ok(()) => Ok(()),
        Err(error) => Err(error.for_model(&call.name, schema)),
    }
}

fn not_an_object(call: &ToolCall, schema: &Value) -> String {
    if call.raw_args.as_deref().is_some_and(is_text_too_deep) {
        return too_deep(call);
    }

    let name = &call.name;
    let hint = schema_hint(schema);
    let parsed_args = call.raw_args.as_deref().map(serde_json::from_str::<Value>);
    let actual = match (&call.raw_args, &parsed_args) {
        (Some(raw), Some(Err(error))) => {
            let head = clip(raw, MAX_RAW);
            let suffix = match raw.len() - head.len() {
                0 => String::new(),
                bytes => format!("... ({bytes} bytes left out)"),
            };

            return format!(
                "the arguments for tool {name:?} are not valid JSON: {error}\nThey were: {head}{suffix}\n{hint}"
            );
        }
        (_, Some(Ok(value))) => type_name(value),
        _ => type_name(&call.args),
    };

    format!("invalid arguments for tool {name:?}:\n/: expected object, got {actual}\n{hint}")
}

fn too_deep(call: &ToolCall) -> String {
    format!(
        "the arguments for tool {:?} are nested deeper than {MAX_JSON_DEPTH} levels; send less \
         deeply nested ones",
        call.name
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(raw: &str) -> Result<(), String> {
        let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
        check_call_arguments(&ToolCall::from_raw("1", "weather", raw), &schema)
    }

    #[test]
    fn empty_text_is_an_empty_object() {
        assert_eq!(parse(""), Ok(()));
        assert_eq!(parse(" \n"), Ok(()));
    }

    #[test]
    fn empty_text_is_checked_against_the_schema() {
        let call = ToolCall::from_raw("1", "weather", "");
        let schema = json!({"required": ["city"]});
        let error = check_call_arguments(&call, &schema).expect_err("refused");
        assert!(error.contains("/city: required, but missing"), "{error}");
    }

    #[test]
    fn invalid_json_error_names_the_position_and_quotes_the_text() {
        let error = parse(r#"{"city": "Par"#).expect_err("refused");
        assert!(error.contains("not valid JSON"), "{error}");
        assert!(error.contains("line 1 column 13"), "{error}");
        assert!(error.contains(r#"They were: {"city": "Par"#), "{error}");
        assert!(error.contains(r#""type":"string""#), "{error}");
    }

    #[test]
    fn long_invalid_text_is_cut_in_the_error() {
        let error =
            parse(&format!("{{\"city\": \"{}", "\u{e9}".repeat(5_000))).expect_err("refused");
        assert!(error.len() < 1_500, "{}", error.len());
        assert!(error.contains("bytes left out"), "{error}");
    }

    #[test]
    fn arguments_that_are_not_an_object_are_rejected() {
        for (raw, got) in [
            ("[1]", "array"),
            ("null", "null"),
            ("\"x\"", "string"),
            ("3", "number"),
        ] {
            let error = parse(raw).expect_err("refused");
            assert!(
                error.contains(&format!("/: expected object, got {got}")),
                "{error}"
            );
        }

        let call = ToolCall::new("1", "weather", Value::Null);
        let error = check_call_arguments(&call, &json!({})).expect_err("refused");
        assert!(error.contains("got null"), "{error}");
    }

    #[test]
    fn changed_call_is_checked_by_its_new_arguments() {
        let call = ToolCall::from_raw("1", "weather", "{").with_args(json!({"city": "Oslo"}));
        assert_eq!(check_call_arguments(&call, &json!({})), Ok(()));
    }
}
