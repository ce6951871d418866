//! The field that switches thinking.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::error::{Error, ErrorKind, Result};
use crate::model::ThinkingMode;

use super::super::ask::Remedy;

/// The value of `think` for a mode of thinking.
///
/// # Errors
///
/// [`ErrorKind::Config`] for an effort that Ollama has no level for.
pub(super) fn think(mode: &ThinkingMode, model: &str) -> Result<Value> {
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

/// The second body for `error`, if the server refused the level in `body`: most models are only
/// switched, and older servers have no `max`.
pub(super) fn remedy(error: &Error, body: &[u8]) -> Option<Remedy> {
    let text = error.text();
    let has_no_levels = text.contains("is not supported for this model");
    if !has_no_levels && !text.contains("invalid think value") {
        return None;
    }

    // The body has the media of the request, so it is parsed for these two errors alone.
    let mut fields: Map<String, Value> = serde_json::from_slice(body).ok()?;
    let level = fields.get_mut("think").filter(|level| level.is_string())?;
    let warning = if has_no_levels {
        *level = json!(true);
        "the model has no levels of thinking; it thinks without one"
    } else if *level == "max" {
        *level = json!("high");
        "the server has no level \"max\" of thinking; \"high\" was sent"
    } else {
        return None;
    };
    Some(Remedy {
        body: Bytes::from(serde_json::to_vec(&fields).ok()?),
        warning: warning.to_owned(),
    })
}
