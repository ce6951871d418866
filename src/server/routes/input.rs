//! The body of a run's request.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::message::{Message, Messages};

use super::super::error::ApiError;
use super::schemas;

/// The maximum length of an input's id, in bytes.
pub(super) const MAX_INPUT_ID: usize = 256;

/// The body of a run's request.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunBody {
    /// The input: messages of the roles `user` and `system`.
    #[schemars(with = "Vec<schemas::InputMessage>")]
    messages: Option<Box<RawValue>>,
    /// The thread to continue, or the id of a new thread: 1 to 128 of the characters A-Z a-z 0-9 .
    /// _ : -. All users of a store share its ids, and the id of another user's thread is a 404.
    /// Omit it for a new thread with an unused id that cannot be guessed.
    pub(super) thread_id: Option<String>,
    /// Set to `false` to record no trace of the run. Defaults to `true`.
    #[serde(default)]
    trace: Option<bool>,
    /// The id of the input. An input with the id of an earlier input is not processed again.
    pub(super) input_id: Option<String>,
}

impl RunBody {
    /// Returns the input.
    pub(super) fn messages(&self) -> Result<Messages, ApiError> {
        let json = self.messages.as_deref().map_or("[]", RawValue::get);
        let messages = Messages::from_json(json)?;
        let check = messages.validate_user_input();
        check.map_err(|error| ApiError::bad_request(error.to_string()))?;
        Ok(messages)
    }

    /// Returns the id of the input, if it is valid.
    pub(super) fn checked_input_id(&self) -> Result<Option<&str>, ApiError> {
        checked_input_id(self.input_id.as_deref())
    }

    pub(super) fn is_traced(&self) -> bool {
        self.trace.unwrap_or(true)
    }
}

/// Checks the id of an input.
pub(super) fn checked_input_id(id: Option<&str>) -> Result<Option<&str>, ApiError> {
    match id {
        Some(id) if id.is_empty() || id.len() > MAX_INPUT_ID => {
            let text = format!("the id of an input has 1 to {MAX_INPUT_ID} bytes");
            Err(ApiError::bad_request(text))
        }
        id => Ok(id),
    }
}

/// A message that steers a run.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SteerBody {
    /// The text, or a list of parts.
    #[schemars(with = "serde_json::Value")]
    content: Box<RawValue>,
    /// The id of the message, so that it is added only once even if it is sent twice.
    pub(super) input_id: Option<String>,
}

impl SteerBody {
    pub(super) fn message(&self) -> Result<Message, ApiError> {
        let json = format!(r#"[{{"role":"user","content":{}}}]"#, self.content.get());
        let messages = Messages::from_json(json)?;
        let check = messages.validate_user_input();
        check.map_err(|error| ApiError::bad_request(error.to_string()))?;
        let message = messages.last().cloned();
        message.ok_or_else(|| ApiError::bad_request("content must not be empty"))
    }
}
