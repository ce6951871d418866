//! The output of a run in the requested format.

use serde_json::Value;

use crate::message::{MAX_JSON_DEPTH, is_too_deep};
use crate::run::OutputFormat;
use crate::tool::check_arguments;
use crate::util::json::has_more_values;

/// Parses the value in a model's text; the error is the text to send back to the model. A text with
/// more than `max_values` values is not parsed.
pub(super) fn read(format: &OutputFormat, text: &str, max_values: usize) -> Result<Value, String> {
    let json = unfence(text);
    if has_more_values(json, max_values) {
        return Err(format!(
            "Your answer has more than {max_values} JSON values. Answer again with only a smaller \
             JSON value that matches this schema:\n{}",
            format.schema
        ));
    }

    let value: Value = serde_json::from_str(json).map_err(|error| {
        format!(
            "Your answer is not valid JSON: {error}. Answer again with only a JSON value that \
             matches this schema:\n{}",
            format.schema
        )
    })?;

    if is_too_deep(&value) {
        return Err(format!(
            "Your answer is nested deeper than {MAX_JSON_DEPTH} levels. Answer again with only a \
             JSON value that matches this schema:\n{}",
            format.schema
        ));
    }

    match check_arguments(&format.schema, &value) {
        Ok(()) => Ok(value),
        Err(problems) => Err(format!(
            "Your answer does not match the schema:\n{problems}\nAnswer again with only a JSON \
             value that matches this schema:\n{}",
            format.schema
        )),
    }
}

/// Removes the code fence that models without native structured output often add.
fn unfence(text: &str) -> &str {
    let text = text.trim();
    let Some(content) = text.strip_prefix("```") else {
        return text;
    };
    let content = content.strip_prefix("json").unwrap_or(content);
    content.strip_suffix("```").unwrap_or(content).trim()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn format() -> OutputFormat {
        OutputFormat {
            name: "city".into(),
            schema: Arc::new(json!({
                "type": "object",
                "properties": {"name": {"type": "string"}},
                "required": ["name"],
            })),
        }
    }

    #[test]
    fn code_fences_are_removed() {
        let expected = Ok(json!({"name": "Oslo"}));
        assert_eq!(read(&format(), "{\"name\": \"Oslo\"}", 10), expected);
        assert_eq!(
            read(&format(), "```json\n{\"name\": \"Oslo\"}\n```", 10),
            expected
        );
    }

    #[test]
    fn error_names_invalid_json_or_the_schema_path() {
        let prose_error = read(&format(), "Oslo, of course!", 100).unwrap_err();
        assert!(prose_error.contains("not valid JSON"), "{prose_error}");
        let schema_error = read(&format(), "{\"name\": 3}", 10).unwrap_err();
        assert!(schema_error.contains("/name"), "{schema_error}");
    }

    #[test]
    fn json_over_the_value_limit_is_rejected() {
        let text = r#"{"name": "Oslo", "more": [1, 2, 3]}"#;
        assert!(read(&format(), text, 6).is_ok());
        let problem = read(&format(), text, 5).unwrap_err();
        assert!(problem.contains("more than 5 JSON values"), "{problem}");
        assert!(problem.contains("\"required\""), "{problem}");
    }
}
