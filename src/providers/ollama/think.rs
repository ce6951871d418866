//! The field that switches thinking.

use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use crate::error::{Error, ErrorKind, Result};
use crate::model::ThinkingMode;

use super::super::raw_object::{RawFields, bytes_of};
use super::super::send::Remedy;

/// Returns the value of `think` for a mode of thinking.
///
/// # Errors
///
/// Returns [`ErrorKind::Config`] for an effort that Ollama has no level for.
pub(super) fn think_value(mode: &ThinkingMode, model: &str) -> Result<Value> {
    let effort = match mode {
        ThinkingMode::Disabled => return Ok(json!(false)),
        ThinkingMode::Budget(_) | ThinkingMode::Adaptive => return Ok(json!(true)),
        ThinkingMode::Effort(effort) => &**effort,
    };
    match effort {
        "none" => Ok(json!(false)),
        "minimal" => Ok(json!("low")),
        "low" | "medium" | "high" | "max" => Ok(json!(effort)),
        "xhigh" => Ok(json!("max")),
        _ => Err(Error::new(
            ErrorKind::Config,
            format!("{model} has no effort {effort:?}; use one of: none, low, medium, high, max"),
        )),
    }
}

/// Returns the second body for `error`, if the server refused the level in `body`: most models have
/// no levels, and older servers have no `max`.
pub(super) fn remedy(error: &Error, body: &[u8]) -> Option<Remedy> {
    let text = error.text();
    let has_no_levels = text.contains("is not supported for this model");
    if !has_no_levels && !text.contains("invalid think value") {
        return None;
    }

    // The body has the media of the request, so it is parsed for these two errors alone.
    let mut fields: RawFields<'_> = serde_json::from_slice(body).ok()?;
    let level: String = serde_json::from_str(fields.get("think")?.get()).ok()?;
    let (level, warning) = if has_no_levels {
        let warning = "the model has no levels of thinking; it thinks without one";
        (json!(true), warning)
    } else if level == "max" {
        let warning = "the server has no level \"max\" of thinking; \"high\" was sent";
        (json!("high"), warning)
    } else {
        return None;
    };
    let level = to_raw_value(&level).ok()?;
    fields.insert("think".to_owned(), &level);
    Some(Remedy {
        body: bytes_of(to_raw_value(&fields).ok()?),
        warning: warning.to_owned(),
    })
}
